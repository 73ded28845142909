"""What a provider's bytes and headers mean. Nothing in them is trusted: it is checked before it counts.

    body of a 200 -> read_answer -> Answer: choices, usage, logprobs, names
    headers -> retry_after, header_number -> seconds, a limit; None for what is absent or unreadable
    replies -> UselessReplies -> ModelOutageError before the next send, where from the first on none is of any use

Promise: every number is finite and in range, every name short and storable; thoughts are no part of an answer's text
and are part of its usage. Usage that is absent or cannot be is guessed from the characters, and marked; so is one whose
sum does not add up. ValueError is all that reading raises. Price: one parse of the body.
"""

import email.utils
import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from foil.engine.errors import ModelOutageError
from foil.engine.keys import scrub
from foil.engine.requests import (
    CHARACTERS_PER_TOKEN,
    MOST_TOKENS,
    SHORTEST_CONTEXT,
    Ending,
    Reply,
    Request,
    ending_of,
    estimate_tokens,
    fewest_tokens,
    is_count,
)

LOG = logging.getLogger(__name__)
LONGEST_RETRY_AFTER_S = 86_400.0
"""A longer pause is taken as this one: it ends the run in any case."""
MOST_ALIKE = 40
"""Replies that may be of no use for one cause before the endpoint is given up."""
_CAUSES: dict[Ending, str] = {
    "cut": "reached their limit of tokens with no text: the model's thoughts take all of it; raise "
    "`params.max_tokens`, or set `params.reasoning_effort`",
    "broken": "were given up by the endpoint (finish_reason {reason!r}); see its own log",
    "unknown": "ended for a cause that is not known (finish_reason {reason!r}), so that none is taken for whole; mend "
    "the endpoint or the proxy before it",
}
_NAME_CHARACTERS = 200
_TEXT_PARTS = {None, "text", "output_text"}
_THOUGHTS = ("reasoning_content", "reasoning", "reasoning_text", "thinking", "thought", "thoughts", "analysis")
"""Fields of a message in which endpoints put what a model thinks, or by mistake what it answers."""
_MOST_THOUGHTS = 100_000
"""Tokens of a choice's thoughts that may come on top of its limit: some providers do not count them in it."""
_SPARE_TOKENS = 16
"""Tokens of a choice that may come on top of its limit, such as the mark of its end."""
_NO_NUMBER = 1e300
_UNSEEN_TOKENS = 10_000
"""Tokens that a provider may put before a prompt."""
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")
_NOT_AN_ANSWER = (ValueError, LookupError, TypeError, AttributeError, RecursionError, StopIteration)


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one reply, its thoughts among the completion's. `guessed`: from its characters, since the provider
    told none that can be; or the higher of two that do not agree."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What the body of a 200 says. `choices` are (text, finish reason), at least one. `elsewhere` names the field that
    holds text where the first choice's `content` is empty."""

    choices: tuple[tuple[str, str], ...]
    usage: Usage
    model: str
    revision: str
    logprobs: dict[str, Any] | None
    elsewhere: str = ""


def read_answer(content: bytes, request: Request) -> Answer:
    """The answer in a body. Raises ValueError for one that has none."""
    try:
        body = json.loads(content)
        messages = [choice["message"] for choice in body["choices"]]
        choices = tuple((_text(choice["message"]), _reason(choice)) for choice in body["choices"])
        if not choices:
            raise ValueError("no choice")
        thoughts = [_thoughts(message) for message in messages]
        written = sum(len(text) for text, _ in choices) + sum(len(text) for _, text in thoughts)
        return Answer(
            choices,
            read_usage(body.get("usage"), request, written),
            _name(body.get("model"), request.model),
            _name(body.get("system_fingerprint"), ""),
            read_logprobs(body["choices"][0].get("logprobs")),
            "" if choices[0][0].strip() else thoughts[0][0],
        )
    except _NOT_AN_ANSWER as error:
        raise ValueError(f"not a chat completion: {type(error).__name__}") from None


def thoughts_in(content: bytes) -> tuple[str, int]:
    """The field of an answer's first choice that holds thoughts outside its text, "" for none, and the tokens of all
    thoughts where they are counted."""
    body = json.loads(content)
    return _thoughts(body["choices"][0]["message"])[0], _thought_tokens(mapping(body.get("usage")))


