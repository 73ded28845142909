"""Hard negatives: passages that a miner ranks high for an intent, and that are no answer to it as far as can be told.

    intents --miner--> ranks [skip, depth) of the shelf --what is refused is counted by reason--> the first `per_intent`

Refused, in this order: what the topic itself holds (`own`); what answers one of its queries or its seed in any topic,
or is kin to such an answer (`answers`); what scores above the share `max_relative` of the intent's lowest positive, or
within `min_gap` of it (`margin`: a likely false negative); the same under any other intent of the topic
(`other_intent`: a trainer contrasts a passage with all intents of its topic, not only with the one it was mined for);
what shares most of its words with a positive (`alike`: a copy answers what its original answers, wherever it ranks);
what satisfies the intent's own constraints, where these can be decided (`satisfies`). Intents of poisoned rows are
never mined for. The relative margin is that of NV-Retriever (Moreira et al., arXiv 2407.15831, section 3.2).

Price: a topic's intents are scored against the whole shelf, and then once more against the few that it found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from datasets_out.training.mined import Findings, Mined
from datasets_out.training.pool import MiningPool, Shelf, kin_of
from datasets_out.training.training_view import Split, SplitSettings
from engine.seeds.bm25 import Bm25Index, best_positions, words_of
from engine.settings import Settings
from engine.topic import Intent, Passage, Topic
from trainer.settings import EncodeSettings

MINING_VERSION = 1
"""Raised when the same run and settings would give other negatives."""

Floats = NDArray[np.float32]
Pair = tuple[str, str]
"""(instruction, query), with "" for no instruction."""


class MineSettings(Settings):
    """Who mines, what for, and what is refused."""

    miner: Literal["bm25", "model"] = Field(default="bm25", description="words in common, or cosines of a model")
    model: Path | None = Field(default=None, description="directory of the model that mines; none = packaged MiniLM")
    template: str | None = Field(
        default=None, description="how a model gets instruction and query; none = as it learnt"
    )
    instruction_words: bool = Field(
        default=False, description="BM25 counts the words of instructions too, not the query's alone"
    )
    encode: EncodeSettings = EncodeSettings(max_tokens=256)
    corpus: Literal["run", "seeds", "file"] = Field(
        default="run", description="what is mined: passages of accepted topics, of the job's seeds, or of a file"
    )
    file: Path | None = Field(default=None, description="the file of `corpus: file`: rows of id (or _id), title, text")
    licence: str = Field(default="", description="licence of the file's texts")
    redistributable: bool = Field(default=False, description="whether the file's texts may be exported to others")
    roles: tuple[Literal["original", "instructed", "reversed", "dual"], ...] = Field(
        default=("original", "instructed"), min_length=1, description="intents that are mined for"
    )
    splits: tuple[Split, ...] = Field(
        default=("train",), min_length=1, description="topics that are mined for; what measures stays as it is"
    )
    split: SplitSettings = SplitSettings()
    per_intent: int = Field(default=4, ge=1, description="negatives that an intent gets at most")
    skip: int = Field(default=0, ge=0, description="ranks from the top that are passed over unseen")
    depth: int = Field(default=50, ge=1, description="ranks that are looked at, from the top")
    max_relative: float = Field(
        default=0.95, gt=0, le=1, description="share of the lowest positive's score that a negative may have"
    )
    min_gap: float = Field(default=0.0, ge=0, description="what a negative's score lacks to the lowest positive's")
    max_overlap: float = Field(
        default=0.75, gt=0, le=1, description="share of the smaller one's distinct words that it and a positive share"
    )
    satisfying: Literal["refuse", "keep"] = Field(
        default="refuse", description="what becomes of a passage that satisfies the intent's constraints"
    )

    @model_validator(mode="after")
    def _consistent(self) -> MineSettings:
        if self.skip >= self.depth:
            raise ValueError(f"skip is {self.skip} and depth {self.depth}; depth must be larger")
        if (self.corpus == "file") != (self.file is not None):
            raise ValueError("`file` and `corpus: file` go together; give both or neither")
        return self


class MiningQuery(Protocol):
    """Queries as a scorer holds them; `rows` are their positions among those asked."""

    def nearest(self, rows: Sequence[int], depth: int) -> list[list[int]]:
        """For each row the positions of its at most `depth` best opened texts, best first, equal ones by position."""

    def scores(self, rows: Sequence[int], positions: Sequence[int]) -> Floats:
        """[rows, positions]; positions of any texts, opened or not."""


class Scorer(Protocol):
    """The texts of one shelf under a miner."""

    def ask(self, pairs: Sequence[Pair]) -> MiningQuery: ...


class Bm25Scorer:
    """Okapi BM25 over the texts, of which the first `opened` may be found.

    By default the words of an instruction do not count: most say what form a passage must have, and would find
    whatever mentions such a form, on any subject.
    """

    def __init__(self, texts: Sequence[str], opened: int, *, instruction_words: bool = False) -> None:
        self._index, self._opened, self._texts = Bm25Index(texts), opened, len(texts)
        self._instruction_words = instruction_words

    def ask(self, pairs: Sequence[Pair]) -> MiningQuery:
        asked = [f"{query} {instruction if self._instruction_words else ''}" for instruction, query in pairs]
        return _Bm25Asked(self, words_of(asked) if asked else [])

    def row(self, words: Sequence[str]) -> Floats:
        """The scores of all texts, [texts]."""
        found = self._index.scores(words)
        return np.zeros(self._texts, dtype=np.float32) if found is None else found

    def best(self, words: Sequence[str], depth: int) -> list[int]:
        return best_positions(self.row(words)[: self._opened], depth)


class _Bm25Asked:
    def __init__(self, scorer: Bm25Scorer, words: Sequence[Sequence[str]]) -> None:
        self._scorer, self._words = scorer, words

    def nearest(self, rows: Sequence[int], depth: int) -> list[list[int]]:
        return [self._scorer.best(self._words[row], depth) for row in rows]

    def scores(self, rows: Sequence[int], positions: Sequence[int]) -> Floats:
        asked = [tuple(self._words[row]) for row in rows]
        found = {words: self._scorer.row(words)[list(positions)] for words in set(asked)}
        return np.stack([found[words] for words in asked])


@dataclass(frozen=True, slots=True)
class _Work:
    """A topic to be mined for: its intents with a positive, the positions of their positives, their rows among the
    queries asked, and which of them are mined for."""

    topic: Topic
    intents: tuple[Intent, ...]
    positives: tuple[tuple[int, ...], ...]
    first_row: int
    mined: tuple[int, ...]

    @property
    def rows(self) -> range:
        return range(self.first_row, self.first_row + len(self.intents))


class Miner:
    """Finds the negatives of a partition's topics. `open_scorer(texts, opened)` makes a shelf's scorer, once;
    `satisfies` decides whether a passage satisfies the constraints of an intent, where it has some.

    The counts: `topics` and `intents` mined for, candidates `considered`, each `refused REASON` or `taken`.
    """

    def __init__(
        self,
        pool: MiningPool,
        open_scorer: Callable[[Shelf], Scorer],
        settings: MineSettings,
        satisfies: Callable[[Intent, Passage], bool],
    ) -> None:
        self._pool, self._open, self._settings, self._satisfies = pool, open_scorer, settings, satisfies
        self._scorers: dict[Split, Scorer] = {}

    def __call__(self, topics: Sequence[Topic]) -> Findings:
        mined: dict[str, list[Mined]] = {}
        counts: Counter[str] = Counter()
        for split in dict.fromkeys(self._settings.splits):
            works = list(self._works(topics, split))
            if works:
                mined |= self._mine(works, split, counts)
        return Findings(mined, counts)

    def _works(self, topics: Sequence[Topic], split: Split) -> Iterator[_Work]:
        shelf, row = self._pool.shelves[split], 0
        for topic in topics:
            if topic.status == "accepted" and self._pool.split_of(topic) == split:
                work = _work(topic, shelf, self._settings.roles, row)
                if work.mined:
                    row += len(work.intents)
                    yield work

    def _mine(self, works: Sequence[_Work], split: Split, counts: Counter[str]) -> dict[str, list[Mined]]:
        if split not in self._scorers:
            self._scorers[split] = self._open(self._pool.shelves[split])
        asked = self._scorers[split].ask([(i.instruction, i.query) for work in works for i in work.intents])
        rows = [work.first_row + number for work in works for number in work.mined]
        nearest = iter(asked.nearest(rows, self._settings.depth))
        return {
            work.topic.id: list(self._chosen(work, [next(nearest) for _ in work.mined], split, asked, counts))
            for work in works
        }

    def _chosen(
        self, work: _Work, nearest: Sequence[Sequence[int]], split: Split, asked: MiningQuery, counts: Counter[str]
    ) -> Iterator[Mined]:
        """What is taken for one topic; `nearest` holds the best positions of each intent mined for."""
        positions = sorted({p for some in (*nearest, *work.positives) for p in some})
        column = {position: number for number, position in enumerate(positions)}
        scores = asked.scores(work.rows, positions)
        lowest = [scores[i, [column[p] for p in some]].min() for i, some in enumerate(work.positives)]
        above = scores > np.array([self.ceiling(float(one)) for one in lowest])[:, None]
        judge = _CandidateFilter(self._pool, work, self._pool.shelves[split], self._settings.max_overlap)
        counts["topics"] += 1
        for number, found in zip(work.mined, nearest, strict=True):
            counts["intents"] += 1
            taken = 0
            for rank, position in enumerate(found[self._settings.skip :], start=self._settings.skip + 1):
                at = column[position]
                reason = (
                    judge.known(position)
                    or _too_near(above[:, at], number)
                    or judge.alike(position)
                    or self._suspicious(work.intents[number], judge.shelf, position)
                )
                counts["considered"] += 1
                counts[f"refused {reason}" if reason else "taken"] += 1
                if not reason:
                    candidate, score = judge.shelf.candidates[position], float(scores[number, at])
                    yield Mined(work.intents[number].id, candidate, rank, score, float(lowest[number]))
                    taken += 1
                    if taken == self._settings.per_intent:
                        break

    def ceiling(self, positive: float) -> float:
        """The score that a negative may have at most, where the lowest positive has this one."""
        relative = positive - (1 - self._settings.max_relative) * abs(positive)
        return min(relative, positive - self._settings.min_gap)

    def _suspicious(self, intent: Intent, shelf: Shelf, position: int) -> str:
        refuses = self._settings.satisfying == "refuse"
        return "satisfies" if refuses and self._satisfies(intent, shelf.candidates[position].passage) else ""


def _too_near(above: NDArray[np.bool_], intent: int) -> str:
    """`above`: under which intents of the topic a passage scores above its ceiling, [intents]."""
    if above[intent]:
        return "margin"
    return "other_intent" if above.any() else ""


class _CandidateFilter:
    """Refuses what a topic holds, what is known to answer it, and what is nearly a copy of such a passage."""

    def __init__(self, pool: MiningPool, work: _Work, shelf: Shelf, max_overlap: float) -> None:
        self.shelf, self._max_overlap = shelf, max_overlap
        self._own, self._answers = pool.own(work.topic), pool.answers(work.topic)
        self._positives = [self._words(position) for position in sorted({p for some in work.positives for p in some})]

    def known(self, position: int) -> str:
        kin = kin_of(self.shelf.candidates[position].passage)
        if not self._own.isdisjoint(kin):
            return "own"
        return "" if self._answers.isdisjoint(kin) else "answers"

    def alike(self, position: int) -> str:
        words = self._words(position)
        shared = (overlap(words, positive) for positive in self._positives)
        return "alike" if max(shared, default=0.0) > self._max_overlap else ""

    def _words(self, position: int) -> frozenset[str]:
        passage = self.shelf.candidates[position].passage
        return frozenset(words_of([f"{passage.title} {passage.text}"])[0])


def overlap(words: frozenset[str], others: frozenset[str]) -> float:
    """The share of the smaller set that the larger one has.

    >>> overlap(frozenset("abc"), frozenset("bcdef"))
    0.6666666666666666
    """
    return len(words & others) / max(1, min(len(words), len(others)))


def _work(topic: Topic, shelf: Shelf, roles: Sequence[str], row: int) -> _Work:
    """An intent without a positive, or with one of another split, is neither mined for nor looked at."""
    position = {passage.id: shelf.position(passage) for passage in topic.passages}
    wanted: dict[str, list[int | None]] = {}
    for judgment in topic.judgments:
        if judgment.relevance > 0:
            wanted.setdefault(judgment.intent_id, []).append(position[judgment.passage_id])
    known = {name: tuple(p for p in some if p is not None) for name, some in wanted.items() if None not in some}
    intents = tuple(intent for intent in topic.intents if intent.id in known)
    mined = tuple(number for number, intent in enumerate(intents) if intent.role in roles)
    return _Work(topic, intents, tuple(known[intent.id] for intent in intents), row, mined)
