"""What a provider's bytes and headers mean. Nothing in them is trusted: it is checked before it counts.

    body of a 200 -> read_answer -> Answer: choices, usage, logprobs, names
    headers -> retry_after, header_number -> seconds, a limit; None for what is absent or unreadable

Promise: every number is finite and in range, every name short and storable; usage that is absent or cannot be is
guessed from the characters, and marked. ValueError is the only exception. Price: one parse of the body.
"""

import email.utils
import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.requests import CHARACTERS_PER_TOKEN, SHORTEST_CONTEXT, Request, fewest_tokens, is_count

LONGEST_RETRY_AFTER_S = 86_400.0
"""A longer pause is taken as this one: it ends the run in any case."""
_NAME_CHARACTERS = 200
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")
_NOT_AN_ANSWER = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one reply. `guessed`: from its characters, since the provider told none that can be."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What the body of a 200 says. `choices` are (text, finish reason), at least one."""

    choices: tuple[tuple[str, str], ...]
    usage: Usage
    model: str
    revision: str
    logprobs: dict[str, Any] | None


def read_answer(content: bytes, request: Request) -> Answer:
    """The answer in a body. Raises ValueError for one that has none."""
    try:
        body = json.loads(content)
        choices = tuple((_text(choice["message"]), _reason(choice)) for choice in body["choices"])
        if not choices:
            raise ValueError("no choice")
        return Answer(
            choices,
            read_usage(body.get("usage"), request, choices),
            _name(body.get("model"), request.model),
            _name(body.get("system_fingerprint"), ""),
            read_logprobs(body["choices"][0].get("logprobs")),
        )
    except _NOT_AN_ANSWER as error:
        raise ValueError(f"not a chat completion: {type(error).__name__}") from None


def read_usage(told: Any, request: Request, choices: Sequence[tuple[str, str]]) -> Usage:
    """The usage that a provider tells, or one guessed where it tells none, or numbers that cannot be.

    Tokens are integers of at least 0, below 2^31; those from a cache are among the prompt's, which are no handful for a
    long prompt.
    """
    usage = told if isinstance(told, Mapping) else {}
    details = usage.get("prompt_tokens_details")
    cached = (details.get("cached_tokens") if isinstance(details, Mapping) else None) or 0
    numbers = [_whole(number) for number in (usage.get("prompt_tokens"), usage.get("completion_tokens"), cached)]
    if all(map(is_count, numbers)) and numbers[2] <= numbers[0] and not _is_too_small(numbers[0], request):
        return Usage(*numbers)
    prompt_tokens = sum(len(message.content) for message in request.messages) // CHARACTERS_PER_TOKEN
    completion_tokens = sum(len(text) for text, _ in choices) // CHARACTERS_PER_TOKEN
    return Usage(prompt_tokens, completion_tokens, guessed=True)


def _is_too_small(prompt_tokens: int, request: Request) -> bool:
    """Whether so few tokens are neither the prompt nor what a server left of it."""
    return prompt_tokens < min(SHORTEST_CONTEXT, fewest_tokens(request) // 4)


def read_logprobs(told: Any) -> dict[str, Any] | None:
    """The logprobs of the first choice, its tokens and the likeliest ones beside them; None if one is no number.

    A candidate that the provider calls impossible (minus infinity) is left out.
    """
    tokens = told.get("content") if isinstance(told, Mapping) else None
    if not isinstance(tokens, list):
        return None
    try:
        return {"content": [_token(token) | {"top_logprobs": _candidates(token)} for token in tokens]}
    except (*_NOT_AN_ANSWER, OverflowError):
        return None


def retry_after(headers: Mapping[str, str], wall: Callable[[], float] = time.time) -> float | None:
    """The pause that a 429 asks for, in seconds: retry-after-ms, or Retry-After in seconds or as an HTTP date.

    At most LONGEST_RETRY_AFTER_S; None if there is none, or none that can be read.
    """
    milliseconds = header_number(headers, "retry-after-ms")
    seconds = milliseconds / 1000 if milliseconds is not None else header_number(headers, "retry-after")
    if seconds is None:
        seconds = _seconds_until(headers.get("retry-after", ""), wall)
    return None if seconds is None else min(max(0.0, seconds), LONGEST_RETRY_AFTER_S)


def header_number(headers: Mapping[str, str], name: str) -> float | None:
    """The number in a header: digits, and a fraction if need be. None for anything else."""
    text = headers.get(name, "").strip()
    return float(text) if _NUMBER.fullmatch(text) else None


def _seconds_until(date: str, wall: Callable[[], float]) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(date).timestamp() - wall()
    except (ValueError, TypeError, LookupError, OverflowError, OSError):
        return None


def _text(message: Mapping[str, Any]) -> str:
    return str(message.get("content") or "")


def _reason(choice: Mapping[str, Any]) -> str:
    """A structured refusal counts as a reply that was held back."""
    return "content_filter" if choice["message"].get("refusal") else _name(choice.get("finish_reason"), "stop")


def _name(told: Any, default: str) -> str:
    """A short name that any file can hold."""
    return told[:_NAME_CHARACTERS].encode("utf-8", "replace").decode() if told and isinstance(told, str) else default


def _whole(number: Any) -> Any:
    """Some proxies write 12.0 for 12."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _token(told: Mapping[str, Any]) -> dict[str, Any]:
    token, logprob = told["token"], told["logprob"]
    if not isinstance(token, str) or type(logprob) not in {int, float} or not math.isfinite(logprob):
        raise ValueError("not a token with its log probability")
    return {"token": token, "logprob": float(logprob)}


def _candidates(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [_token(each) for each in told.get("top_logprobs") or () if each.get("logprob") != -math.inf]
