"""What all readers share: skipping bad records, unique ids, and mining negatives for seeds that lack them.

    corpus_seeds() (as the corpus gives them) -> unique ids -> mined negatives added -> seeds
    negative_candidates() (a sample of the corpus) -> NegativePool (BM25) ---^

Promise: no judgment or row of the corpus says that a negative answers its seed's query. A mined negative carries the
attribute `mined: bm25`.
Price: 250 bytes a seed for the ids and places. Mining holds the sample and its index in memory (measured: 4 kB for each
passage of 60 words) and reads the corpus twice.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Generic, Literal, TypeVar

from pydantic import Field

from foil.engine.errors import SeedFormatError, UsageError
from foil.engine.ids import fraction_of
from foil.engine.seeds.bm25 import Bm25Index
from foil.engine.seeds.files.ledger import KINDS, Ledger
from foil.engine.seeds.files.rows import unread_files
from foil.engine.seeds.files.unique import UniqueRecords
from foil.engine.settings import Settings
from foil.engine.topic import Passage, Seed

Source = TypeVar("Source")
Parsed = TypeVar("Parsed")
ReaderSettings = TypeVar("ReaderSettings", bound="CorpusSettings")
SEEDS_PER_BATCH = 256
SPLIT, HELD_OUT = "split", "heldout"
"""The attribute by which a seed says that it is held out of training, and the one value that it may have."""


class CorpusSettings(Settings):
    """What the settings of every reader share."""

    corpus: str = Field(min_length=1, description="Name of the corpus; seed ids are unique within it.")
    licence: str = Field(description="Licence of the texts, stored with every topic.")
    redistributable: bool = Field(description="Whether the texts may be passed on to others.")
    on_error: Literal["refuse", "skip"] = Field(
        "refuse", description="What happens at a bad record: the run ends, or Foil skips and counts it."
    )
    negatives: int = Field(
        5, ge=0, le=1_000, description="Negatives that a seed has at least: those of the corpus, then BM25's nearest."
    )
    pool_passages: int = Field(
        100_000,
        ge=1,
        le=10**8,
        description="Passages of the corpus, sampled evenly, among which BM25 looks for negatives.",
    )
    max_row_bytes: int = Field(8 << 20, ge=1, le=2**30, description="Bytes that one decoded record may have.")


@dataclass(frozen=True, slots=True)
class CorpusSeed:
    """A seed as its corpus gives it, and its place there; `answer_keys` name candidates that answer its query.

    `search_text`: what negatives are near to, where that is not the query.
    """

    seed: Seed
    answer_keys: frozenset[str]
    path: str
    line: int
    search_text: str = ""


@dataclass(frozen=True, slots=True)
class NegativeCandidate:
    """What other seeds may take as a negative: BM25 searches `search_text`, the seed takes one of the `passages`.

    `query`: what the passages are known to answer; a mined negative carries it as its attribute `query`.
    """

    key: str
    search_text: str
    passages: tuple[Passage, ...]
    query: str = ""


def parse_record(record: Source | SeedFormatError, parse: Callable[[Source], Parsed]) -> Parsed | SeedFormatError:
    """The parsed record, or the error that it is or that parsing it raises."""
    try:
        return record if isinstance(record, SeedFormatError) else parse(record)
    except SeedFormatError as error:
        return error


def no_seeds_error(settings: Settings, ledger: Ledger) -> UsageError:
    """The error for a corpus without a single seed: it names the settings' paths."""
    values = (value for name in type(settings).model_fields for value in [getattr(settings, name)])
    paths = [str(p) for v in values for p in (v if isinstance(v, tuple) else (v,)) if isinstance(p, Path)]
    lost = "".join(f", and {ledger[kind]:,} {KINDS[kind]}" for kind in ("skipped", "unread_files") if ledger[kind])
    return UsageError(f"no seeds in {', '.join(paths)}{lost}; look at its records, or give another path in `seeds`")


