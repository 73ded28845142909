"""What a job says of how a model is to answer, and of what it costs."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from engine.keys import find_secret, secret_in_job
from engine.settings import Settings


def _check_passed_on(values: dict[str, Any]) -> dict[str, Any]:
    if name := find_secret(values):
        raise secret_in_job(f"{name} looks like a secret, which is kept with every request and in the run's files")
    return values


PassedOn = Annotated[dict[str, Any], AfterValidator(_check_passed_on)]
"""Settings that are handed on as they are: no secret may be among them."""


class Params(Settings):
    """Sampling parameters, in the words of the OpenAI chat API. They enter the id of every request."""

    temperature: float | None = Field(
        default=None, ge=0, le=100, description="none: as the task asks, 0.7 to 1 to write and 0 to judge"
    )
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: int | None = Field(
        default=None, ge=1, le=10**7,
        description="tokens of one choice; a longer reply is cut, and corrected. none: as many as the task needs",
    )  # fmt: skip
    n: int = Field(default=1, ge=1, le=1_024, description="choices of each request")
    seed: int | None = Field(default=None, ge=-(2**63), le=2**63 - 1)
    stop: tuple[str, ...] = ()
    logprobs: bool = False
    top_logprobs: int | None = Field(default=None, ge=0, le=1_000)
    reasoning_effort: str | None = None
    extra: PassedOn = Field(default={}, description="further fields of the request's body, passed as they are")

    def plain(self) -> dict[str, Any]:
        """As a request carries them: what was not set is absent."""
        return {**self.model_dump(mode="json", exclude_defaults=True, exclude={"extra"}), **self.extra}


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
