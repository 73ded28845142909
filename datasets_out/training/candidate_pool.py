"""The passages that may become negatives, by split, and the passages that answer each query.

    accepted topics ──> the split of every text    what is relevant to every query and seed
    their passages, or another corpus ──> SplitCandidates: the passages of one split, each text once

Promise: a passage lies in the most protected split of the topics that share its text, its id or its parent's id (what
`training_view` protects); one that no topic has lies in the split of its owner. So a topic that takes a candidate of
its own split moves no text between splits. Price: the passages are held in memory, about 2 kB each.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from foil.datasets_out.training.training_view import SPLITS, Split, SplitSettings, passage_keys
from foil.engine.ids import canonical_json, sha256_hex
from foil.engine.texts.words import text_key
from foil.engine.topic import Passage, Topic


@dataclass(frozen=True, slots=True)
class CandidatePassage:
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
class SplitCandidates:
    """The passages of one split: the first `minable` may be taken, the others are there to be scored.

    `positions` are those of the texts by their keys.
    """

    candidates: tuple[CandidatePassage, ...]
    minable: int
    positions: Mapping[int, int]

    def position(self, passage: Passage) -> int | None:
        """Where the passage's text stands; None if it belongs to another split."""
        return self.positions.get(_text_key(passage))


class CandidatePool:
    """The candidates of a run's accepted topics. `corpus`: what may be taken instead of the topics' own passages."""

    def __init__(
        self, topics: Iterable[Topic], shares: SplitSettings, corpus: Iterable[CandidatePassage] | None = None
    ) -> None:
        self._shares = shares
        self._splits: dict[int, Split] = {}
        self._answers: dict[int, set[int]] = defaultdict(set)
        minable: dict[int, CandidatePassage] = {}
        only_scored: dict[int, CandidatePassage] = {}
        for topic in topics:
            self._register(topic)
            for passage in topic.passages if corpus is None else _relevant(topic):
                candidate = CandidatePassage(passage, topic.licence, topic.redistributable, topic.seed_id)
                (minable if corpus is None else only_scored).setdefault(_text_key(passage), candidate)
        for candidate in corpus or ():
            minable.setdefault(_text_key(candidate.passage), candidate)
            if candidate.answered:
                self._answers[_query_key(candidate.answered)] |= related_keys(candidate.passage)
        by_split: dict[Split, dict[int, CandidatePassage]] = {split: {} for split in SPLITS}
        for key, candidate in (minable | {k: c for k, c in only_scored.items() if k not in minable}).items():
            by_split[self._split_of_text(candidate)][key] = candidate
        self.by_split = {
            split: SplitCandidates(
                candidates=tuple(candidates.values()),
                minable=len(candidates.keys() & minable),
                positions={key: position for position, key in enumerate(candidates)},
            )
            for split, candidates in by_split.items()
        }

    def split_of(self, topic: Topic) -> Split:
        """The split of a topic, as a training view has it."""
        return "heldout" if topic.attributes.get("split") == "heldout" else self._shares.split_of(topic.seed_id)

    def topic_keys(self, topic: Topic) -> frozenset[int]:
        return frozenset(key for passage in topic.passages for key in _keys(passage))

    def answer_keys(self, topic: Topic) -> frozenset[int]:
        """The keys of all that any topic with one of this one's queries, or of its seed, holds relevant."""
        keys = {_query_key(intent.query) for intent in topic.intents} | {_seed_key(topic)}
        return frozenset().union(*(self._answers.get(key, ()) for key in keys))

    @property
    def digest(self) -> str:
        """sha256 over the candidates of each split, in order."""
        rows = (
            [split, number < group.minable, passage.id, passage.source_id, passage.edited_from, candidate.licence]
            for split, group in self.by_split.items()
            for number, candidate in enumerate(group.candidates)
            for passage in (candidate.passage,)
        )
        return sha256_hex("\n".join(map(canonical_json, rows)))

    def _register(self, topic: Topic) -> None:
        split = self.split_of(topic)
        for passage in topic.passages:
            for key in _keys(passage):
                self._splits[key] = min(split, self._splits.get(key, split), key=SPLITS.index)
        related = {passage.id: related_keys(passage) for passage in topic.passages}
        queries = {intent.id: _query_key(intent.query) for intent in topic.intents}
        for judgment in topic.judgments:
            if judgment.relevance > 0:
                for key in (queries[judgment.intent_id], _seed_key(topic)):
                    self._answers[key] |= related[judgment.passage_id]

    def _split_of_text(self, candidate: CandidatePassage) -> Split:
        splits = [self._splits[key] for key in _keys(candidate.passage) if key in self._splits]
        return min(splits, key=SPLITS.index) if splits else self._shares.split_of(candidate.owner)


def related_keys(passage: Passage) -> frozenset[int]:
    """Keys that two passages share if they are one text, one an edit of the other, edits or parts of one source."""
    source = [text_key(passage.source_id, kind="source")] if passage.source_id else []
    return frozenset((*_keys(passage), *source))


def _relevant(topic: Topic) -> Iterator[Passage]:
    relevant = {judgment.passage_id for judgment in topic.judgments if judgment.relevance > 0}
    return (passage for passage in topic.passages if passage.id in relevant)


def _keys(passage: Passage) -> tuple[int, ...]:
    return passage_keys(passage.text, passage.id, passage.edited_from)


def _text_key(passage: Passage) -> int:
    return text_key(passage.text, kind="passage")


def _query_key(query: str) -> int:
    return text_key(query, kind="query")


def _seed_key(topic: Topic) -> int:
    return text_key(f"{topic.corpus}/{topic.seed_id}", kind="seed")