class CorpusReader(ABC, Generic[ReaderSettings]):
    """A SeedReader built from a format's `corpus_seeds` and `negative_candidates`."""

    def __init__(self, settings: ReaderSettings) -> None:
        self._settings = settings
        self.ledger = Ledger()
        self._pool: NegativePool | None = None

    def note_unread(self, path: Path) -> None:
        """Counts the files of a folder of rows that are passed over."""
        files = unread_files(path)
        self.ledger.note("unread_files", str(next(iter(files), "")), len(files))

    @abstractmethod
    def corpus_seeds(self) -> Iterator[CorpusSeed]:
        """The seeds in the order of the files, with the negatives that the corpus itself names."""

    @abstractmethod
    def negative_candidates(self) -> Iterator[NegativeCandidate]:
        """Reads the corpus from its start for what may serve as a negative."""

    def make_seed(
        self,
        seed_id: str,
        query: str,
        positives: Iterable[Passage],
        negatives: Iterable[Passage],
        attributes: Mapping[str, str],
    ) -> Seed:
        """A seed without repeated passages; a text that is relevant under another id is not a negative.

        Raises UsageError for an attribute `split` that names another part than the one that is held out.
        """
        if attributes.get(SPLIT, HELD_OUT) != HELD_OUT:
            raise UsageError(
                f"seed {seed_id!r} has {attributes[SPLIT]!r} as its attribute {SPLIT!r}, which must be {HELD_OUT!r} "
                "(never train on this seed); give the column another name among `attributes`"
            )
        positives_by_id = {passage.id: passage for passage in positives}
        negatives_by_id = {passage.id: passage for passage in negatives if passage.id not in positives_by_id}
        return Seed(
            id=seed_id,
            corpus=self._settings.corpus,
            query=query,
            positives=tuple(positives_by_id.values()),
            negatives=tuple(negatives_by_id.values()),
            licence=self._settings.licence,
            redistributable=self._settings.redistributable,
            attributes=attributes,
        )

    def __iter__(self) -> Iterator[Seed]:
        self.ledger, self._pool, any_seed = Ledger(), None, False
        unique = self.parse_records(self.corpus_seeds(), UniqueSeeds(self.ledger))
        for seed in self.with_negatives(corpus_seed for corpus_seed in unique if corpus_seed):
            any_seed = True
            if seed.attributes.get(SPLIT):
                self.ledger.note("held_out", f"seed {seed.id!r}")
            yield seed
        if not any_seed:
            raise no_seeds_error(self._settings, self.ledger)

    def with_negatives(self, corpus_seeds: Iterator[CorpusSeed]) -> Iterator[Seed]:
        """The seeds, each with the negatives that it lacks; the pool of them is made once, when a seed lacks some."""
        least = self._settings.negatives
        while batch := list(islice(corpus_seeds, SEEDS_PER_BATCH)):
            if self._pool is None and any(len(corpus_seed.seed.negatives) < least for corpus_seed in batch):
                self._pool = NegativePool(sample_candidates(self.negative_candidates(), self._settings.pool_passages))
            yield from self._pool.add_negatives(batch, least) if self._pool else [item.seed for item in batch]

    def parse_records(
        self, records: Iterable[Source | SeedFormatError], parse: Callable[[Source], Parsed]
    ) -> Iterator[Parsed]:
        """Parses each record; a bad one ends the run or is counted, as `on_error` says."""
        return self.drop_bad(parse_record(record, parse) for record in records)

    def drop_bad(self, records: Iterable[Source | SeedFormatError]) -> Iterator[Source]:
        """The good records; a bad one ends the run or is counted, as `on_error` says."""
        for record in records:
            if not isinstance(record, SeedFormatError):
                yield record
            elif self._settings.on_error == "refuse":
                raise record
            else:
                self.ledger.note("skipped", str(record).partition("; mend")[0])


