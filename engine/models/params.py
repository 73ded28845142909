"""What a job says of how a model is to answer and of what it costs, and which of that an endpoint takes.

    dialect_of("o3-mini")            max_completion_tokens for max_tokens, no temperature, no logprobs
    dialect.after(refusal, params)   the dialect that avoids what a 400 complained of, or None

A dialect is known from the model's name, or learnt from a refusal. Reasoning models think before they answer, and their
limit counts the thoughts too: `thinking_tokens` is the room for them, on top of what a task's answer takes.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from foil.engine.keys import find_secret
from foil.engine.settings import Settings, secret_in_job

_SAMPLING = frozenset({"temperature", "top_p", "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs"})
"""What may be left out without a change of the task: the answer is then drawn as the model always draws."""
_REASONING = re.compile(r"(?:.*/)?(?:o[1-9]|gpt-5(?!-chat))(?:[-.:]|$)")
_FIXED_SAMPLING = re.compile(r"(?:.*/)?(?:o[1-9]|gpt-5(?!-chat|\.))(?:[-:]|$)")
_THINKS = re.compile(
    r"(?:^|[-_./:])(?:thinking|think|thinker|reasoning|reasoner|r1|qwq|qvq|gpt-oss|magistral|gemini-(?:2\.5|[3-9])|"
    r"grok-(?:3-mini|[4-9])|glm-(?:4\.[5-9]|[5-9]|z1)|minimax-m\d|kimi-k[2-9]-thinking|hunyuan-t1|ernie-x1|"
    r"exaone-deep|marco-o1|skywork-o1|seed-oss)(?=[-_./:]|$)"
)
"""Names of other makers' models that think before they answer."""
_ANSWERS_AT_ONCE = re.compile(r"non[-_]?(?:thinking|reasoning)|no[-_](?:think|reasoning)|instruct")
_NO_SYSTEM = re.compile(r"(?:.*/)?o1-(?:mini|preview)")
_REFUSES = re.compile(
    r"not support|unsupported|unrecogni[sz]ed|unknown|not permitted|not allowed|unexpected|only the default|"
    r"roles must alternate",
    re.IGNORECASE,
)
_SYSTEM_REFUSED = re.compile(
    r"messages\[\d+\]\.role.{0,40}system|system (?:role|messages?|prompts?)|roles must alternate user", re.IGNORECASE
)
"""The last is what chat templates of open models say (Mistral's), `System role not supported` what Gemma's does."""
_SHORT, _LONG = "max_tokens", "max_completion_tokens"
_THINKING = {"none": 0, "minimal": 2_000, "low": 4_000, "medium": 10_000, "high": 25_000, "xhigh": 50_000}
ROOM_FOR_THOUGHTS = _THINKING["medium"]
"""Tokens for the thoughts of a model of which no more is known."""


_CHOICES = (
    "pays for choices that nothing reads; leave it out: `replies.candidates` draws several answers where none passes, "
    "and checks each"
)
_FORM = "changes the form of a reply, which is read whole; leave it out"
_LOGPROBS = "asks for what nothing reads; leave it out: judges ask for it themselves"
_UNREAD = {
    **dict.fromkeys(("n", "best_of", "num_return_sequences"), _CHOICES),
    **dict.fromkeys(("stream", "stream_options", "echo"), _FORM),
    **dict.fromkeys(("logprobs", "top_logprobs"), _LOGPROBS),
}
"""Parameters of which a job has no use, and why."""


def _check_passed_on(values: dict[str, Any]) -> dict[str, Any]:
    if name := find_secret(values):
        raise secret_in_job(f"{name} looks like a secret, which is kept with every request and in the run's files")
    return values


PassedOn = Annotated[dict[str, Any], AfterValidator(_check_passed_on)]
"""Settings that are handed on as they are: no secret may be among them."""


