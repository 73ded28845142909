"""What sort of text a passage is, told by its attributes and its first lines."""

import re

from foil.engine.topic import Passage
from foil.prompts.constraints.code_detectors import count_code_lines
from foil.prompts.constraints.families import FAMILIES, Kind
from foil.prompts.passages.layout import sentences

_RESULT = re.compile(r"(?:####|A:|The answer is:?)(?:\s+\S+){1,6}")
_SPOKEN = frozenset({"", "en", "english"})


def kind_of(passage: Passage) -> Kind:
    """What sort of text a passage is: which constraints make sense for it, and how it may be cut."""
    form = passage.attributes.get("form", "")
    if form in ("source", "documentation"):
        return "code" if form == "source" else "documentation"
    if form == "abstract":
        return "abstract"
    text = passage.text[:1500]
    lines = count_code_lines(text)
    if lines * 4 >= text.count("\n") + 1 or (lines > 1 and passage.attributes.get("language", "") not in _SPOKEN):
        return "code"
    if "library" in passage.attributes or "\n>>> " in text or text.startswith(">>> "):
        return "documentation"
    solved = _RESULT.fullmatch(text.rstrip().rpartition("\n")[2]) and len(text) == len(passage.text)
    return "mathematics" if solved or _calculates(text) else "text"


def _calculates(text: str) -> bool:
    """Whether at least every second line or sentence is a calculation: one in an abstract makes no solution of it."""
    pieces = [piece for line in text.splitlines() for _, piece in sentences(line)]
    calculations = sum(FAMILIES["arithmetic"].detector.find(piece, {}, "") >= 0 for piece in pieces)
    return calculations > 1 and len(pieces) <= 2 * calculations
