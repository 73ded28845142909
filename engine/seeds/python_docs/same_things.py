"""Which objects of different libraries are the same thing, and which are surely something else.

    entries (object + summary + passages) --> positives of an entry, hard negatives of an entry

**The same thing**: objects of one simple name (case and underscores aside), of one sort (class, or function and
method) and of the same qualifiers (`_QUALIFIERS`, in name or summary: sparse, masked, rolling ...), if their summaries
have enough content words in common, words such as "array", "tensor" and "element" not counted: half of all; three
quarters where one is a method; a fifth for functions of two array libraries, which name the same mathematics alike.
Within one library all words, "array" and the like included. Narrow on purpose: `numpy.sqrt` and `torch.sqrt` pass,
`shutil.copy` and `numpy.copy`, `gzip.open` and `lzma.open` do not.
**Surely something else**: neither its summary shares half of the content words, nor does it have the same simple name
and any word in common, nor is it owner or member of the object, nor a near-copy of a positive.

Price: names are grouped first, so that only namesakes are compared; texts are compared only where BM25 put them near.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.seeds.bm25 import Bm25Index
from engine.seeds.python_docs.questions import word_set
from engine.topic import Passage

SAME, SAME_METHOD, SAME_MATHEMATICS = 0.5, 0.75, 0.21
"""Shares of common content words from which on summaries mean the same: of functions, methods, array functions."""
NEAR_COPY = 0.8
"""Share of common words from which on two texts are one."""
MAX_SAME = 4
"""An object with more namesakes of one meaning than this is not what a query can ask for."""

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*|\d+")
_STOP = word_set(
    """a an the of in on to for from by with at as and or is are be been that this these those it its into over given
    each all any one which whose whether if when not no using used use via based such other than then between per
    along"""
)
_LIBRARY_WORDS = word_set(
    """return compute calculate get array tensor element wise elementwise input output new value object function python
    numpy torch pandas scipy pyarrow arrow x y s dataframe sery series index ndarray matrix like specified provided axis
    dimension current create construct make perform apply evaluate self obj instance argument"""
)
_ARRAY_LIBRARIES = word_set("numpy scipy torch pyarrow")
_QUALIFIERS = word_set(
    """sparse masked ma mask group groupby rolling expanding window weighted quantized chunked categorical interval
    period decimal context distributed nested complex cuda xpu mtia mps cmath char string random cluster
    interpolative matlib tensorboard hub jvm npy"""
)
"""Words that make two objects of one name different things when only one of them has it."""


def words_of(text: str) -> list[str]:
    """The words and numbers of a text."""
    return _WORD.findall(text)


def content_words(text: str) -> frozenset[str]:
    """The words of a text without function words, lower-cased, verbs and nouns without their final s."""
    return frozenset(_singular(word) for word in words_of(text.lower()) if word not in _STOP)


def meaning(words: frozenset[str]) -> frozenset[str]:
    """The content words that say what an object does, without those that every library says of everything."""
    return words - _LIBRARY_WORDS


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


@dataclass(frozen=True, slots=True)
class DocumentedThing:
    """An object with its passages; `words` are the content words of its summary."""

    name: str
    library: str
    kind: str
    summary: str
    words: frozenset[str]
    passages: tuple[Passage, ...]

    @property
    def simple_name(self) -> str:
        """The last part of its name, case and underscores aside."""
        return self.name.rpartition(".")[2].replace("_", "").casefold()

    @property
    def qualifiers(self) -> frozenset[str]:
        """What sets it apart from objects of the same name."""
        return _QUALIFIERS & (self.words | set(self.name.casefold().split(".")))


class Corpus:
    """All entries, searchable; entries are known by their position."""

    def __init__(self, entries: Sequence[DocumentedThing]) -> None:
        self.entries = entries
        self.same = _same_things(entries)
        self._owners = [position for position, entry in enumerate(entries) for _ in entry.passages]
        self._passages = [passage for entry in entries for passage in entry.passages]
        self._index = Bm25Index([f"{passage.title}\n{passage.text}" for passage in self._passages])

    def positives(self, position: int) -> tuple[Passage, ...]:
        """The object's own passages, then the first passage of each same thing that is no near-copy of one before."""
        positives = list(self.entries[position].passages)
        vocabularies = [_vocabulary(passage) for passage in positives]
        for other in self.same[position]:
            passage = self.entries[other].passages[0]
            if not _near_copy(passage, vocabularies):
                positives.append(passage)
                vocabularies.append(_vocabulary(passage))
        return tuple(positives)

    def negatives(self, positions: Sequence[int], wanted: int) -> list[tuple[Passage, ...]]:
        """For each position at most `wanted` passages of surely other objects, one an object, nearest first.

        The attribute `query` of each is the summary that it does answer.
        Fewer come back only where fewer texts share a word with the summary, or most of the nearest are doubtful.
        """
        summaries = [self.entries[position].summary for position in positions]
        nearest = self._index.nearest(summaries, 4 * wanted + 16, [()] * len(positions))
        return [self._others(position, near, wanted) for position, near in zip(positions, nearest, strict=True)]

    def _others(self, position: int, near: Iterable[int], wanted: int) -> tuple[Passage, ...]:
        entry, vocabularies = self.entries[position], [_vocabulary(passage) for passage in self.positives(position)]
        taken = {position, *self.same[position]}
        others: list[Passage] = []
        for at in near:
            owner, passage = self._owners[at], self._passages[at]
            if len(others) == wanted:
                break
            if owner in taken or _perhaps_relevant(entry, self.entries[owner]) or _near_copy(passage, vocabularies):
                continue
            taken.add(owner)
            known = {**passage.attributes, "query": self.entries[owner].summary}
            others.append(replace(passage, role="seed_negative", attributes=known))
        return tuple(others)


