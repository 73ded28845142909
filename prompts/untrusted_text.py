"""Untrusted texts inside a prompt: fenced by a code that they cannot know, without anything that a chat format obeys.

    code = nonce("judge", topic_id, ...; texts)     a template writes <passage-CODE> text </passage-CODE>
    inert(text, limit)                              the text as it may stand between the two

The code follows from the call and its texts and stands in none of them. No special token of a chat format, no tag that
looks like a fence, no invisible character and no control character is left. Words stay as they are: a text may still
*say* anything, and the prompt says that it is data.
"""

import re
from collections.abc import Sequence

from engine.ids import content_id

NONCE_HEX = 16

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)
_OPENING = re.compile(
    r"<(?=[|\uff5c])"  # <|im_start|> and the like
    r"|<(?i:(?=/?(?:passage|query|instruction|question)))"  # our own fences
    r"|<(?=/?\w{1,32}>)"  # <s>, </s>, <start_of_turn>, <think>
    r"|<(?=</?SYS>>)"
    r"|\[(?=/?[A-Z_]{3,32}\])"  # [INST], [/INST], [SYSTEM_PROMPT]
)
_CLOSING = re.compile(r"(?<=[|\uff5c])>")


def inert(text: str, limit: int) -> str:
    """The first `limit` characters, with a space inside every token of a chat format and every fence."""
    visible = _INVISIBLE.sub("", text[:limit])
    opened = _OPENING.sub(lambda match: f"{match[0]} ", visible)
    return _CLOSING.sub(" >", opened) + ("" if len(text) <= limit else " [the rest is not shown]")


def nonce(texts: Sequence[str], *call: str) -> str:
    """A code for one call that stands in none of its texts; the same call has the same code."""
    code, tries = "", 0
    while not code or any(code in text for text in texts):
        code = content_id("nonce", *call, str(tries), *texts)[:NONCE_HEX]
        tries += 1
    return code