def read_usage(raw: Any, request: Request, written: int) -> Usage:
    """The usage that a provider tells, or one guessed where it tells none, or numbers that cannot be.

    Tokens are integers of at least 0, below 2^31; those from a cache are among the prompt's, which are no handful for a
    long prompt. A reply of `written` characters took some, and no more than were allowed.
    """
    usage = mapping(raw)
    prompt, completion = (
        _number(usage, "prompt_tokens", "input_tokens"),
        _number(usage, "completion_tokens", "output_tokens"),
    )
    cached = _number(mapping(usage.get("prompt_tokens_details")), "cached_tokens") or 0
    guess = Usage(_tokens(sum(len(message.content) for message in request.messages)), _tokens(written), guessed=True)
    if not (is_count(prompt) and is_count(completion) and is_count(cached) and cached <= prompt):
        return guess
    completion_tokens, agrees = _with_thoughts(usage, prompt, completion, request)
    if completion_tokens is None or (written and not completion_tokens):
        completion_tokens, agrees = guess.completion_tokens, False
    if prompt > _most_prompt(request) or (guess.prompt_tokens and not prompt) or _is_too_small(prompt, request):
        prompt, cached, agrees = guess.prompt_tokens, 0, False
    return Usage(prompt, completion_tokens, cached, guessed=not agrees)


def _with_thoughts(usage: Mapping[str, Any], prompt: int, completion: int, request: Request) -> tuple[int | None, bool]:
    """The tokens of a completion with the thoughts that are not among them, and whether the sums agree; None for more
    than the request allows."""
    thoughts = _thought_tokens(usage)
    total = _number(usage, "total_tokens")
    hidden = max(0, total - prompt - completion) if is_count(total) else 0
    if not hidden and thoughts > completion:
        hidden = thoughts
    agrees = hidden in {0, thoughts} and total in {None, prompt + completion + hidden}
    _, limit = estimate_tokens(request)
    choices = int(request.params.get("n", 1))
    text = completion if hidden else completion - thoughts
    most_text = limit + choices * _SPARE_TOKENS if limit else MOST_TOKENS
    if text > most_text or completion + hidden > min(most_text + choices * _MOST_THOUGHTS, MOST_TOKENS):
        return None, False
    return completion + hidden, agrees


def _thought_tokens(usage: Mapping[str, Any]) -> int:
    """The tokens of thoughts, where they are counted; 0 else."""
    places = (*(mapping(usage.get(name)) for name in ("completion_tokens_details", "output_tokens_details")), usage)
    tokens = next((count for place in places if (count := _number(place, "reasoning_tokens")) is not None), 0)
    return int(tokens) if is_count(tokens) else 0


def _most_prompt(request: Request) -> int:
    """More tokens than a prompt can have: a token has a byte at least."""
    characters = sum(len(message.content) for message in request.messages) + len(str(request.schema or ""))
    return 4 * characters + _UNSEEN_TOKENS


