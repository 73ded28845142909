"""Committed topics for a trainer: compact groups in three splits that share no text.

    snapshots (bytes verified) -> index of (partition, row) a split -> groups, read as the batches ask for them

Several runs make one view with one split: a text never lies on two sides, whatever run it came from.

`engine.ids.split_of` holds seeds out, and a topic can say so itself (attribute `split: heldout`, as the recipe
infosearch does). Of the others a share is `dev`, on which a training run may choose, and the rest is `train`.

No text of a held-out topic is trained on or chosen on, and none of a dev topic is trained on. A passage whose text, id
or parent occurs in such a topic is removed. So is an intent that loses a relevant passage, or whose query occurs there,
and a topic that loses its first intent (the bare query). All is counted in `facts`.

Price: two passes over the texts at the start, 8 bytes a topic and about 100 bytes a protected text in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from pyarrow import compute
from pydantic import Field

from foil.datasets_out.commits.stored_rows import TablePart
from foil.datasets_out.training.judge_scores import JUDGE, probabilities_of
from foil.datasets_out.training.sources import TopicSource, digest_of
from foil.engine.ids import DEV_SHARE, HELDOUT_SHARE, fraction_of, split_of
from foil.engine.settings import Settings
from foil.engine.texts.words import text_key
from foil.engine.topic import Verdict

Split = Literal["heldout", "dev", "train"]
SPLITS: tuple[Split, ...] = ("heldout", "dev", "train")
"""In the order of protection: a topic yields to every split before its own."""

_COLUMNS = {
    "topics": ["topic_id", "seed_id", "corpus", "status", "attributes"],
    "intents": ["topic_id", "intent_id", "instruction", "query"],
    "passages": ["topic_id", "passage_id", "title", "text", "edited_from"],
    "judgments": ["topic_id", "intent_id", "passage_id", "relevance"],
}
_VERDICTS = ["topic_id", "validator", "scope", "evidence", "score"]
"""Read only for a view of what a judge said."""

Item = TypeVar("Item")
Row = dict[str, Any]

CACHED_PARTITIONS = 64
"""Partitions whose groups stay in memory; a sampler's window should not pass it."""


class SplitSettings(Settings):
    """Which seeds are kept from training."""

    heldout_share: float = Field(HELDOUT_SHARE, ge=0, lt=1, description="share of all seeds that only evaluation sees")
    dev_share: float = Field(DEV_SHARE, ge=0, lt=1, description="share of the other seeds on which training may choose")

    def split_of(self, seed_id: str) -> Split:
        if split_of(seed_id, self.heldout_share) == "heldout":
            return "heldout"
        return "dev" if fraction_of("dev", seed_id) < self.dev_share else "train"


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """One topic: `relevance`, [intents, passages], is +1, -1, or 0 where nobody judged.

    `intents` are (instruction, query), with "" for no instruction; `passages` are (title, text); `keys` are, for each
    passage, hashes of what must stay on one side of a split: its text, its id, its parent's id. `probabilities`, of the
    same shape as `relevance`, are the judge's P(relevant), NaN where it gave none; None in a view that leaves them out.
    """

    topic_id: str
    seed_id: str
    intents: tuple[tuple[str, str], ...]
    passages: tuple[tuple[str, str], ...]
    keys: tuple[tuple[int, ...], ...]
    relevance: NDArray[np.int8]
    held_out: bool = False
    corpus: str = ""
    probabilities: NDArray[np.float64] | None = None

    @property
    def is_scored(self) -> bool:
        """Whether the judge gave scores to a relevant passage and to another one under the same intent."""
        if self.probabilities is None:
            return False
        labels = np.where(np.isnan(self.probabilities), 0, self.relevance)
        return bool(((labels > 0).any(1) & (labels < 0).any(1)).any())

    def only(self, rows: NDArray[np.bool_], columns: NDArray[np.bool_]) -> TopicGroup:
        """The group with these intents and passages alone."""
        return replace(
            self,
            intents=_select(self.intents, rows),
            passages=_select(self.passages, columns),
            keys=_select(self.keys, columns),
            relevance=self.relevance[np.ix_(rows, columns)],
            probabilities=None if self.probabilities is None else self.probabilities[np.ix_(rows, columns)],
        )


class KeptTopic(NamedTuple):
    """What a split has of one topic: which of its `intents` and `passages`, in the order of their rows."""

    topic_id: str
    split: Split
    intents: NDArray[np.bool_]
    passages: NDArray[np.bool_]


