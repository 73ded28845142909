"""What a job says of how a model is to answer, of what it costs, and of where its key is."""

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from engine.errors import UsageError
from engine.settings import Settings


class Params(Settings):
    """Sampling parameters, in the words of the OpenAI chat API. They enter the id of every request."""

    temperature: float = Field(default=0.0, ge=0, le=100)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: int = Field(
        default=1024, ge=1, le=10**7, description="tokens of one choice; a longer reply is cut, and corrected"
    )
    n: int = Field(default=1, ge=1, le=1_024, description="choices of each request")
    seed: int | None = Field(default=None, ge=-(2**63), le=2**63 - 1)
    stop: tuple[str, ...] = ()
    logprobs: bool = False
    top_logprobs: int | None = Field(default=None, ge=0, le=1_000)
    reasoning_effort: str | None = None
    extra: dict[str, Any] = Field(default={}, description="further fields of the request's body, passed as they are")

    def plain(self) -> dict[str, Any]:
        """As a request carries them: what was not set is absent."""
        chosen = self.model_dump(mode="json", exclude_defaults=True, exclude={"extra"})
        return {"temperature": self.temperature, "max_tokens": self.max_tokens, **chosen, **self.extra}


class Price(Settings):
    """US dollars for a million tokens. `cached` prompt tokens cost as others where no price is given for them."""

    prompt: float = Field(default=0.0, ge=0, le=1e6)
    completion: float = Field(default=0.0, ge=0, le=1e6)
    cached: float | None = Field(default=None, ge=0, le=1e6)

    def of(self, prompt_tokens: float, completion_tokens: float, cached_tokens: float = 0) -> float:
        """What these tokens cost; `cached_tokens` are among the prompt's."""
        cached = self.prompt if self.cached is None else self.cached
        fresh = prompt_tokens - cached_tokens
        return (fresh * self.prompt + cached_tokens * cached + completion_tokens * self.completion) / 1e6


def _check_secret_source(text: str) -> str:
    if text and not (text.startswith("${") and text.endswith("}") and len(text) > 3) and not text.startswith("file:"):
        raise PydanticCustomError(
            "secret_in_job",
            "a key does not belong in a job file; write ${NAME} for an environment variable, or file:PATH",
        )
    return text


SecretSource = Annotated[str, AfterValidator(_check_secret_source)]
"""Where a key is: `${NAME}` or `file:PATH`. The key itself is in no settings object, so that nothing can print it."""


def read_secret(source: str) -> str:
    """The key at this source, "" for none. Raises UsageError that names the source."""
    if not source:
        return ""
    if source.startswith("file:"):
        try:
            return Path(source.removeprefix("file:")).expanduser().read_text().strip()
        except OSError as error:
            raise UsageError(
                f"the key file {source} cannot be read: {error.strerror}; mount it on every node"
            ) from None
    name = source[2:-1]
    if not os.environ.get(name):
        raise UsageError(f"the environment variable {name} is empty on this machine; set it to the API key")
    return os.environ[name]
