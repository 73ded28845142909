"""Which objects are the same thing, which are of one kin, and which are surely something else.

    documented objects --ObjectIndex--> positives of an object, its kin, hard negatives of an object

**The same thing**: objects with the same simple name (case and underscores aside), the same sort (class, or function
and method) and the same qualifiers (`_QUALIFIERS` in name or summary: sparse, masked, rolling ...). Their summaries
must also share enough content words, words such as "array", "tensor" and "element" not counted: half of all, or three
quarters if one is a method. A fifth is enough for functions of two array libraries, which use the same names in
mathematics. Within one library all words must be equal. The rule is narrow on purpose: `numpy.sqrt` and `torch.sqrt`
pass; `shutil.copy` and `numpy.copy`, `gzip.open` and `lzma.open` do not.
**Kin**: objects for which a vaguer query asks alike. They share at least three content words and half of all, in the
same order ("radians to degrees" is not "degrees to radians"), neither denies what the other says, and by leaving words
out both come down to one phrase: "discrete Fourier transform of real input" for one dimension and for two.
**Surely something else**: an object of another simple name whose summary shares less than a third of the content words.
It is also neither owner nor member of the object, its text is no near-copy of a positive, and does not call the object
or name it in full. It has less than half of the words of a vaguer query, and neither its summary nor a sentence of its
text has all that is asked for.

Price: only objects of one simple name are compared, and only texts that BM25 found.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from foil.engine.seeds.bm25 import Bm25Index
from foil.engine.seeds.python_docs.docstrings import split_sentences
from foil.engine.seeds.python_docs.questions import as_order, base_verb
from foil.engine.seeds.python_docs.words import (
    content_words,
    jaccard,
    shared_phrase,
    specific_words,
    split_words,
    word_order,
)
from foil.engine.texts.words import word_set
from foil.engine.topic import Passage

SAME_FUNCTION, SAME_METHOD, SAME_ARRAY_FUNCTION = 0.5, 0.75, 0.21
"""Shares of common content words from which on two summaries mean the same."""
MAY_ANSWER = 0.33
"""Share from which on an object may answer the query of the other."""
NEAR_COPY = 0.8
"""Share of common words from which on two texts count as one."""
MAX_KIN, SHARED_WORDS = 2, 3
"""At most so many kin of an object, and at least so many content words that all of them share."""
MAX_SAME_THINGS = 4
"""A query cannot ask for one object if more others than this are the same thing."""

_ARRAY_LIBRARIES = word_set("numpy scipy torch pyarrow")
_GIVING = word_set("return get compute calculate find evaluate give") | {""}
"""Verbs before what a function returns; a summary without one names a thing."""
_QUALIFIERS = word_set(
    """sparse masked ma mask group groupby rolling expanding window weighted quantized chunked categorical interval
    period decimal context distributed nested complex cuda xpu mtia mps cmath char string random cluster
    interpolative matlib tensorboard hub jvm npy"""
)
"""Words that make two objects of one name different things when only one of them has it."""


_TURNING = word_set(
    """inverse inverted reverse reversed invert unsigned signed negative positive non not without no log logarithm
    derivative gradient antiderivative integral incomplete complementary survival percent percentage generalized minimal
    cumulative cumulatively shifted distinct unique pre back
    hermitian real imaginary random initial boundary last first previous next minimum maximum min max
    lower upper left right absolute relative new old remove add set get delete"""
)
"""Words that make another thing of what they stand before: no query leaves one of them out."""
_DENYING = word_set("not no without except")


@dataclass(frozen=True, slots=True)
class DocumentedObject:
    """An object with its passages; `words` are the content words of its summary."""

    name: str
    library: str
    kind: str
    summary: str
    words: frozenset[str]
    passages: tuple[Passage, ...]

    @property
    def simple_name(self) -> str:
        """The last part of its name, without case and underscores."""
        return self.name.rpartition(".")[2].replace("_", "").casefold()

    @property
    def qualifiers(self) -> frozenset[str]:
        """The words that distinguish it from objects of the same name."""
        return _QUALIFIERS & (self.words | set(self.name.casefold().split(".")))


@dataclass(frozen=True, slots=True)
class Kin:
    """What an object has in common with others: a query that asks for all of them, and a passage of each other one."""

    query: str
    passages: tuple[Passage, ...]
    positions: frozenset[int]


class ObjectIndex:
    """All documented objects, searchable; a position in `objects` names an object."""

    def __init__(self, objects: Sequence[DocumentedObject]) -> None:
        self.objects = objects
        self.same_things = _find_same_things(objects)
        self._owners = [position for position, obj in enumerate(objects) for _ in obj.passages]
        self._passages = [passage for obj in objects for passage in obj.passages]
        self._index = Bm25Index([f"{passage.title}\n{passage.text}" for passage in self._passages])

    def positives(self, position: int) -> tuple[Passage, ...]:
        """The object's own passages, then the first passage of each same thing that is no near-copy of one before."""
        positives = list(self.objects[position].passages)
        vocabularies = [_vocabulary(passage) for passage in positives]
        for same_position in self.same_things[position]:
            passage = self.objects[same_position].passages[0]
            if not _is_near_copy(passage, vocabularies):
                positives.append(passage)
                vocabularies.append(_vocabulary(passage))
        return tuple(positives)

    def nearest(self, positions: Sequence[int], count: int) -> list[list[int]]:
        """For each position the passages nearest to its summary by BM25, enough to choose `count` negatives from."""
        summaries = [self.objects[position].summary for position in positions]
        return self._index.nearest(summaries, 6 * count + 16, [()] * len(positions))

    def kin(self, position: int, nearest: Iterable[int]) -> Kin | None:
        """The nearest kin of an object, at most two, and the query that asks for all of them; None without any."""
        obj = self.objects[position]
        shared, query = obj.words, ""
        positions: set[int] = set()
        passages: list[Passage] = []
        vocabularies = [_vocabulary(passage) for passage in self.positives(position)]
        for owner in dict.fromkeys(self._owners[passage_position] for passage_position in nearest):
            candidate = self.objects[owner]
            if owner in {position, *self.same_things[position]} or len(positions) == MAX_KIN:
                continue
            if _TURNING & (obj.words ^ candidate.words) or _denies(obj.summary) != _denies(candidate.summary):
                continue
            phrase = shared_phrase(obj.summary, shared & candidate.words)
            is_kin = jaccard(specific_words(obj.words), specific_words(candidate.words)) >= SAME_FUNCTION
            if not is_kin or len(specific_words(content_words(phrase))) < SHARED_WORDS:
                continue
            if (
                len(phrase.split()) >= SHARED_WORDS
                and phrase.count("(") == phrase.count(")")
                and not phrase.count('"') % 2
                and not _lacks_its_verb(phrase, obj.summary)
                and _is_said_by(candidate.summary, phrase)
                and not _is_near_copy(candidate.passages[0], vocabularies)
            ):
                shared, query = shared & candidate.words, phrase
                positions.add(owner)
                passages.append(candidate.passages[0])
                vocabularies.append(_vocabulary(candidate.passages[0]))
        return Kin(as_order(query), tuple(passages), frozenset(positions)) if passages else None

    def negatives(
        self, position: int, nearest: Iterable[int], count: int, kin: Kin | None = None
    ) -> tuple[Passage, ...]:
        """At most `count` passages of surely other objects, one for each object, nearest first.

        The attribute `query` of each is the summary that it does answer. There are fewer only if fewer texts share a
        word with the summary, or if most of the nearest are doubtful.
        """
        vocabularies = [_vocabulary(passage) for passage in self.positives(position)]
        relevant_owners = (position, *(sorted(kin.positions) if kin else ()))
        vaguer = content_words(kin.query) if kin else frozenset[str]()
        asked_words = vaguer or self.objects[position].words
        asked_words = specific_words(asked_words) or asked_words
        used_owners = {*relevant_owners, *self.same_things[position]}
        negatives: list[Passage] = []
        for passage_position in nearest:
            owner, passage = self._owners[passage_position], self._passages[passage_position]
            if len(negatives) == count:
                break
            if owner in used_owners or _is_near_copy(passage, vocabularies):
                continue
            relevant = [self.objects[each] for each in relevant_owners]
            if any(_may_answer(obj, self.objects[owner]) or _uses(passage, obj) for obj in relevant):
                continue
            if 2 * len(vaguer & self.objects[owner].words) >= len(vaguer) > 0:
                continue
            if asked_words <= self.objects[owner].words or _has_all_in_a_sentence(passage, asked_words):
                continue
            used_owners.add(owner)
            attributes = {**passage.attributes, "query": self.objects[owner].summary}
            negatives.append(replace(passage, role="seed_negative", attributes=attributes))
        return tuple(negatives)