def _same_things(entries: Sequence[DocumentedThing]) -> list[list[int]]:
    namesakes: Mapping[tuple[str, bool], list[int]] = defaultdict(list)
    for position, entry in enumerate(entries):
        if entry.kind != "module":
            namesakes[entry.simple_name, entry.kind == "class"].append(position)
    same: list[list[int]] = [[] for _ in entries]
    for group in namesakes.values():
        for one in group:
            same[one] = [other for other in group if other != one and same_thing(entries[one], entries[other])]
    return same


def same_thing(one: DocumentedThing, other: DocumentedThing) -> bool:
    """Whether two objects of one simple name and sort do the same."""
    if one.qualifiers != other.qualifiers:
        return False
    if one.library == other.library:
        return one.words == other.words
    common = _shared(meaning(one.words), meaning(other.words))
    if "method" in {one.kind, other.kind}:
        return common >= SAME_METHOD
    mathematics = one.kind == "function" and {one.library, other.library} <= _ARRAY_LIBRARIES
    return common >= (SAME_MATHEMATICS if mathematics else SAME)


def _perhaps_relevant(entry: DocumentedThing, other: DocumentedThing) -> bool:
    common = _shared(meaning(entry.words), meaning(other.words))
    kin = f"{other.name}.".startswith(f"{entry.name}.") or f"{entry.name}.".startswith(f"{other.name}.")
    return kin or common >= SAME or (common > 0 and entry.simple_name == other.simple_name)


def _vocabulary(passage: Passage) -> frozenset[str]:
    return frozenset(words_of(passage.text))


def _near_copy(passage: Passage, vocabularies: Iterable[frozenset[str]]) -> bool:
    words = _vocabulary(passage)
    return any(_shared(words, other) >= NEAR_COPY for other in vocabularies)


def _shared(one: frozenset[str], other: frozenset[str]) -> float:
    """Jaccard's share of common members; 0 if both are empty."""
    return len(one & other) / len(one | other) if one or other else 0.0
