"""Typed replies: the JSON object in a model's reply, checked against the schema that it was asked for.

Models wrap JSON in prose, in code fences, or after their reasoning. The whole text is tried first, then fenced blocks,
then every object that stands in the text, the last first, since an answer follows its reasoning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from engine.errors import UnreadableReplyError

A = TypeVar("A", bound=BaseModel)

MAX_REPLY = 400_000
"""Characters of a reply that are looked at."""
_MAX_OBJECTS = 32
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)


def parse_reply(text: str, answer: type[A]) -> A:
    """The reply as an `answer`. UnreadableReplyError says what is wrong with the likeliest candidate."""
    if len(text) > MAX_REPLY:
        raise UnreadableReplyError(
            f"the reply has {len(text)} characters, more than {MAX_REPLY}; ask for a shorter one"
        )
    first: ValidationError | None = None
    for candidate in _candidates(text):
        try:
            return answer.model_validate_json(candidate)
        except ValidationError as error:
            first = first or error
    if first is None:
        shown = text if len(text) <= 120 else text[:117] + "..."
        raise UnreadableReplyError(
            f"the reply holds no JSON object: {shown!r}; answer with one object of the given schema"
        )
    problem = first.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(map(str, problem["loc"])) or "the object"
    raise UnreadableReplyError(
        f"the reply does not fit {answer.__name__}: {where}: {problem['msg']}; mend that field"
    ) from first


def _candidates(text: str) -> Iterator[str]:
    bare = text.strip()
    if bare.startswith("{") and bare.endswith("}"):
        yield bare
    yield from reversed(_FENCE.findall(text))
    yield from reversed(list(_objects(text)))


def _objects(text: str) -> Iterator[str]:
    """The outermost JSON objects of the text, in order; at most a few starts are tried."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    for _ in range(_MAX_OBJECTS):
        if at < 0:
            return
        try:
            _, end = decoder.raw_decode(text, at)
            yield text[at:end]
        except (json.JSONDecodeError, RecursionError):
            end = at + 1
        at = text.find("{", end)