def _find_same_things(objects: Sequence[DocumentedObject]) -> list[list[int]]:
    namesakes: Mapping[tuple[str, bool], list[int]] = defaultdict(list)
    for position, obj in enumerate(objects):
        if obj.kind != "module":
            namesakes[obj.simple_name, obj.kind == "class"].append(position)
    same_things: list[list[int]] = [[] for _ in objects]
    for group in namesakes.values():
        for position in group:
            rivals = (rival for rival in group if rival != position)
            same_things[position] = [rival for rival in rivals if is_same_thing(objects[position], objects[rival])]
    return same_things


def is_same_thing(first: DocumentedObject, second: DocumentedObject) -> bool:
    """Whether two objects of one simple name and sort do the same."""
    if first.qualifiers != second.qualifiers:
        return False
    if first.library == second.library:
        return first.words == second.words
    similarity = jaccard(specific_words(first.words), specific_words(second.words))
    if "method" in {first.kind, second.kind}:
        return similarity >= SAME_METHOD
    array_functions = first.kind == "function" and {first.library, second.library} <= _ARRAY_LIBRARIES
    return similarity >= (SAME_ARRAY_FUNCTION if array_functions else SAME_FUNCTION)


def _may_answer(obj: DocumentedObject, rival: DocumentedObject) -> bool:
    """Whether another object may be relevant to the query of this one."""
    specific, rival_words = specific_words(obj.words), specific_words(rival.words)
    similarity = jaccard(specific, rival_words) if specific and rival_words else jaccard(obj.words, rival.words)
    related = f"{rival.name}.".startswith(f"{obj.name}.") or f"{obj.name}.".startswith(f"{rival.name}.")
    return related or similarity >= MAY_ANSWER or obj.simple_name == rival.simple_name


