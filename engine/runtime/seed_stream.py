"""The seed stream of a run: cut into partitions, and held against what earlier sessions saw of it.

    reader -> screens (every seed, once) -> partitions with digests of their seeds -> held until the past agrees

Promise: partitions are cut by position alone, so every run of a job cuts the same ones. A resumed run makes nothing
until the stream agrees with every commit entry, with the plan, and with every journal that holds replies: seeds that
were edited, moved, put in front or taken away are refused, and the first that differs is named.
Price: the stream is read again on resume. Partitions that earlier sessions left out wait in memory until the last one
that they knew was read. 8 bytes a seed for its id.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice

import numpy as np
import xxhash

from foil.engine.errors import SeedsChangedError, UsageError
from foil.engine.flow.limits import Limits
from foil.engine.ids import sha256_hex
from foil.engine.protocols import Partition, Screen, SeedReader, SketchingScreen
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.topic import PackedSeed, Seed, Verdict, seed_digest

LOG = logging.getLogger(__name__)
_RECENT_IDS = 1 << 16
_HEX = 8


@dataclass(frozen=True, slots=True)
class SeedRecord:
    """What is known of a partition's seeds: digests of each, and of the stream to its end; "" where nothing is."""

    seeds: str = ""
    stream: str = ""


OnRead = Callable[[int, Ledger], None]
"""Hears how many seeds were read so far, and what of their corpus was not taken as it stands."""


class CountedSeeds:
    """A SeedReader that tells how many seeds it has given, for each and at the end."""

    def __init__(self, reader: SeedReader, on_read: OnRead) -> None:
        self._reader, self._on_read = reader, on_read

    @property
    def ledger(self) -> Ledger:
        return self._reader.ledger

    def __iter__(self) -> Iterator[Seed]:
        number = 0
        for number, seed in enumerate(self._reader, 1):
            self._on_read(number, self.ledger)
            yield seed
        self._on_read(number, self.ledger)


def split_into_partitions(
    reader: SeedReader, screens: Sequence[Screen], limits: Limits, short: Mapping[int, int] | None = None
) -> Iterator[Partition]:
    """The partitions of a corpus. Raises UsageError for two seeds of one id, and as the reader does.

    `short`: the sizes of partitions that were committed under a smaller `limits.seeds`.
    """
    sizes, position = short or {}, 0
    seeds = islice(reader, limits.seeds)
    ids, stream = SeenIds(), ""
    for index in count():
        batch: list[Seed] = []
        screened: dict[str, Verdict] = {}
        for seed in islice(seeds, sizes.get(index, limits.partition_seeds)):
            if not ids.add(seed.id):
                raise UsageError(
                    f"two seeds of the corpus {seed.corpus!r} have the id {seed.id!r}, the second at position "
                    f"{position + len(batch)}; ids must be unique: mend the corpus"
                )
            batch.append(seed)
            rejecting = [v for v in _verdicts(seed, screens) if v is not None and v.outcome == "reject"]
            if rejecting:
                screened[seed.id] = rejecting[0]
        if not batch:
            return
        position += len(batch)
        digests = "".join((s.digest if isinstance(s, PackedSeed) else seed_digest(s))[:_HEX] for s in batch)
        stream = sha256_hex(f"{stream}\x1f{digests}")[:32]
        yield Partition(index, tuple(batch), screened, digests, stream)


def _verdicts(seed: Seed | PackedSeed, screens: Sequence[Screen]) -> Iterator[Verdict | None]:
    if not isinstance(seed, PackedSeed):
        yield from (screen(seed) for screen in screens)
        return
    sketches = iter(seed.sketches)
    for screen in screens:
        if isinstance(screen, SketchingScreen):
            yield screen.decide(seed.id, next(sketches))
        else:
            yield screen(seed.unpack())


def unpacked(partition: Partition) -> Partition:
    """The partition with its seeds as they are."""
    seeds = (seed.unpack() if isinstance(seed, PackedSeed) else seed for seed in partition.seeds)
    return replace(partition, seeds=tuple(seeds))


