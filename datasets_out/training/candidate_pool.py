"""What may stand as a negative, and for which topics: passages by split, and what is known to answer which query.

    accepted topics ──> home: the split of every text    answers: what is relevant to every query and seed
    their passages, or a corpus beside them ──> Shelf: the passages of one split, each text once

Promise: a passage lies in the most protected split of the topics that share its text, its id or its parent's id (what
`training_view` protects); one that no topic has lies in the split of its owner. So a topic that takes a passage from
its own split's shelf moves no text between splits. Price: the passages are held in memory, about 2 kB each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from datasets_out.training.training_view import SPLITS, Split, SplitSettings, passage_keys, text_key
from engine.ids import canonical_json, sha256_hex
from engine.topic import Passage, Topic


@dataclass(frozen=True, slots=True)
class MiningCandidate:
    """A passage that may become a negative of other topics, and the rights in it.

    `owner` is the seed that brought it, or its own id: its hash decides the split of a text that no topic has.
    `answered` is the query that its corpus knows it to answer, or "".
    """

    passage: Passage
    licence: str
    redistributable: bool
    owner: str
    answered: str = ""


@dataclass(frozen=True, slots=True)
class Shelf:
    """The passages of one split: the first `opened` may be taken, the others are there to be scored.

    `at` is the position of a text by its key.
    """

    candidates: tuple[MiningCandidate, ...]
    opened: int
    at: Mapping[int, int]

    def position(self, passage: Passage) -> int | None:
        """Where the passage's text stands; None if it belongs to another split."""
        return self.at.get(_key(passage))


class MiningPool:
    """The shelves of a run's accepted topics. `corpus`: what may be taken instead of the topics' own passages."""

    def __init__(
        self, topics: Iterable[Topic], shares: SplitSettings, corpus: Iterable[MiningCandidate] | None = None
    ) -> None:
        self._shares = shares
        self._home: dict[int, Split] = {}
        self._answers: dict[int, set[int]] = defaultdict(set)
        opened: dict[int, MiningCandidate] = {}
        closed: dict[int, MiningCandidate] = {}
        for topic in topics:
            self._learn(topic)
            for passage in topic.passages if corpus is None else _wanted(topic):
                candidate = MiningCandidate(passage, topic.licence, topic.redistributable, topic.seed_id)
                (opened if corpus is None else closed).setdefault(_key(passage), candidate)
        for candidate in corpus or ():
            opened.setdefault(_key(candidate.passage), candidate)
            if candidate.answered:
                self._answers[_query_key(candidate.answered)] |= kin_of(candidate.passage)
        by_split: dict[Split, dict[int, MiningCandidate]] = {split: {} for split in SPLITS}
        for key, candidate in (opened | {key: one for key, one in closed.items() if key not in opened}).items():
            by_split[self._split_of_text(candidate)][key] = candidate
        self.shelves = {split: _shelf(found, len(found.keys() & opened)) for split, found in by_split.items()}

    def split_of(self, topic: Topic) -> Split:
        """The split of a topic, as a training view has it."""
        return "heldout" if topic.attributes.get("split") == "heldout" else self._shares.split_of(topic.seed_id)

    def own(self, topic: Topic) -> frozenset[int]:
        """The keys of all that the topic holds."""
        return frozenset(key for passage in topic.passages for key in _keys(passage))

    def answers(self, topic: Topic) -> frozenset[int]:
        """The keys of all that any topic with one of this one's queries, or of its seed, holds relevant."""
        names = {_query_key(intent.query) for intent in topic.intents} | {_seed_key(topic)}
        return frozenset().union(*(self._answers.get(name, ()) for name in names))

    @property
    def digest(self) -> str:
        """sha256 over what each shelf holds, in order."""
        rows = (
            [split, number < shelf.opened, one.passage.id, one.passage.source_id, one.passage.edited_from, one.licence]
            for split, shelf in self.shelves.items()
            for number, one in enumerate(shelf.candidates)
        )
        return sha256_hex("\n".join(map(canonical_json, rows)))

    def _learn(self, topic: Topic) -> None:
        split = self.split_of(topic)
        for passage in topic.passages:
            for key in _keys(passage):
                self._home[key] = min(split, self._home.get(key, split), key=SPLITS.index)
        kin = {passage.id: kin_of(passage) for passage in topic.passages}
        queries = {intent.id: _query_key(intent.query) for intent in topic.intents}
        for judgment in topic.judgments:
            if judgment.relevance > 0:
                for name in (queries[judgment.intent_id], _seed_key(topic)):
                    self._answers[name] |= kin[judgment.passage_id]

    def _split_of_text(self, candidate: MiningCandidate) -> Split:
        homes = [self._home[key] for key in _keys(candidate.passage) if key in self._home]
        return min(homes, key=SPLITS.index) if homes else self._shares.split_of(candidate.owner)


def kin_of(passage: Passage) -> frozenset[int]:
    """Keys that two passages share if they are one text, one an edit of the other, edits or parts of one source."""
    source = [text_key("source", passage.source_id)] if passage.source_id else []
    return frozenset((*_keys(passage), *source))


def _wanted(topic: Topic) -> Iterator[Passage]:
    relevant = {judgment.passage_id for judgment in topic.judgments if judgment.relevance > 0}
    return (passage for passage in topic.passages if passage.id in relevant)


def _shelf(found: Mapping[int, MiningCandidate], opened: int) -> Shelf:
    return Shelf(tuple(found.values()), opened, {key: position for position, key in enumerate(found)})


def _keys(passage: Passage) -> tuple[int, ...]:
    return passage_keys(passage.text, passage.id, passage.edited_from)


def _key(passage: Passage) -> int:
    return text_key("passage", passage.text)


def _query_key(query: str) -> int:
    return text_key("query", query)


def _seed_key(topic: Topic) -> int:
    return text_key("seed", f"{topic.corpus}/{topic.seed_id}")
