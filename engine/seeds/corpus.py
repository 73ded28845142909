"""What every reader does around its own format: passing over bad records, unique ids, hard negatives where none are.

    drafts() (the seeds as the corpus gives them) -> unique ids -> topped up with negatives -> seeds
    candidates() (a sample of the corpus) -> NegativePool (BM25) ----^

Promise: a negative never answers the seed's query as far as the corpus knows; it carries `mined: bm25` if it was mined.
Price: 100 bytes a seed for the ids; where negatives are mined, the sample and its index are held in memory (measured:
4 kB a passage of 60 words) and the corpus is read twice.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, TypeVar

from pydantic import Field

from engine.errors import SeedFormatError
from engine.ids import fraction_of
from engine.seeds.bm25 import Bm25Index
from engine.settings import Settings
from engine.topic import Passage, Seed

T = TypeVar("T")
SEEDS_A_BATCH = 256


class CorpusSettings(Settings):
    """What the settings of every reader share."""

    corpus: str = Field(min_length=1, description="Name of the corpus; seed ids are unique within it.")
    licence: str = Field(description="Licence of the texts, stored with every topic.")
    redistributable: bool = Field(description="Whether the texts may be exported to others.")
    on_error: Literal["refuse", "skip"] = Field(
        default="refuse", description="What a bad record does: end the run, or be counted."
    )
    negatives: int = Field(
        default=5, ge=0, description="Negatives that a seed has at least: the corpus's own, then BM25's nearest."
    )
    pool_passages: int = Field(
        default=100_000,
        ge=1,
        description="Passages of the corpus, sampled evenly, among which BM25 looks for negatives.",
    )
    max_row_bytes: int = Field(default=8 << 20, ge=1, description="Bytes that one decoded record may have.")


@dataclass(frozen=True, slots=True)
class SeedDraft:
    """A seed as its corpus gives it, and where it stands; `answers` are keys of candidates that answer its query."""

    seed: Seed
    answers: frozenset[str]
    path: str
    line: int


@dataclass(frozen=True, slots=True)
class NegativeCandidate:
    """What may serve other seeds as a negative: found by its `words`, taken as one of its `passages`."""

    key: str
    words: str
    passages: tuple[Passage, ...]


def make_seed(
    corpus: CorpusSettings,
    name: str,
    query: str,
    positives: Iterable[Passage],
    negatives: Iterable[Passage],
    *,
    attributes: Mapping[str, str],
) -> Seed:
    """A seed in which no passage stands twice; a text that is relevant under another name is no negative."""
    relevant = {passage.id: passage for passage in positives}
    other = {passage.id: passage for passage in negatives if passage.id not in relevant}
    return Seed(
        id=name,
        corpus=corpus.corpus,
        query=query,
        positives=tuple(relevant.values()),
        negatives=tuple(other.values()),
        licence=corpus.licence,
        redistributable=corpus.redistributable,
        attributes=attributes,
    )


class CorpusReader(ABC):
    """A SeedReader from a format's `drafts` and `candidates`. `skipped` counts bad records under `on_error: skip`."""

    def __init__(self, settings: CorpusSettings) -> None:
        self._corpus = settings
        self.skipped = 0

    @abstractmethod
    def drafts(self) -> Iterator[SeedDraft]:
        """The seeds in the order of the files, with the negatives that the corpus itself names."""

    @abstractmethod
    def candidates(self) -> Iterator[NegativeCandidate]:
        """What the corpus offers as negatives, read anew."""

    def __iter__(self) -> Iterator[Seed]:
        self.skipped = 0
        wanted, pool = self._corpus.negatives, None
        drafts = self.parsed(self.drafts(), _UniqueIds())
        while batch := list(islice(drafts, SEEDS_A_BATCH)):
            if pool is None and any(len(draft.seed.negatives) < wanted for draft in batch):
                pool = NegativePool(sample(self.candidates(), self._corpus.pool_passages))
            yield from pool.completed(batch, wanted) if pool else [draft.seed for draft in batch]

    def parsed(self, records: Iterable[T | SeedFormatError], parse: Callable[[T], SeedDraft]) -> Iterator[SeedDraft]:
        """Each record's draft; a bad record ends the run, or is counted, as `on_error` says."""
        for record in records:
            try:
                if isinstance(record, SeedFormatError):
                    raise record
                draft = parse(record)
            except SeedFormatError:
                if self._corpus.on_error == "refuse":
                    raise
                self.skipped += 1
                continue
            yield draft


class _UniqueIds:
    """Passes a draft on, unless its seed's id came before."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __call__(self, draft: SeedDraft) -> SeedDraft:
        if draft.seed.id in self._seen:
            raise SeedFormatError(draft.path, draft.line, "an id that no earlier query has", draft.seed.id)
        self._seen.add(draft.seed.id)
        return draft


def sample(candidates: Iterable[NegativeCandidate], size: int) -> list[NegativeCandidate]:
    """At most `size` candidates, each of the stream as likely as any other, the same in every run (Vitter 1985, R)."""
    kept: list[NegativeCandidate] = []
    rng = random.Random(0)
    for seen, candidate in enumerate(candidates):
        if seen < size:
            kept.append(candidate)
        elif (slot := rng.randrange(seen + 1)) < size:
            kept[slot] = candidate
    return kept


class NegativePool:
    """Candidates under a BM25 index, from which seeds are given the negatives that they lack."""

    def __init__(self, candidates: Iterable[NegativeCandidate]) -> None:
        by_key = {candidate.key: candidate for candidate in candidates}
        self._index = Bm25Index([candidate.words for candidate in by_key.values()])
        self._keys = list(by_key)
        self._passages = [candidate.passages for candidate in by_key.values()]
        self._by_key = {key: position for position, key in enumerate(self._keys)}
        self._by_passage: dict[str, list[int]] = {}
        for position, passages in enumerate(self._passages):
            for passage in passages:
                self._by_passage.setdefault(passage.id, []).append(position)

    def completed(self, drafts: list[SeedDraft], wanted: int) -> list[Seed]:
        """The seeds, each with at least `wanted` negatives as far as the pool holds that many near ones."""
        lacking = [draft for draft in drafts if len(draft.seed.negatives) < wanted]
        banned = [self._banned(draft) for draft in lacking]
        near = self._index.nearest([draft.seed.query for draft in lacking], wanted, banned)
        mined = {
            draft.seed.id: self._with(draft.seed, found, wanted) for draft, found in zip(lacking, near, strict=True)
        }
        return [mined.get(draft.seed.id, draft.seed) for draft in drafts]

    def _banned(self, draft: SeedDraft) -> set[int]:
        banned = {self._by_key[key] for key in draft.answers if key in self._by_key}
        for passage in (*draft.seed.positives, *draft.seed.negatives):
            banned.update(self._by_passage.get(passage.id, ()))
        return banned

    def _with(self, seed: Seed, found: list[int], wanted: int) -> Seed:
        picked: dict[str, Passage] = {}
        for position in found:
            passages = self._passages[position]
            passage = passages[int(fraction_of(seed.id, self._keys[position]) * len(passages))]
            attributes = {**passage.attributes, "mined": "bm25"}
            picked.setdefault(passage.id, replace(passage, role="seed_negative", attributes=attributes))
        return replace(seed, negatives=(*seed.negatives, *picked.values())[:wanted])