def _is_too_small(prompt_tokens: int, request: Request) -> bool:
    """Whether so few tokens are neither the prompt nor what a server left of it."""
    return prompt_tokens < min(SHORTEST_CONTEXT, fewest_tokens(request) // 4)


def read_logprobs(raw: Any) -> dict[str, Any] | None:
    """The logprobs of the first choice, its tokens and the likeliest others; None if that of a token is no
    number and does not stand among the likeliest either.

    A candidate without a number, or that the provider calls impossible (minus infinity), is left out.
    """
    tokens = raw.get("content") if isinstance(raw, Mapping) else None
    if not isinstance(tokens, list):
        return None
    try:
        return {"content": [_token_read(token) for token in tokens]}
    except (*_NOT_AN_ANSWER, OverflowError):
        return None


class UselessReplies:
    """What the replies of one endpoint have in common, as long as none could be used; once one could, nothing stops."""

    def __init__(self, url: str) -> None:
        self._url, self._useful, self._alike, self._cause = url, False, 0, ""
        self._warned: set[str] = set()

    def heard(self, reply: Reply) -> None:
        """Notes a reply that has just come. A cause is said once."""
        cause = _cause_of(reply)
        if not cause:
            self._useful = True
            return
        self._alike = self._alike + 1 if cause == self._cause else 1
        self._cause = cause
        if cause not in self._warned:
            self._warned.add(cause)
            LOG.warning("%s: of its replies, some %s", self._url, cause)

    def check(self) -> None:
        """Raises ModelOutageError where another send could only cost."""
        if not self._useful and self._alike >= MOST_ALIKE:
            raise ModelOutageError(
                f"{self._url}: none of its replies can be used; the last {self._alike} {self._cause}; then run again"
            )


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


def _cause_of(reply: Reply) -> str:
    """Why no text can be had from a reply, in words; "" for one that has a text, or that a filter held back."""
    ending, is_empty = ending_of(reply.finish_reason), not reply.text.strip()
    if ending in {"broken", "unknown"} or (ending == "cut" and is_empty):
        return _CAUSES[ending].format(reason=scrub(reply.finish_reason))
    if ending == "withheld" or not is_empty:
        return ""
    if reply.elsewhere:
        return (
            f"have an empty `content`, and their text under `{reply.elsewhere}`, where thoughts belong: take the "
            "reasoning parser that fits the model, or none"
        )
    return "have an empty `content`: try another model, or its own chat template"


def _text(message: Mapping[str, Any]) -> str:
    """The text of a message, whose content is a text, a list of parts, or JSON that a proxy has read already."""
    content = message.get("content")
    if isinstance(content, str) or content is None:
        return content or ""
    if isinstance(content, Mapping) and "type" not in content:
        return json.dumps(content, ensure_ascii=False)
    parts = content if isinstance(content, list) else [content]
    return "".join(part if isinstance(part, str) else _part_text(part) for part in parts)


def _part_text(part: Mapping[str, Any]) -> str:
    """The text of a part; none of what is no text, such as a thought."""
    text = part.get("text", "") if part.get("type") in _TEXT_PARTS else ""
    text = text.get("value", "") if isinstance(text, Mapping) else text
    if not isinstance(text, str):
        raise TypeError("a part's text is none")
    return text


def _thoughts(message: Mapping[str, Any]) -> tuple[str, str]:
    """The field that holds what is not the answer, and its text; two empty ones where there is none."""
    for name in _THOUGHTS:
        if isinstance(text := message.get(name), str) and text.strip():
            return name, text
    content = message.get("content")
    parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    other_parts = [part for part in parts if part.get("type") not in _TEXT_PARTS]
    if not other_parts:
        return "", ""
    return "content (parts that are no text)", "".join(chain.from_iterable(map(_texts_in, other_parts)))


def _texts_in(part: Any) -> Iterator[str]:
    """The texts of a part, but for its type and its signature."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, list):
        yield from chain.from_iterable(map(_texts_in, part))
    elif isinstance(part, Mapping):
        values = (value for name, value in part.items() if name not in {"type", "signature", "id"})
        yield from chain.from_iterable(map(_texts_in, values))


def _reason(choice: Mapping[str, Any]) -> str:
    """Why the choice ended, in the provider's word. A structured refusal counts as a reply that was held back."""
    message, word = choice["message"], choice.get("finish_reason")
    parts = message["content"] if isinstance(message.get("content"), list) else []
    if message.get("refusal") or any(isinstance(part, Mapping) and part.get("type") == "refusal" for part in parts):
        return "content_filter"
    if choice.get("error"):
        return "error"
    return "stop" if word in (None, "") else _name(word if isinstance(word, str) else json.dumps(word), "unknown")


def _name(value: Any, default: str) -> str:
    """A short name that any file can hold."""
    return value[:_NAME_CHARACTERS].encode("utf-8", "replace").decode() if value and isinstance(value, str) else default


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _number(values: Mapping[str, Any], *names: str) -> Any:
    """The first of these that is there. Some proxies write 12.0 for 12."""
    number = next((values[name] for name in names if values.get(name) is not None), None)
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _tokens(characters: int) -> int:
    """The tokens of so many characters, as a guess."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def _token_read(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A token with its candidates, from which its own number follows where it has none."""
    candidates = [_token(each) for each in raw.get("top_logprobs") or () if _is_number(mapping(each).get("logprob"))]
    if not _is_number(raw["logprob"]):
        raw = next(each for each in candidates if each["token"] == raw["token"])
    return _token(raw) | {"top_logprobs": candidates}


def _token(raw: Mapping[str, Any]) -> dict[str, Any]:
    token, logprob = raw["token"], raw["logprob"]
    if not isinstance(token, str) or not _is_number(logprob):
        raise ValueError("not a token with its log probability")
    return {"token": token, "logprob": float(logprob)}


def _is_number(value: Any) -> bool:
    return type(value) in {int, float} and abs(value) < _NO_NUMBER
