"""Lists of words as code and files write them."""

from pathlib import Path


def word_set(text: str) -> frozenset[str]:
    """The words of a list that is separated by white space."""
    return frozenset(text.split())


def words_of(file: Path) -> frozenset[str]:
    """The words of a file, separated by white space."""
    return word_set(file.read_text(encoding="utf-8"))