class SeenIds:
    """A set of strings that only grows, by 64-bit hashes: one in 10^6 runs over 10^7 seeds sees two as one."""

    def __init__(self) -> None:
        self._old = np.empty(0, np.uint64)
        self._recent: set[int] = set()

    def add(self, name: str) -> bool:
        """True if the name is new."""
        key = xxhash.xxh3_64_intdigest(name.encode("utf-8", "surrogatepass"))
        place = int(np.searchsorted(self._old, np.uint64(key)))
        if key in self._recent or (place < len(self._old) and int(self._old[place]) == key):
            return False
        self._recent.add(key)
        if len(self._recent) >= _RECENT_IDS:
            self._old = np.sort(np.concatenate([self._old, np.fromiter(self._recent, np.uint64)]))
            self._recent.clear()
        return True


class PastStream:
    """What earlier sessions saw of the seed stream.

    `committed`: the record of each committed partition, an empty one where its entry, of an earlier Foil, has none.
    `paid`: of each other partition for which replies were paid, the digests of its seeds by then.
    `ends`: this run takes the stream to its end, so that a plan tells its length.
    `grown`: its limits have grown, so a partition for which replies were paid may have had fewer seeds.
    """

    def __init__(
        self,
        committed: Mapping[int, SeedRecord],
        paid: Mapping[int, str],
        plan: Mapping[str, int | str] | None,
        *,
        ends: bool,
        grown: bool = False,
    ) -> None:
        self._grown = grown
        self._committed, self._paid, self._plan = committed, paid, plan or {}
        self._last = max(int(self._plan.get("partitions", 0)) - 1, *committed, *paid, -1)
        self._to_end = bool(plan) and ends
        if unknown := sum(not record.seeds for record in committed.values()):
            LOG.warning("%d commit entries keep no digest of their seeds: a changed corpus would pass there", unknown)

    def check(self, partitions: Iterator[Partition]) -> Iterator[Partition]:
        """The partitions, those to be made only once nothing can differ any more. Raises SeedsChangedError."""
        waiting: list[Partition] = []
        index, seeds = -1, 0
        for partition in partitions:
            index, seeds = partition.index, seeds + len(partition.seeds)
            self._compare(partition)
            if index in self._committed:
                yield partition
            else:
                waiting.append(partition)
            if index >= self._last and not self._to_end:
                yield from waiting
                waiting.clear()
        planned = self._plan.get("seeds", seeds)
        if index < self._last or (self._to_end and seeds != planned):
            raise SeedsChangedError(
                f"the corpus has {seeds} seeds now and had {planned if self._to_end else 'more'} when this run began"
            )
        yield from waiting

    def _compare(self, partition: Partition) -> None:
        record = self._committed.get(partition.index)
        before = "it was committed"
        if record is None:
            paid = self._paid.get(partition.index, "")
            if self._grown and partition.digests.startswith(paid):
                paid = partition.digests
            record, before = SeedRecord(paid), "replies for it were paid"
        if record.seeds and record.seeds != partition.digests:
            raise SeedsChangedError(f"{_first_difference(record.seeds, partition)} since {before}")
        if partition.index + 1 == self._plan.get("partitions") and (end := self._plan.get("stream")):
            record = SeedRecord(stream=str(end))
        if record.stream and record.stream != partition.stream:
            raise SeedsChangedError(
                f"a seed changed before the end of partition {partition.index}, in a partition that has no commit entry"
            )


def _first_difference(digests: str, partition: Partition) -> str:
    """Which seed of the partition differs first from the one that was there."""
    old, new = ([text[i : i + _HEX] for i in range(0, len(text), _HEX)] for text in (digests, partition.digests))
    place = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    if place == len(partition.seeds):
        return f"partition {partition.index} has {len(new)} seeds, {len(old)} were there: the stream ended earlier"
    seed = partition.seeds[place]
    return f"the first seed that differs is number {place} of partition {partition.index}, {seed.id!r}"