class Params(Settings):
    """Sampling parameters, in the words of the OpenAI chat API. They enter the id of every request."""

    temperature: float | None = Field(
        None, ge=0, le=100, description="none: as the task asks, 0.7 to 1 to write and 0 to judge"
    )
    top_p: float | None = Field(None, gt=0, le=1)
    max_tokens: int | None = Field(
        None, ge=1, le=10**7,
        description="tokens of one choice; a longer reply is cut, and corrected. none: as many as the task needs",
    )  # fmt: skip
    n: int = Field(1, ge=1, le=1_024, description="1: `replies.candidates` draws several answers")
    seed: int | None = Field(None, ge=-(2**63), le=2**63 - 1)
    stop: tuple[str, ...] = ()
    logprobs: bool = Field(False, description="false: judges ask for them themselves")
    top_logprobs: int | None = Field(None, ge=0, le=1_000, description="none, as `logprobs`")
    reasoning_effort: str | None = None
    extra: PassedOn = Field({}, description="further fields of the request's body, passed as they are")

    @model_validator(mode="after")
    def _check_read(self) -> Self:
        for name, why in _UNREAD.items():
            for place, params in (("", self.__dict__), ("extra.", self.extra)):
                value = params.get(name) or None
                if value != (1 if why == _CHOICES and value else None):
                    raise ValueError(f"`{place}{name}: {json.dumps(value)}` {why}")
        return self

    def plain(self) -> dict[str, Any]:
        """As a request carries them: what was not set is absent."""
        return {**self.model_dump(mode="json", exclude_defaults=True, exclude={"extra"}), **self.extra}


class Price(Settings):
    """US dollars for a million tokens. `cached` prompt tokens cost as others where no price is given for them."""

    prompt: float = Field(0.0, ge=0, le=1e6)
    completion: float = Field(0.0, ge=0, le=1e6)
    cached: float | None = Field(None, ge=0, le=1e6)

    def of(self, prompt_tokens: float, completion_tokens: float, cached_tokens: float = 0) -> float:
        """What these tokens cost; `cached_tokens` are among the prompt's."""
        cached = self.prompt if self.cached is None else self.cached
        fresh = prompt_tokens - cached_tokens
        return (fresh * self.prompt + cached_tokens * cached + completion_tokens * self.completion) / 1e6


@dataclass(frozen=True, slots=True)
class Dialect:
    """`limit` names the most tokens of a reply, `dropped` are not sent; `system`: system messages are taken."""

    limit: str = _SHORT
    dropped: frozenset[str] = frozenset()
    system: bool = True

    def applied(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body of a request in this dialect."""
        result = {name: value for name, value in body.items() if name not in self.dropped and (name, value) != ("n", 1)}
        limit = result.pop(_LONG, None) or result.get(_SHORT)
        if limit is not None and (self.limit == _LONG or _LONG in body):
            result.pop(_SHORT, None)
            result[self.limit if _LONG not in body else _LONG] = limit
        return result if self.system else {**result, "messages": _without_system(result["messages"])}

    def after(self, refusal: str, params: Mapping[str, Any]) -> "Dialect | None":
        """The dialect that leaves out or renames what the refusal names; None where it names nothing of that kind."""
        if not _REFUSES.search(refusal):
            return None
        words = set(re.findall(r"\w+", refusal))
        dropped = self.dropped | {name for name in _SAMPLING & params.keys() if name in words}
        if "logprobs" in dropped:
            dropped |= {"top_logprobs"}
        alias = _LONG if self.limit == _SHORT else _SHORT
        limit = alias if self.limit in words and self.limit in refusal.split(alias, maxsplit=1)[0] else self.limit
        system = self.system and not _SYSTEM_REFUSED.search(refusal)
        learnt = replace(self, limit=limit, dropped=dropped, system=system)
        return learnt if learnt != self else None


def dialect_of(model: str) -> Dialect:
    """What is known of a model by its name; anything else is learnt when it is refused."""
    name = model.lower()
    return Dialect(
        _LONG if _REASONING.match(name) else _SHORT,
        _SAMPLING if _FIXED_SAMPLING.match(name) else frozenset(),
        not _NO_SYSTEM.match(name),
    )


def thinking_tokens(model: str, effort: str | None) -> int:
    """The room for the thoughts of a model that is known to reason, or that is asked to think so much."""
    name = model.lower()
    if effort is None and (_ANSWERS_AT_ONCE.search(name) or not (_FIXED_SAMPLING.match(name) or _THINKS.search(name))):
        return 0
    return _THINKING.get(effort or "medium", ROOM_FOR_THOUGHTS)


def _without_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with the system's text at the head of the first user message."""
    system = [message["content"] for message in messages if message["role"] == "system"]
    turns = [message for message in messages if message["role"] != "system"]
    if not system or not turns:
        return turns or messages
    first = {**turns[0], "content": "\n\n".join([*system, turns[0]["content"]])}
    return [first, *turns[1:]]
