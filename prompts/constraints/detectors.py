"""Finders and offerers: the exact tests behind the constraint families, and what makes them.

A finder takes (text, attributes, value) and returns the offset of the first witness, or -1; an offerer lists the values
that a text makes true. Finders are linear in the text: patterns are compiled once and have no nested repetition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from prompts.constraints.phrases import phrases_of

Attributes = Mapping[str, str]
Finder = Callable[[str, Attributes, str], int]
Offerer = Callable[[str, Attributes], Iterable[str]]
Finding = tuple[Finder, Offerer]


_PLURALS = ("", "s", "es")


@lru_cache(maxsize=64)
def folded(text: str) -> str:
    """Lower case, runs of white space as one blank: the form in which phrases are looked for."""
    return " ".join(text.lower().split())


@lru_cache(maxsize=128)
def _lowered(text: str) -> str:
    return text.lower()


@lru_cache(maxsize=64)
def _spaced(text: str) -> str:
    return " ".join(text.split())


def _word_at(text: str, phrase: str, start: int) -> int:
    """Offset of the next whole-word occurrence of the phrase, bare or in the plural; -1 if none."""
    if not phrase:
        return -1
    at = text.find(phrase, start)
    while at >= 0:
        after = at + len(phrase)
        if not (at and (text[at - 1].isalnum() or text[at - 1] == "_") and (phrase[0].isalnum() or phrase[0] == "_")):
            for ending in _PLURALS:
                end = after + len(ending)
                if text.startswith(ending, after) and not (text[end : end + 1].isalnum() or text[end : end + 1] == "_"):
                    return at
        at = text.find(phrase, at + 1)
    return -1


def _find_mention(text: str, _: Attributes, value: str) -> int:
    return _word_at(folded(text), folded(value), 0)


def _find_name(text: str, _: Attributes, value: str) -> int:
    return _word_at(_spaced(text), value, 0)


def _find_discussed(text: str, _: Attributes, value: str) -> int:
    low, phrase = folded(text), folded(value)
    first = _word_at(low, phrase, 0)
    return first if first >= 0 and _word_at(low, phrase, first + 1) >= 0 else -1


def _found(phrases: Iterable[str], text: str, find: Finder) -> Iterable[str]:
    """The phrases that the finder finds too: outside ASCII a phrase may end where a word does not ("x²")."""
    return phrases if text.isascii() else [phrase for phrase in phrases if find(text, {}, phrase) >= 0]


def _offer_mentions(text: str, _: Attributes) -> Iterable[str]:
    return _found(phrases_of(text).terms, text, _find_mention)


def _offer_names(text: str, _: Attributes) -> Iterable[str]:
    return _found(phrases_of(text).names, text, _find_name)


def _offer_discussed(text: str, _: Attributes) -> Iterable[str]:
    return _found(phrases_of(text).repeated, text, _find_discussed)


_NUMBER = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w])|(?<![\w.,])\d+(?:\.\d+)?(?!\w)")
_YEAR = re.compile(r"(?<![\w.,$€£-])(?:1[5-9]|20)\d\d(?![\w%])(?![.,]\d)")


def _find_number(text: str, _: Attributes, value: str) -> int:
    return next((m.start() for m in _NUMBER.finditer(text) if m.group() == value), -1)


def _offer_numbers(text: str, _: Attributes) -> Iterable[str]:
    found = (m.group() for m in _NUMBER.finditer(text))
    return dict.fromkeys(n for n in found if len(n) > 1 and not _YEAR.fullmatch(n))


def _find_year(text: str, _: Attributes, value: str) -> int:
    return next((m.start() for m in _YEAR.finditer(text) if value in ("", m.group())), -1)


def _offer_years(text: str, _: Attributes) -> Iterable[str]:
    years = dict.fromkeys(m.group() for m in _YEAR.finditer(text))
    return (*years, "") if years else ()


def _has_any(text: str, hints: tuple[str, ...]) -> bool:
    for hint in hints:  # noqa: SIM110 - any() with a generator takes twice as long, and this is the hot spot
        if hint in text:
            return True
    return False


def _searcher(pattern: str, hints: str, flags: int) -> Callable[[str], int]:
    """A search that gives an offset or -1. Every match has one of the `hints` (parted by |) in lower case."""
    search, needed = re.compile(pattern, flags).search, tuple(hints.split("|")) if hints else ()

    def at(text: str) -> int:
        if needed and not _has_any(_lowered(text), needed):
            return -1
        found = search(text)
        return found.start() if found else -1

    return at


def by_pattern(pattern: str, hints: str = "", flags: int = re.IGNORECASE | re.MULTILINE) -> Finding:
    """A family that a pattern finds, without values. `hints`: see `_searcher`."""
    at = _searcher(pattern, hints, flags)
    return (lambda text, _, value: at(text) if value == "" else -1), (lambda text, _: ("",) if at(text) >= 0 else ())


def by_patterns(patterns: Mapping[str, tuple[str, str]], flags: int = re.MULTILINE) -> Finding:
    """A family with one (pattern, hints) a value."""
    finders = {value: _searcher(pattern, hints, flags) for value, (pattern, hints) in patterns.items()}

    def find(text: str, _: Attributes, value: str) -> int:
        return finders[value](text) if value in finders else -1

    def offer(text: str, _: Attributes) -> Iterable[str]:
        return [value for value, at in finders.items() if at(text) >= 0]

    return find, offer


def by_count(count: Callable[[str], int], bounds: tuple[int, ...], *, at_least: bool) -> Finding:
    """The value is a bound on a count; the witness is the whole text. The tightest bound that holds is offered."""

    def find(text: str, _: Attributes, value: str) -> int:
        if not value.isdecimal():
            return -1
        have = count(text)
        return 0 if (have >= int(value) if at_least else have <= int(value)) else -1

    def offer(text: str, _: Attributes) -> Iterable[str]:
        have = count(text)
        kept = [b for b in bounds if have >= b][-1:] if at_least else [b for b in bounds if have <= b][:1]
        return [str(b) for b in kept]

    return find, offer


WORD_BOUNDS = (25, 40, 60, 80, 120)
STEP_BOUNDS = (2, 3, 4, 5)


def count_words(text: str) -> int:
    """Runs of characters other than white space."""
    return len(text.split())


def count_steps(text: str) -> int:
    """Lines with an equals sign: the written calculations of a worked solution."""
    return sum("=" in line for line in text.splitlines())


def by_attribute(key: str, normal: Callable[[str], str] = str) -> Finding:
    """A family that asks for the value of an attribute of the passage, in its normal form."""

    def find(_text: str, attributes: Attributes, value: str) -> int:
        return 0 if value and normal(attributes.get(key, "")) == value else -1

    def offer(_text: str, attributes: Attributes) -> Iterable[str]:
        value = normal(attributes.get(key, ""))
        return (value,) if value else ()

    return find, offer


MENTION: Finding = (_find_mention, _offer_mentions)
NAME: Finding = (_find_name, _offer_names)
DISCUSSED: Finding = (_find_discussed, _offer_discussed)
NUMBER: Finding = (_find_number, _offer_numbers)
YEAR: Finding = (_find_year, _offer_years)