def _uses(passage: Passage, obj: DocumentedObject) -> bool:
    """Whether a text calls an object, or names it in full: its example may show what is asked for."""
    simple = obj.name.rpartition(".")[2]
    call = simple in passage.text and re.search(rf"(?<!\w){re.escape(simple)}\(", passage.text)
    return bool(call) or obj.name in passage.text


def _has_all_in_a_sentence(passage: Passage, words: frozenset[str]) -> bool:
    text = passage.text.lower()
    if not all(word in text for word in words):
        return False
    return any(words <= content_words(each) for line in text.splitlines() for each in split_sentences(line))


def _is_said_by(summary: str, phrase: str) -> bool:
    """Whether another summary too becomes a phrase of these words, in this order, by what it leaves out."""
    words = content_words(phrase)
    own = shared_phrase(summary, words)
    return word_order(phrase, words) == word_order(own, words) and not _lacks_its_verb(own, summary)


def _denies(summary: str) -> bool:
    """Whether a summary says what is not so; such words are in no set of content words."""
    return not _DENYING.isdisjoint(split_words(summary))


def _lacks_its_verb(phrase: str, summary: str) -> bool:
    """Whether a phrase out of a summary is only the object of a verb that went, and not what a function returns."""
    first = summary.split(maxsplit=1)[0]
    return not phrase.startswith(first) and base_verb(first) not in _GIVING


def _vocabulary(passage: Passage) -> frozenset[str]:
    return frozenset(split_words(passage.text))


def _is_near_copy(passage: Passage, vocabularies: Iterable[frozenset[str]]) -> bool:
    words = _vocabulary(passage)
    return any(jaccard(words, vocabulary) >= NEAR_COPY for vocabulary in vocabularies)
