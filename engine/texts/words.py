"""Lists of words as code and files write them, and the number by which texts are compared."""

import hashlib
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
