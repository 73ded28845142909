"""Untrusted texts inside a prompt: fenced by a code that they do not hold, without anything that a chat format obeys.

    code = nonce(texts, "judge", ...)     a template writes <passage-CODE> text </passage-CODE>
    inert(text, limit)                    the text as it may stand between the two
    fenced(text, code)                    both: what the filter `fenced` of a template gives

The code follows from the call and its texts and stands in none of them. No special token of a chat format, no tag that
looks like a fence, no invisible character and no control character is left. Words stay as they are: a text may still
*say* anything, and the prompt says that it is data. What a model wrote after such a text is brought back by `as_meant`.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from foil.engine.ids import content_id
from foil.engine.texts.chat_tokens import broken, mended

A = TypeVar("A", bound=BaseModel)
NONCE_HEX = 4
"""Digits of a code. One more for each that stands in a text: a page may hold all codes of one length."""

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)
_FENCE = re.compile(r"<(?=/?(?:passage|query|instruction|question|text-))", re.IGNORECASE)
_OWN_FENCE = re.compile(r"< ?/?text-(?:[0-9a-f]{4,24}|example|CODE)>")


def inert(text: str, limit: int | None = None) -> str:
    """The first `limit` characters, with a space inside every token of a chat format and every fence."""
    visible = broken(_FENCE.sub("< ", _INVISIBLE.sub("", text[:limit])))
    return visible + ("" if limit is None or len(text) <= limit else " [the rest is not shown]")


def fenced(text: str, code: str) -> str:
    """The text as data, between tags that it cannot close."""
    return f"<text-{code}>{inert(text)}</text-{code}>"


def as_meant(text: str, sources: Iterable[str]) -> str:
    """What a model wrote, without fences that it repeats, and with tokens as they stand in what it was shown."""
    return mended(_OWN_FENCE.sub("", text), sources)


def reply_as_meant(reply: A, sources: Sequence[str]) -> A:
    """A reply with all its texts as they were meant."""
    meant = {name: _as_meant(value, sources) for name, value in reply}
    changed = {name: value for name, value in meant.items() if value != getattr(reply, name)}
    return reply.model_copy(update=changed) if changed else reply


def _as_meant(value: Any, sources: Sequence[str]) -> Any:
    if isinstance(value, str):
        return as_meant(value, sources)
    return tuple(_as_meant(item, sources) for item in value) if isinstance(value, tuple) else value


def nonce(texts: Sequence[str], *call: str) -> str:
    """A code for one call that stands in none of its texts; the same call has the same code."""
    code, tries = "", 0
    while not code or any(code in text for text in texts):
        code = content_id("nonce", *call, str(tries), *texts)[: NONCE_HEX + tries]
        tries += 1
    return code