class TrainingView:
    """The accepted topics of one source or several, by split. Partitions are numbered through all sources.

    `protected` gives no topics; its held-out and dev texts are kept out of training like those of the sources.
    `facts` counts, for each split, the topics kept and dropped, the intents dropped and the passages removed. `judged`:
    the groups have what `judge_demands` said, and `facts` counts the topics scored.
    Every file is verified first, of a bucket those that it reads; raises CorruptDataError for any changed bit.
    """

    def __init__(
        self,
        sources: Sequence[TopicSource],
        split: SplitSettings,
        protected: Sequence[TopicSource] = (),
        *,
        judged: bool = False,
    ) -> None:
        self.sources, self.split, self.digest = tuple(sources), split, digest_of(sources, protected)
        self._parts: list[tuple[TablePart, ...]] = []
        self._source_of: list[int] = []
        for number, source in enumerate(sources):
            parts = _parts_of(source, judged=judged)
            self._parts += parts
            self._source_of += [number] * len(parts)
        self._protected: dict[Split, frozenset[int]] = self._protect(
            group for source in protected for group in _groups_of(source)
        )
        self.facts: dict[Split, Counter[str]] = {name: Counter() for name in SPLITS}
        rows: dict[Split, list[tuple[int, int]]] = {name: [] for name in SPLITS}
        for row, group in self._all():
            name = self._split_of(group)
            if separated := self._separate(group, name, self.facts[name]):
                rows[name].append(row)
                if judged:
                    self.facts[name]["topics_scored"] += separated.is_scored
        self._rows = {name: np.array(pairs, dtype=np.int32).reshape(-1, 2) for name, pairs in rows.items()}

    def partitions(self, split: Split) -> NDArray[np.int32]:
        """The partition of every topic of a split, [topics]: what a sampler needs to know of the data."""
        return self._rows[split][:, 0]

    def members(self, split: Split) -> list[NDArray[np.int64]]:
        """The topics of each source, as positions in a split."""
        source_of = np.array(self._source_of, dtype=np.int32)[self.partitions(split)]
        return [np.flatnonzero(source_of == number) for number in range(len(self.sources))]

    def read(self, split: Split, indices: Iterable[int]) -> list[TopicGroup]:
        """The groups at these positions of a split, in the order asked."""
        rows = (self._rows[split][index] for index in indices)
        groups = (self._separate(_read(self._parts[part])[row], split, Counter()) for part, row in rows)
        return [group for group in groups if group is not None]

    def read_all(self, split: Split) -> list[TopicGroup]:
        """Every group of a split; meant for held-out and dev."""
        return self.read(split, range(len(self._rows[split])))

    def kept(self, partition: int) -> Iterator[KeptTopic]:
        """What the splits have of the topics of one partition, in its order; of those that are dropped, nothing."""
        source = self.sources[self._source_of[partition]]
        for group in _read(self._parts[partition]):
            split = self._split_of(group)
            intents, passages = self._kept(group, split)
            if intents[0] and source.has(group.topic_id):
                yield KeptTopic(group.topic_id, split, intents, passages)

    def protects(self, split: Split, text: str) -> bool:
        """Whether a text is a query or a passage that this split must not hold."""
        return not self._protected[split].isdisjoint((text_key(text, kind="query"), text_key(text, kind="passage")))

    def licences(self) -> dict[str, int]:
        """Accepted topics by what their seeds say of rights, most frequent first."""
        licences: Counter[str] = Counter()
        columns = ["topic_id", "licence", "redistributable", "status"]
        for (topics, *_), number in zip(self._parts, self._source_of, strict=True):
            rows = topics.read(columns).to_pylist()
            accepted = (row for row in rows if row["status"] == "accepted")
            chosen = (row for row in accepted if self.sources[number].has(row["topic_id"]))
            licences.update(_rights(row["licence"], row["redistributable"]) for row in chosen)
        return dict(licences.most_common())

    def _all(self) -> Iterator[tuple[tuple[int, int], TopicGroup]]:
        for part, (tables, number) in enumerate(zip(self._parts, self._source_of, strict=True)):
            for row, group in enumerate(_read(tables)):
                if self.sources[number].has(group.topic_id):
                    yield (part, row), group

    def _split_of(self, group: TopicGroup) -> Split:
        return "heldout" if group.held_out else self.split.split_of(group.seed_id)

    def _protect(self, outside: Iterable[TopicGroup]) -> dict[Split, frozenset[int]]:
        """For each split the keys of the texts that it must not hold, those of other runs' topics too."""
        keys: dict[Split, set[int]] = {name: set() for name in SPLITS}
        for group in chain((group for _, group in self._all()), outside):
            name = self._split_of(group)
            if name != "train":
                keys[name].update(*group.keys)
                keys[name].update(text_key(query, kind="query") for _, query in group.intents)
        heldout, dev = frozenset(keys["heldout"]), frozenset(keys["dev"])
        return {"heldout": frozenset(), "dev": heldout, "train": heldout | dev}

    def _separate(self, group: TopicGroup, split: Split, facts: Counter[str]) -> TopicGroup | None:
        """The group without what it shares with a protected split, or None where too little is left."""
        kept_intents, kept_passages = self._kept(group, split)
        facts["topics_kept" if kept_intents[0] else "topics_dropped"] += 1
        facts["passages_removed"] += int((~kept_passages).sum())
        facts["intents_dropped"] += int((~kept_intents).sum())
        return group.only(kept_intents, kept_passages) if kept_intents[0] else None

    def _kept(self, group: TopicGroup, split: Split) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """The intents and the passages of a group that its split may hold."""
        protected = self._protected[split]
        passages = np.array([protected.isdisjoint(keys) for keys in group.keys], dtype=bool)
        queries = np.array([text_key(query, kind="query") not in protected for _, query in group.intents], dtype=bool)
        return queries & ~(group.relevance[:, ~passages] > 0).any(1), passages


