"""Detectors: the exact tests behind the constraint families, and the functions that build them.

A detector has three functions. Its finder takes (text, attributes, value) and returns the offset of the first witness
that every reader would accept, or -1. Its offerer lists the values that a text makes true. `unsure` tells whether a
text without a witness has something that a reader might still take for one: then neither the demand nor its denial is
used. A text that is just within a bound may be doubted as well (`doubts_witness`).
Finders are linear in the text: no pattern nests a repetition.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

Attributes = Mapping[str, str]
Finder = Callable[[str, Attributes, str], int]
Offerer = Callable[[str, Attributes], Iterable[str]]
Doubt = Callable[[str, Attributes, str], bool]


def _never(_text: str, _attributes: Attributes, _value: str) -> bool:
    return False


class Detector(NamedTuple):
    """How a family is decided; see above."""

    find: Finder
    offer: Offerer
    unsure: Doubt = _never
    doubts_witness: bool = False
    """Whether `unsure` counts where there is a witness too."""


@lru_cache(maxsize=64)
def fold_text(text: str) -> str:
    """Lower case, runs of white space as one blank: the form in which phrases are looked for."""
    return " ".join(text.lower().split())


@lru_cache(maxsize=128)
def _lower(text: str) -> str:
    return text.lower()


def _compile_search(pattern: str, hints: str, flags: int) -> Callable[[str], int]:
    """A search that gives an offset or -1. Every match has one of the `hints` (parted by |) in lower case."""
    search, needed = re.compile(pattern, flags).search, tuple(hints.split("|"))

    def search_offset(text: str) -> int:
        lowered = _lower(text)
        for hint in needed:
            if hint in lowered:
                break
        else:
            return -1
        match = search(text)
        return match.start() if match else -1

    return search_offset


def by_pattern(pattern: str, hints: str = "", *, ignore_case: bool = True, loose: str = "") -> Detector:
    """A family that a pattern finds, without values. `loose` finds what may count. `hints`: see `_compile_search`."""
    search = _compile_search(pattern, hints, re.MULTILINE | (re.IGNORECASE if ignore_case else 0))
    doubt = _compile_search(loose or pattern, "" if loose else hints, re.MULTILINE | re.IGNORECASE)
    return Detector(
        lambda text, _, value: search(text) if value == "" else -1,
        lambda text, _: ("",) if search(text) >= 0 else (),
        lambda text, _attributes, _value: doubt(text) >= 0,
    )


def by_patterns(patterns: Mapping[str, tuple[str, str]], loose: Mapping[str, str] | None = None) -> Detector:
    """A family with one (pattern, hints) per value, and per value a looser pattern of what may count."""
    searches = {value: _compile_search(pattern, hints, re.MULTILINE) for value, (pattern, hints) in patterns.items()}
    doubts = {
        value: _compile_search(pattern, "", re.MULTILINE | re.IGNORECASE) for value, pattern in (loose or {}).items()
    }
    return Detector(
        lambda text, _, value: searches[value](text) if value in searches else -1,
        lambda text, _: [value for value, search in searches.items() if search(text) >= 0],
        lambda text, _, value: value in doubts and doubts[value](text) >= 0,
    )


def by_occurrences(
    occurrences: Callable[[str], Iterable[tuple[str, int]]], is_offered: Callable[[str], bool] = bool
) -> Detector:
    """A family whose values occur in the text. `occurrences` lists (value, offset); `is_offered` selects values.

    A value that stands in the text in another way may count.
    """
    return Detector(
        lambda text, _, target: next((offset for value, offset in occurrences(text) if value == target), -1),
        lambda text, _: dict.fromkeys(value for value, _offset in occurrences(text) if is_offered(value)),
        lambda text, _, value: bool(value) and value.lower() in _lower(text),
    )


def by_count(
    count: Callable[[str], int], bounds: tuple[int, ...], is_near: Callable[[str, int], bool], *, at_least: bool
) -> Detector:
    """The value is a bound on a count; the witness is the whole text. The tightest bound that holds is offered.

    A text whose count `is_near` the bound is in doubt, on whichever side it lies.
    """

    def find(text: str, _: Attributes, value: str) -> int:
        if not value.isdecimal():
            return -1
        total = count(text)
        return 0 if (total >= int(value) if at_least else total <= int(value)) else -1

    def offer(text: str, attributes: Attributes) -> Iterable[str]:
        clear = [b for b in bounds if find(text, attributes, str(b)) >= 0 and not is_near(text, b)]
        return [str(bound) for bound in (clear[-1:] if at_least else clear[:1])]

    def unsure(text: str, _: Attributes, value: str) -> bool:
        return not value.isdecimal() or is_near(text, int(value))

    return Detector(find, offer, unsure, doubts_witness=True)


def by_attribute(key: str, normalise: Callable[[str], str] = str) -> Detector:
    """A family that asks for the value of an attribute of the passage, in its normal form."""

    def find(_text: str, attributes: Attributes, value: str) -> int:
        return 0 if value and normalise(attributes.get(key, "")) == value else -1

    def offer(_text: str, attributes: Attributes) -> Iterable[str]:
        value = normalise(attributes.get(key, ""))
        return (value,) if value else ()

    return Detector(find, offer, lambda _text, attributes, _value: not normalise(attributes.get(key, "")))


def _count_words(text: str) -> int:
    return len(text.split())


def _is_near_words(text: str, bound: int) -> bool:
    """Within a quarter: too near for a reader who does not count."""
    return abs(_count_words(text) - bound) <= max(1, bound // 4)


def _count_steps(text: str) -> int:
    """Lines with an equals sign: the written calculations of a worked solution."""
    return sum("=" in line for line in text.splitlines())


def _most_steps(text: str) -> int:
    """Lines that a reader may count too: those with two numbers, which may be a calculation in words."""
    return sum("=" in line or len(_NUMERAL.findall(line)) > 1 for line in text.splitlines())


def _exceeds_nearly(text: str, bound: int) -> bool:
    """Neither surely at most the bound, nor two lines above it."""
    return _most_steps(text) > bound and _count_steps(text) < bound + 2


def _falls_short_nearly(text: str, bound: int) -> bool:
    """Neither surely at least the bound, nor two lines below it."""
    return _count_steps(text) < bound and _most_steps(text) > bound - 2


_NUMERAL = re.compile(r"\d[\d.,]*")
_WORD_BOUNDS, _STEP_BOUNDS = (40, 60, 80, 120, 200), (2, 3, 4, 5)
AT_MOST_WORDS = by_count(_count_words, _WORD_BOUNDS, _is_near_words, at_least=False)
AT_LEAST_WORDS = by_count(_count_words, _WORD_BOUNDS, _is_near_words, at_least=True)
AT_MOST_STEPS = by_count(_count_steps, _STEP_BOUNDS, _exceeds_nearly, at_least=False)
AT_LEAST_STEPS = by_count(_count_steps, _STEP_BOUNDS, _falls_short_nearly, at_least=True)
