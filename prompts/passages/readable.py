"""Whether a text of prose can be used as it stands: what a reader takes for a broken page is left out.

    flaw_of(passage) -> "" or the name of the first flaw: cut_off, repeated, menu, markup, noise

Only what no reader would accept counts. A passage that begins within a subject, or is dull, is readable.
"""

import re
from collections import Counter

from engine.topic import Passage
from prompts.passages.blocks import kind_of

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_CUT = re.compile(
    r"(?:\.\.\.|\u2026|\b(?:the|a|an|of|and|or|to|in|for|with|by|is|are|was|that|which|from|as|at|on))$", re.IGNORECASE
)
_MENU = re.compile(
    r"you are here|\bslide \d+ of \d|\u00bb|\u203a|\w \| [^|]{1,40} \| [^|]{1,40} \| |\b(?:click here|sign in|"
    r"log in to|add to cart|read more)\b",
    re.IGNORECASE,
)
_MARKUP = re.compile(
    r"</?(?:div|span|p|br|li|td|a|img)\b[^<>]{0,200}>|\bdata-[a-z]+-[a-z]+=|&(?:nbsp|amp|quot|#\d+);|\{ ?\w{1,30}:"
)
_NOISE = re.compile(r"\u00e2\u20ac|\u00c3[\u0080-\u00bf]|\ufffd|(?:\b\w\b ){6}|[^\w\s]{8}")
_LOST_SPACE = re.compile(r"[a-z]{2}\.[a-z]{2}")
_LOST_LETTER = re.compile(
    r"(?<![/@.\w-])[A-Za-z]{2,}[.?!](?!(?:com|org|net|edu|gov|info|html?|php|pdf|exe|txt|docx?|jpe?g|png|biz|mil)\b)"
    r"[a-z]{3,}(?![\w]*[./@(_])|[a-z]{4}(?<!pprox)\. [a-z]+ [a-z]+ [a-z]+"
)
"""A sentence without its first letters: MS MARCO's passages lose them where they were joined or cut."""
_RESUMED = re.compile(r"[.!?]([a-z]\w* \w+ \w+)")
"""What stands after a full stop without a blank: MS MARCO's passages begin again so, a letter short."""
_WORDS = re.compile(r"\w+")
_LOOKED_AT = 10_000
_LONG = 5
"""Words of a sentence that nobody writes twice in one passage."""


def flaw_of(passage: Passage) -> str:
    """The first flaw of a passage of prose, or ""; code, documentation and others have forms of their own."""
    text = passage.text
    if kind_of(passage) != "text":
        return ""
    if _CUT.search(text.rstrip()[-20:]):
        return "cut_off"
    if _MENU.search(text):
        return "menu"
    if _MARKUP.search(text):
        return "markup"
    if _repeats(text):
        return "repeated"
    lost = _LOST_LETTER.search(text) or len(_LOST_SPACE.findall(text)) > 3
    return "noise" if lost or _NOISE.search(text) else ""


def _repeats(text: str) -> bool:
    if any(text.count(words) > 1 for words in _RESUMED.findall(text[:_LOOKED_AT])):
        return True
    sentences = (tuple(_WORDS.findall(sentence.lower())) for sentence in _SENTENCE_END.split(text))
    counts = Counter(words for words in sentences if len(words) >= _LONG)
    return any(count > 1 for count in counts.values())