def _parts_of(source: TopicSource, *, judged: bool = False) -> list[tuple[TablePart, ...]]:
    """Where the rows of each partition lie, in the order of _COLUMNS, verdicts last; raises CorruptDataError for any
    changed bit."""
    tables = [*_COLUMNS, *(["verdicts"] if judged else [])]
    source.snapshot.check(tables)
    return list(zip(*(source.snapshot.parts(table) for table in tables), strict=True))


def _groups_of(source: TopicSource) -> Iterator[TopicGroup]:
    return (group for parts in _parts_of(source) for group in _read(parts) if source.has(group.topic_id))


def _rights(licence: str, redistributable: bool) -> str:
    return f"{licence or 'unknown'}, {'may' if redistributable else 'may not'} be passed on"


def _select(items: Sequence[Item], keep: NDArray[np.bool_]) -> tuple[Item, ...]:
    return tuple(item for item, chosen in zip(items, keep, strict=True) if chosen)


@lru_cache(maxsize=CACHED_PARTITIONS)
def _read(parts: tuple[TablePart, ...]) -> tuple[TopicGroup, ...]:
    """The groups of one partition, in the order of its topics; `parts` as in _COLUMNS."""
    tables = [part.read(columns) for part, columns in zip(parts, _COLUMNS.values(), strict=False)]
    topics, *children = [table.to_pylist() for table in tables]
    intents, passages, judgments = map(_by_topic, children)
    verdicts = [_verdicts(part) for part in parts[len(_COLUMNS) :]]
    return tuple(
        _group(topic, intents[name], passages[name], judgments.get(name, []), *(own.get(name, []) for own in verdicts))
        for topic in topics
        if topic["status"] == "accepted" and (name := topic["topic_id"]) in intents
    )


def _verdicts(part: TablePart) -> Mapping[str, list[Row]]:
    return _by_topic(part.read(_VERDICTS).filter(compute.field("validator") == JUDGE).to_pylist())


def _by_topic(rows: Iterable[Row]) -> Mapping[str, list[Row]]:
    by_topic: dict[str, list[Row]] = {}
    for row in rows:
        by_topic.setdefault(row["topic_id"], []).append(row)
    return by_topic


def _group(
    topic: Row, intents: list[Row], passages: list[Row], judgments: list[Row], verdicts: list[Row] | None = None
) -> TopicGroup:
    intent_at = {row["intent_id"]: i for i, row in enumerate(intents)}
    passage_at = {row["passage_id"]: i for i, row in enumerate(passages)}
    relevance = np.zeros((len(intents), len(passages)), dtype=np.int8)
    for row in judgments:
        relevance[intent_at[row["intent_id"]], passage_at[row["passage_id"]]] = row["relevance"]
    return TopicGroup(
        topic_id=topic["topic_id"],
        seed_id=topic["seed_id"],
        intents=tuple((row["instruction"], row["query"]) for row in intents),
        passages=tuple((row["title"], row["text"]) for row in passages),
        keys=tuple(passage_keys(row["text"], row["passage_id"], row["edited_from"]) for row in passages),
        relevance=relevance,
        held_out=("split", "heldout") in topic["attributes"],
        corpus=topic["corpus"],
        probabilities=None if verdicts is None else _probabilities(verdicts, intent_at, passage_at),
    )


def _probabilities(
    verdicts: list[Row], intent_at: Mapping[str, int], passage_at: Mapping[str, int]
) -> NDArray[np.float64]:
    table = np.full((len(intent_at), len(passage_at)), np.nan)
    spoken = (Verdict(row["validator"], row["scope"], "pass", "", row["evidence"], row["score"]) for row in verdicts)
    for (intent, passage), probability in probabilities_of(spoken).items():
        if intent in intent_at and passage in passage_at:
            table[intent_at[intent], passage_at[passage]] = probability
    return table


def passage_keys(text: str, passage_id: str, edited_from: str) -> tuple[int, ...]:
    """What must stay on one side of a split: hashes of the passage's text, its id, its parent's id where it has one."""
    return (text_key(text, kind="passage"), *(text_key(name, kind="id") for name in (passage_id, edited_from) if name))
