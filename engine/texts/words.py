"""Words of texts: lists as code and files write them, the number by which texts are compared, and where sentences end.

No rule of sentences fits all. To count or compare them, any stop before white space will do; to cut a text, or to say
that it has one sentence, an abbreviation must not pass for an end. The rules decide rows, so none changes for
another's sake.
"""

import hashlib
import re
from pathlib import Path


def word_set(text: str) -> frozenset[str]:
    """The words of a list that is separated by white space."""
    return frozenset(text.split())


def words_of(file: Path) -> frozenset[str]:
    """The words of a file, separated by white space."""
    return word_set(file.read_text(encoding="utf-8"))


def text_key(text: str, *, kind: str = "") -> int:
    """64 bits of a text, the same for texts that differ in blanks or case only; 0 for no text of no kind.

    `kind`: of what kind it is, where keys of several kinds are kept together.
    """
    normal = " ".join(text.split()).casefold()
    keyed = f"{kind}\x1f{normal}" if kind else normal
    digest = hashlib.blake2b(keyed.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True) if keyed else 0


SENTENCE_GAP = re.compile(r"(?<=[.!?])\s+")
"""White space after a stop: what `split` parts sentences by."""

CUTTING_PLACE = re.compile(r"[.!?][\"'”)]?\s+|\n\n+")
"""A stop with its white space, or a blank line: where a text that is too long may be cut."""

SENTENCE_END = re.compile(r"[.!?][\"')\]”]*\s+(?=[\"'(\[“]?[A-Z])|\s\.\s+(?=\w)|[。！？](?=\s*\S)")
"""A stop before a capital, one that stands alone, or one of Chinese and Japanese; an abbreviation may stand before."""

PROSE_END = re.compile(r"[.!?][\"')\]”]*(\s+)(?=[A-Z0-9\"'(\[“•])|(?<=\s)\.(\s+)(?=\w)")
"""A stop before a capital, a figure or a bullet, or one that stands alone. Its groups are the white space."""

DOCSTRING_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[A-Z\"'(\[`*]|[a-z_]+[.(_])")
"""White space after a stop in documentation, where a sentence may begin with a name of code."""
