"""Corpora of rows, which several processes can read: rows are cut into blocks, and each block makes its seeds alone.

    read_raw(path) -> blocks of 1 MiB, never cut between two rows of one seed -> read_block -> seeds with negatives

Promise: the seeds of the blocks in their order are those of the whole corpus, whatever the number of processes.
Price: each process makes the pool of negatives for itself, from the whole corpus, if seeds lack some.
"""

import pickle
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from foil.engine.errors import SeedFormatError
from foil.engine.protocols import SeedReader, Sketch
from foil.engine.seeds.corpus import SPLIT, CorpusReader, CorpusSeed, CorpusSettings, UniqueSeeds, no_seeds_error
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.seeds.files.rows import Record, decode_all, read_raw, read_rows
from foil.engine.seeds.files.streams import Line
from foil.engine.seeds.parallel.processes import map_in_order
from foil.engine.topic import PackedSeed, seed_digest

BLOCK_BYTES = 1 << 20
_RECORD_BYTES = 1 << 10
"""What a record of Parquet, CSV or a JSON array counts for: it is decoded already."""
Block = list[Line | Record]
RowSettings = TypeVar("RowSettings", bound=CorpusSettings)


class RowSeed(NamedTuple):
    """A seed on its way from the process that made it, and its place in the corpus."""

    id: str
    digest: str
    data: bytes
    sketches: tuple[Any, ...]
    path: str
    line: int
    held_out: bool


@dataclass(frozen=True, slots=True)
class BlockSeeds:
    """The seeds of a block, what was not taken as it stands, and the record that ends the run, if any does."""

    seeds: list[RowSeed]
    ledger: Ledger
    error: SeedFormatError | None


class RowReader(CorpusReader[RowSettings]):
    """A CorpusReader whose seeds are made of rows, most often one of each."""

    @abstractmethod
    def rows_path(self) -> Path:
        """The file or folder of the rows."""

    @abstractmethod
    def seeds_of(self, rows: Iterable[Record]) -> Iterator[CorpusSeed]:
        """The seeds of consecutive rows."""

    def may_share_seed(self, _row: Record, _next_row: Record, /) -> bool:
        """Whether two consecutive rows may belong to one seed."""
        return False

    def corpus_seeds(self) -> Iterator[CorpusSeed]:
        self.note_unread(self.rows_path())
        return self.seeds_of(read_rows(self.rows_path(), self._settings.max_row_bytes))

    def from_the_start(self) -> Iterator[CorpusSeed]:
        """The corpus once more, for the pool of negatives: bad records are passed over, since the run itself ends at
        one when it gets there.
        """
        return type(self)(self._settings.model_copy(update={"on_error": "skip"})).corpus_seeds()

    def in_parallel(self, processes: int, sketches: Sequence[Sketch]) -> SeedReader:
        """A reader of the same seeds as PackedSeed, in the same order, that has so many processes make them."""
        return ParallelReader(self, processes, sketches)

    def blocks(self) -> Iterator[Block]:
        """The rows in blocks, of which each makes its seeds alone."""
        block: Block = []
        size = 0
        for item in read_raw(self.rows_path(), self._settings.max_row_bytes):
            if isinstance(item, Line) and item.content is not None and not item.content.strip():
                continue
            if size >= BLOCK_BYTES and not self.may_share_seed(*self._decode([block[-1], item])):
                yield block
                block, size = [], 0
            block.append(item)
            size += len(item.content or b"") if isinstance(item, Line) else _RECORD_BYTES
        if block:
            yield block

    def read_block(self, sketches: Sequence[Sketch], block: Block) -> BlockSeeds:
        """The seeds of a block, each with its negatives and sketches, up to the first record that ends the run."""
        self.ledger, error = Ledger(), None
        corpus_seeds: list[CorpusSeed] = []
        try:
            corpus_seeds.extend(self.seeds_of(self._decode(block)))  # those before an error are kept
        except SeedFormatError as bad:
            error = bad
        seeds = self.with_negatives(iter(corpus_seeds))
        packed = [
            RowSeed(
                seed.id,
                seed_digest(seed),
                pickle.dumps(seed, pickle.HIGHEST_PROTOCOL),
                tuple(sketch(seed) for sketch in sketches),
                item.path,
                item.line,
                bool(seed.attributes.get(SPLIT)),
            )
            for item, seed in zip(corpus_seeds, seeds, strict=True)
        ]
        return BlockSeeds(packed, self.ledger, error)

    def join(self, blocks: Iterable[BlockSeeds]) -> Iterator[PackedSeed]:
        """The seeds of all blocks. Raises as reading them in one process would."""
        self.ledger, any_seed = Ledger(), False
        self.note_unread(self.rows_path())
        unique = UniqueSeeds(self.ledger)
        for block in blocks:
            self.ledger.add(block.ledger)
            for row in self.parse_records(block.seeds, partial(_if_new, unique)):
                any_seed = True
                if row:
                    self.ledger.note("held_out", f"seed {row.id!r}", row.held_out)
                    yield PackedSeed(row.id, self._settings.corpus, row.digest, row.data, row.sketches)
            if block.error:
                raise block.error
        if not any_seed:
            raise no_seeds_error(self._settings, self.ledger)

    def _decode(self, block: Block) -> Iterator[Record]:
        return decode_all(block, self._settings.max_row_bytes)


def _if_new(unique: UniqueSeeds, row: RowSeed) -> RowSeed | None:
    return row if unique.is_new(row.id, row.digest, row.path, row.line) else None


class ParallelReader(Generic[RowSettings]):
    """A SeedReader over the processes that read the blocks of a corpus: each seed is an engine.topic.PackedSeed."""

    def __init__(self, reader: RowReader[RowSettings], processes: int, sketches: Sequence[Sketch]) -> None:
        self._reader, self._processes, self._sketches = reader, processes, tuple(sketches)

    @property
    def ledger(self) -> Ledger:
        return self._reader.ledger

    def __iter__(self) -> Iterator[Any]:
        reader = self._reader
        read = partial(reader.read_block, self._sketches)
        return reader.join(map_in_order(read, reader.blocks(), self._processes, "reads seeds"))
