"""The partitions of a run: which is next, when each may be committed, and what stops the run.

    seeds in stream order -> screens (every seed, once) -> partitions of `limits.partition_seeds` -> those not committed

Promise: partitions are cut by position alone, so every run of a job cuts the same ones; under `limits.accept` they are
committed in order, so that every concurrency stops after the same one. Price: the seed stream is read again on resume;
one partition is read ahead of the workers, in a thread of its own.
"""

import asyncio
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count, islice
from typing import Any, TypeVar

from engine.errors import UsageError
from engine.flow.limits import Limits
from engine.flow.progress import Counts, total
from engine.protocols import Partition, Screen, SeedReader
from engine.topic import Seed, Verdict

T = TypeVar("T")


def split_into_partitions(reader: SeedReader, screens: Sequence[Screen], limits: Limits) -> Iterator[Partition]:
    """The partitions of a corpus. Raises UsageError for two seeds of one id in a partition, and as the reader does."""
    seeds = islice(reader, limits.seeds)
    for index in count():
        batch: dict[str, Seed] = {}
        screened: dict[str, Verdict] = {}
        for seed in islice(seeds, limits.partition_seeds):
            if seed.id in batch:
                raise UsageError(f"two seeds of the corpus {seed.corpus!r} have the id {seed.id!r}; ids must be unique")
            batch[seed.id] = seed
            rejecting = [v for v in (screen(seed) for screen in screens) if v is not None and v.outcome == "reject"]
            if rejecting:
                screened[seed.id] = rejecting[0]
        if not batch:
            return
        yield Partition(index, tuple(batch.values()), screened)


class PartitionQueue:
    """Hands out the partitions that are not committed yet, until there is a reason to stop.

    `committed` gives the accepted topics and the seeds of each committed partition. `error` is what stopped the queue,
    or None where it came to its own end. To be used within one event loop.
    """

    def __init__(
        self, partitions: Iterator[Partition], committed: Mapping[int, tuple[int, int]], limits: Limits
    ) -> None:
        self._partitions, self._committed, self._limits = partitions, dict(committed), limits
        self._reading, self._changed = asyncio.Lock(), asyncio.Event()
        self._turn = self._accepted = self._before_turn = self._seeds_read = 0
        self._ended = False
        self.counts = Counts()
        self.error: BaseException | None = None
        self.over = asyncio.Event()
        self._advance()

    async def next(self) -> Partition | None:
        """The next partition to make; None when there is none left, or the queue is over."""
        async with self._reading:
            while not (self._ended or self.over.is_set()):
                partition = await self._read_next()
                if partition is not None and partition.index not in self._committed:
                    return partition
            return None

    async def may_commit(self, index: int) -> bool:
        """Under `limits.accept`, waits until all partitions before are committed; False if the queue ends first."""
        if self._limits.accept is None:
            return True
        while self._turn != index and not self.over.is_set():
            await self._changed.wait()
        return self._turn == index and not self._enough()

    def record_commit(self, partition: Partition, counts: Counts) -> None:
        """Notes that this partition is committed."""
        self.counts = total([self.counts, counts])
        self._committed[partition.index] = counts.topics["accepted"], len(partition.seeds)
        self._advance()
        self._wake()

    def stop(self, error: BaseException) -> None:
        """Hands out nothing more. The first error stays."""
        self.error = self.error or error
        self.over.set()
        self._wake()

    def _wake(self) -> None:
        """Wakes all that wait for their turn."""
        self._changed.set()
        self._changed = asyncio.Event()

    def plan(self) -> dict[str, int] | None:
        """The seeds and partitions of the whole run; None until it is known where the run ends."""
        if self._enough():
            return {"seeds": self._before_turn, "partitions": self._turn}
        if not self._ended:
            return None
        partitions = -(-self._seeds_read // self._limits.partition_seeds)
        if self._limits.accept is not None and self._turn < partitions:
            return None  # what is still to be committed may bring enough
        return {"seeds": self._seeds_read, "partitions": partitions}

    def seeds_known(self) -> int:
        """The seeds that are read or committed so far."""
        return max(self._seeds_read, sum(seeds for _, seeds in self._committed.values()))

    def committed(self) -> Collection[int]:
        """The partitions that are committed."""
        return self._committed.keys()

    def _enough(self) -> bool:
        return self._limits.accept is not None and self._accepted >= self._limits.accept

    def _advance(self) -> None:
        while self._turn in self._committed and not self._enough():
            accepted, seeds = self._committed[self._turn]
            self._accepted += accepted
            self._before_turn += seeds
            self._turn += 1
        if self._enough():
            self.over.set()

    async def _read_next(self) -> Partition | None:
        """The next partition of the stream, or None at its end or when the queue is over first."""
        reading: asyncio.Future[Any] = _in_thread(lambda: next(self._partitions, None))
        over: asyncio.Future[Any] = asyncio.ensure_future(self.over.wait())
        await asyncio.wait([reading, over], return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        if not reading.done():
            return None
        if error := reading.exception():
            self.stop(error)  # before another pulls: a generator that has raised looks like one that has ended
            raise error
        partition: Partition | None = reading.result()
        self._ended = partition is None
        self._seeds_read += len(partition.seeds) if partition else 0
        return partition


def _in_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Runs the work in a thread that no exit waits for: a reader may be deep in a slow file when the run must end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if not future.done():
            future.set_exception(error) if error else future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as raised:  # noqa: BLE001 - raised again where the result is awaited
            error = raised
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="seeds", daemon=True).start()
    return future