class UniqueSeeds:
    """Returns a seed whose id is new, None for an equal one once more. Raises SeedFormatError for another of its id."""

    def __init__(self, ledger: Ledger) -> None:
        self._records = UniqueRecords[int]("query", ledger)

    def __call__(self, corpus_seed: CorpusSeed) -> CorpusSeed | None:
        seed = corpus_seed.seed
        passages = tuple(passage.id for passage in (*seed.positives, *seed.negatives))
        content = hash((seed.query, len(seed.positives), passages, tuple(seed.attributes.items())))
        return corpus_seed if self._records.take(seed.id, content, corpus_seed.path, corpus_seed.line) else None

    def is_new(self, seed_id: str, content: str, path: str, line: int) -> bool:
        """The same for a seed that is packed, by the digest of its content."""
        return self._records.take(seed_id, hash(content), path, line)


def sample_candidates(candidates: Iterable[NegativeCandidate], size: int) -> list[NegativeCandidate]:
    """At most `size` candidates, each equally likely, the same in every run (reservoir sampling, Vitter 1985, R)."""
    reservoir: list[NegativeCandidate] = []
    rng = random.Random(0)
    for position, candidate in enumerate(candidates):
        if position < size:
            reservoir.append(candidate)
        elif (slot := rng.randrange(position + 1)) < size:
            reservoir[slot] = candidate
    return reservoir


class NegativePool:
    """Candidates under a BM25 index, from which seeds take the negatives that they lack."""

    def __init__(self, candidates: Iterable[NegativeCandidate]) -> None:
        by_key: dict[str, NegativeCandidate] = {}
        for candidate in candidates:
            by_key.setdefault(candidate.key, candidate)
        self._index = Bm25Index([candidate.search_text for candidate in by_key.values()])
        self._keys = list(by_key)
        self._passages = [candidate.passages for candidate in by_key.values()]
        self._queries = [candidate.query for candidate in by_key.values()]
        self._position_of_key = {key: position for position, key in enumerate(self._keys)}
        self._positions_of_passage: dict[str, list[int]] = {}
        for position, passages in enumerate(self._passages):
            for passage in passages:
                self._positions_of_passage.setdefault(passage.id, []).append(position)

    def add_negatives(self, batch: list[CorpusSeed], min_negatives: int) -> list[Seed]:
        """The seeds of the batch, each with at least `min_negatives` if the pool has that many near texts."""
        incomplete = [corpus_seed for corpus_seed in batch if len(corpus_seed.seed.negatives) < min_negatives]
        excluded = [self._excluded_positions(corpus_seed) for corpus_seed in incomplete]
        nearest = iter(
            self._index.nearest([i.search_text or i.seed.query for i in incomplete], min_negatives, excluded)
        )
        return [
            self._add_mined(seed, next(nearest), min_negatives) if len(seed.negatives) < min_negatives else seed
            for seed in (corpus_seed.seed for corpus_seed in batch)
        ]

    def _excluded_positions(self, corpus_seed: CorpusSeed) -> set[int]:
        keys = corpus_seed.answer_keys
        positions = {self._position_of_key[key] for key in keys if key in self._position_of_key}
        for passage in (*corpus_seed.seed.positives, *corpus_seed.seed.negatives):
            positions.update(self._positions_of_passage.get(passage.id, ()))
        return positions

    def _add_mined(self, seed: Seed, positions: list[int], min_negatives: int) -> Seed:
        mined: dict[str, Passage] = {}
        for position in positions:
            passages = self._passages[position]
            passage = passages[int(fraction_of(seed.id, self._keys[position]) * len(passages))]
            query = {"query": self._queries[position]} if self._queries[position] else {}
            attributes = {**passage.attributes, **query, "mined": "bm25"}
            mined.setdefault(passage.id, replace(passage, role="seed_negative", attributes=attributes))
        return replace(seed, negatives=(*seed.negatives, *mined.values())[:min_negatives])
