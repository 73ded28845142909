"""Two texts compared word by word, as spans that a terminal or a page may draw as it likes.

    word_diff(old, new) -> what stayed, what was removed, what was added
    mark_unshared(text, reference) -> the text, its words that the reference lacks marked

Promise: the spans of `word_diff` without the removed ones are `new`; those of `mark_unshared` are the text. Price: the
middle of two texts is compared by difflib up to some 2,000 words each; beyond, it counts as replaced as a whole.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

Mark = Literal["same", "removed", "added", "unshared", "omitted"]

_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(rf"(\s+|[{_CJK}]|[^\W{_CJK}]+|[^\w\s])(\s*)")
_MOST_CELLS = 4_000_000
_LEAST_SAME = 3
_CONTEXT_CHARS = 120

Operation = tuple[str, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a text. `omitted`: the text says in words how much was left out here."""

    mark: Mark
    text: str


def word_diff(old: str, new: str) -> tuple[Span, ...]:
    """How `new` came out of `old`. Words are compared; blanks are taken from `new`."""
    olds, news = _tokens(old), _tokens(new)
    spans: list[Span] = []
    for kind, i1, i2, j1, j2 in _operations(olds, news):
        if kind == "equal":
            spans.append(Span("same", _joined(news[j1:j2])))
        else:
            lost_blanks = olds[i1 - 1][1] if i1 and j1 and not news[j1 - 1][1] else ""
            spans += [Span("removed", lost_blanks + _joined(olds[i1:i2])), Span("added", _joined(news[j1:j2]))]
    return tuple(span for span in spans if span.text)


def mark_unshared(text: str, reference: str) -> tuple[Span, ...]:
    """The text, with the mark `unshared` on each run of words that `reference` does not have in this place."""
    marks = {"same": "same", "added": "unshared"}
    return tuple(Span(marks[span.mark], span.text) for span in word_diff(reference, text) if span.mark in marks)  # type: ignore[arg-type]


def likeness(text: str, reference: str) -> float:
    """From 0 (no word in common) to 1 (the same words in the same order), for texts of a few hundred words."""
    first, second = ([word for word, _ in _tokens(each)[:2000]] for each in (text, reference))
    return SequenceMatcher(None, first, second, autojunk=False).ratio()


def plain(text: str, mark: Mark = "same") -> tuple[Span, ...]:
    """A text as one span, or as none where it is empty."""
    return (Span(mark, text),) if text else ()


def shorten(spans: Sequence[Span], limit: int) -> tuple[Span, ...]:
    """About `limit` characters of them. Of a diff, long stretches lose their middle first; then the end goes.

    Each omission says its length in characters.
    """
    if sum(len(span.text) for span in spans) <= limit:
        return tuple(spans)
    short = list(_without_middles(spans)) if any(span.mark != "same" for span in spans) else list(spans)
    shortened: list[Span] = []
    room = limit
    for place, span in enumerate(short):
        if span.mark != "omitted" and len(span.text) > room:
            rest = len(span.text) - room + sum(len(each.text) for each in short[place + 1 :] if each.mark != "omitted")
            return (*shortened, *plain(span.text[:room], span.mark), Span("omitted", f" … {rest:,} more characters"))
        shortened.append(span)
        room -= len(span.text)
    return tuple(shortened)


def _without_middles(spans: Sequence[Span]) -> Iterator[Span]:
    for place, span in enumerate(spans):
        head = 0 if place == 0 and span.mark == "same" else _CONTEXT_CHARS
        tail = 0 if place == len(spans) - 1 and span.mark == "same" else _CONTEXT_CHARS
        if len(span.text) <= head + tail + _CONTEXT_CHARS:
            yield span
            continue
        yield from plain(span.text[:head], span.mark)
        yield _omitted(len(span.text) - head - tail)
        yield from plain(span.text[len(span.text) - tail :], span.mark)


def _omitted(characters: int) -> Span:
    return Span("omitted", f" … {characters:,} characters … ")


def _tokens(text: str) -> list[tuple[str, str]]:
    """Words and signs, each with the blanks behind it."""
    return [(match[1], match[2]) for match in _TOKEN.finditer(text)]


def _joined(tokens: Iterable[tuple[str, str]]) -> str:
    return "".join(word + blanks for word, blanks in tokens)


def _operations(olds: Sequence[tuple[str, str]], news: Sequence[tuple[str, str]]) -> list[Operation]:
    first, second = [word for word, _ in olds], [word for word, _ in news]
    head = _shared(first, second)
    tail = _shared(first[head:][::-1], second[head:][::-1])
    middle = (head, len(first) - tail, head, len(second) - tail)
    cells = (middle[1] - head) * (middle[3] - head)
    changes = [("replace", *middle)] if cells > _MOST_CELLS else _compare(first, second, middle)
    ends = [("equal", 0, head, 0, head)], [("equal", middle[1], len(first), middle[3], len(second))]
    return _without_crumbs([*ends[0], *changes, *ends[1]])


def _compare(first: Sequence[str], second: Sequence[str], middle: tuple[int, int, int, int]) -> list[Operation]:
    i1, i2, j1, j2 = middle
    matcher = SequenceMatcher(None, first[i1:i2], second[j1:j2], autojunk=False)
    return [(kind, a + i1, b + i1, c + j1, d + j1) for kind, a, b, c, d in matcher.get_opcodes()]


def _without_crumbs(operations: Sequence[Operation]) -> list[Operation]:
    """A word or two that happen to be the same between two changes belong to the change."""
    merged: list[Operation] = []
    for place, (kind, i1, i2, j1, j2) in enumerate(operations):
        crumb = kind == "equal" and 0 < place < len(operations) - 1 and 0 < i2 - i1 < _LEAST_SAME
        now = "replace" if kind != "equal" or crumb else "equal"
        if merged and merged[-1][0] == now:
            merged[-1] = (now, merged[-1][1], i2, merged[-1][3], j2)
        elif i2 > i1 or j2 > j1:
            merged.append((now, i1, i2, j1, j2))
    return merged


def _shared(first: Sequence[str], second: Sequence[str]) -> int:
    """How many words the two begin with in common."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (old, new) in pairs if old != new), min(len(first), len(second)))
