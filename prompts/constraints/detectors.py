"""Detectors: the exact tests behind the constraint families, and the functions that build them.

A detector is a pair. Its finder takes (text, attributes, value) and returns the offset of the first witness, or -1. Its
offerer lists the values that a text makes true. Finders are linear in the text: no pattern nests a repetition.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

Attributes = Mapping[str, str]
Finder = Callable[[str, Attributes, str], int]
Offerer = Callable[[str, Attributes], Iterable[str]]
Detector = tuple[Finder, Offerer]


@lru_cache(maxsize=64)
def fold_text(text: str) -> str:
    """Lower case, runs of white space as one blank: the form in which phrases are looked for."""
    return " ".join(text.lower().split())


@lru_cache(maxsize=128)
def _lower(text: str) -> str:
    return text.lower()


def _has_any(text: str, hints: tuple[str, ...]) -> bool:
    for hint in hints:  # noqa: SIM110 - any() with a generator takes twice as long, and this is the hot spot
        if hint in text:
            return True
    return False


def _compile_search(pattern: str, hints: str, flags: int) -> Callable[[str], int]:
    """A search that gives an offset or -1. Every match has one of the `hints` (parted by |) in lower case."""
    search, needed = re.compile(pattern, flags).search, tuple(hints.split("|")) if hints else ()

    def search_offset(text: str) -> int:
        if needed and not _has_any(_lower(text), needed):
            return -1
        match = search(text)
        return match.start() if match else -1

    return search_offset


def by_pattern(pattern: str, hints: str = "", *, ignore_case: bool = True) -> Detector:
    """A family that a pattern finds, without values. `hints`: see `_compile_search`."""
    search = _compile_search(pattern, hints, re.MULTILINE | (re.IGNORECASE if ignore_case else 0))
    return (
        lambda text, _, value: search(text) if value == "" else -1,
        lambda text, _: ("",) if search(text) >= 0 else (),
    )


def by_patterns(patterns: Mapping[str, tuple[str, str]]) -> Detector:
    """A family with one (pattern, hints) per value."""
    searches = {value: _compile_search(pattern, hints, re.MULTILINE) for value, (pattern, hints) in patterns.items()}
    return (
        lambda text, _, value: searches[value](text) if value in searches else -1,
        lambda text, _: [value for value, search in searches.items() if search(text) >= 0],
    )


def by_occurrences(
    occurrences: Callable[[str], Iterable[tuple[str, int]]], is_offered: Callable[[str], bool] = bool
) -> Detector:
    """A family whose values occur in the text. `occurrences` lists (value, offset); `is_offered` selects values."""
    return (
        lambda text, _, wanted: next((offset for value, offset in occurrences(text) if value == wanted), -1),
        lambda text, _: dict.fromkeys(value for value, _offset in occurrences(text) if is_offered(value)),
    )


def by_count(count: Callable[[str], int], bounds: tuple[int, ...], *, at_least: bool) -> Detector:
    """The value is a bound on a count; the witness is the whole text. The tightest bound that holds is offered."""

    def find(text: str, _: Attributes, value: str) -> int:
        if not value.isdecimal():
            return -1
        total = count(text)
        return 0 if (total >= int(value) if at_least else total <= int(value)) else -1

    def offer(text: str, _: Attributes) -> Iterable[str]:
        total = count(text)
        tightest = [b for b in bounds if total >= b][-1:] if at_least else [b for b in bounds if total <= b][:1]
        return [str(bound) for bound in tightest]

    return find, offer


def by_attribute(key: str, normalise: Callable[[str], str] = str) -> Detector:
    """A family that asks for the value of an attribute of the passage, in its normal form."""

    def find(_text: str, attributes: Attributes, value: str) -> int:
        return 0 if value and normalise(attributes.get(key, "")) == value else -1

    def offer(_text: str, attributes: Attributes) -> Iterable[str]:
        value = normalise(attributes.get(key, ""))
        return (value,) if value else ()

    return find, offer


def _count_words(text: str) -> int:
    return len(text.split())


def _count_steps(text: str) -> int:
    """Lines with an equals sign: the written calculations of a worked solution."""
    return sum("=" in line for line in text.splitlines())


_WORD_BOUNDS, _STEP_BOUNDS = (25, 40, 60, 80, 120), (2, 3, 4, 5)
AT_MOST_WORDS = by_count(_count_words, _WORD_BOUNDS, at_least=False)
AT_LEAST_WORDS = by_count(_count_words, _WORD_BOUNDS, at_least=True)
AT_MOST_STEPS = by_count(_count_steps, _STEP_BOUNDS, at_least=False)
AT_LEAST_STEPS = by_count(_count_steps, _STEP_BOUNDS, at_least=True)
