"""The partitions of a run: which is next, when each may be committed, and what stops the run.

    partitions of the seed stream (engine.runtime.seed_stream) -> those not committed

Promise: under `limits.accept` partitions are committed in order, so that every concurrency stops after the same one.
Price: one partition is read ahead of the workers, in a thread of its own.
"""

import asyncio
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from engine.flow.limits import Limits
from engine.flow.progress import Counts, total
from engine.protocols import Partition

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CommittedPartition:
    """Of a committed partition: its accepted topics, its seeds, and the digest of the stream to its end if known."""

    accepted: int
    seeds: int
    stream: str


class PartitionQueue:
    """Hands out the partitions that are not committed yet, until there is a reason to stop.

    `error` is what stopped the queue, or None where it came to its own end. To be used within one event loop.
    """

    def __init__(
        self, partitions: Iterator[Partition], committed: Mapping[int, CommittedPartition], limits: Limits
    ) -> None:
        self._partitions, self._committed, self._limits = partitions, dict(committed), limits
        self._reading, self._changed = asyncio.Lock(), asyncio.Event()
        self._turn = self._accepted = self._before_turn = self._seeds_read = 0
        self._ended = False
        self._stream_before_turn = self._stream_read = ""  # digests of the stream up to there
        self._last_read = -1
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
        self._committed[partition.index] = CommittedPartition(
            counts.topics["accepted"], len(partition.seeds), partition.stream
        )
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

    def plan(self) -> dict[str, int | str] | None:
        """The seeds and partitions of the whole run, and the stream's digest; None until it is known where it ends."""
        if self._enough():
            return _plan(self._before_turn, self._turn, self._stream_before_turn)
        if not self._ended:
            return None
        partitions = self._last_read + 1
        if self._limits.accept is not None and self._turn < partitions:
            return None  # what is still to be committed may bring enough
        return _plan(self._seeds_read, partitions, self._stream_read)

    def seeds_known(self) -> int:
        """The seeds that are read or committed so far."""
        return max(self._seeds_read, sum(one.seeds for one in self._committed.values()))

    def committed(self) -> Collection[int]:
        """The partitions that are committed."""
        return self._committed.keys()

    def _enough(self) -> bool:
        return self._limits.accept is not None and self._accepted >= self._limits.accept

    def _advance(self) -> None:
        while self._turn in self._committed and not self._enough():
            partition = self._committed[self._turn]
            self._accepted += partition.accepted
            self._before_turn += partition.seeds
            self._stream_before_turn = partition.stream
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
        if partition:
            self._seeds_read += len(partition.seeds)
            if partition.index > self._last_read:
                self._last_read, self._stream_read = partition.index, partition.stream
        return partition


def _plan(seeds: int, partitions: int, stream: str) -> dict[str, int | str]:
    return {"seeds": seeds, "partitions": partitions, **({"stream": stream} if stream else {})}


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
