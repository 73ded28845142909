"""The partitions of a run: which is next, when each may be committed, and what stops the run.

    partitions of the seed stream (engine.runtime.seed_stream) -> those not committed

Promise: under `limits.accept` partitions are committed in order, so that every concurrency stops after the same one.
A partition that was given back is handed out before all later ones, so no commit waits for one that nobody can take.
Price: one partition is read ahead of the workers, in a thread of its own.
"""

import asyncio
import math
import signal
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import TypeVar

from foil.engine.errors import InterruptedRunError
from foil.engine.flow.limits import Limits
from foil.engine.flow.progress import Counts, total
from foil.engine.protocols import PendingPartition

T = TypeVar("T")
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class CommittedPartition:
    """Of a committed partition: its accepted topics, its seeds, and the digest of the stream to its end if known."""

    accepted: int
    seeds: int
    stream: str


def _ignore(_partition: PendingPartition) -> None:
    """Nobody waits for this commit."""


class PartitionQueue:
    """Hands out the partitions that are not committed yet, until there is a reason to stop.

    `over` is set once all are committed, or there is a reason to stop. `error` is that reason, None where the queue
    came to its own end. Under `limits.accept`, no more than `most_open` partitions are open at once.
    To be used within one event loop.
    """

    def __init__(
        self,
        partitions: Iterator[PendingPartition],
        committed: Mapping[int, CommittedPartition],
        limits: Limits,
        on_commit: Callable[[PendingPartition], None] = _ignore,
        planned: int = 0,
    ) -> None:
        self._on_commit = on_commit
        self._planned, self._fewest = planned, max(planned, max(committed, default=-1) + 1)
        self._partitions, self._committed, self._limits = partitions, dict(committed), limits
        self._ready: asyncio.PriorityQueue[tuple[float, PendingPartition | None]] = asyncio.PriorityQueue()
        self._pulls = 0
        self._reader: asyncio.Task[None] | None = None
        self._open: set[int] = set()  # read, and not committed
        self._turns: dict[int, asyncio.Event] = {}
        self._turn = self._accepted = self._before_turn = self._seeds_read = 0
        self._ended = False
        self._stream_before_turn = self._stream_read = ""  # digests of the stream up to there
        self._last_read = -1
        self.most_open = 1
        self.counts = Counts()
        self.error: BaseException | None = None
        self.over = asyncio.Event()
        self._advance()

    async def next(self) -> PendingPartition | None:
        """The lowest partition that is to be made; None once the queue is over."""
        self._pulls += 1
        self._read_on()
        try:
            _, partition = await self._ready.get()
        finally:
            self._pulls -= 1
        if partition is None or self.over.is_set():
            self._ready.put_nowait((math.inf, None))  # the end stays, for all that ask
            return None
        return partition

    def give_back(self, partition: PendingPartition) -> None:
        """Takes back a partition whose worker is gone; it is handed out before all later ones."""
        self._ready.put_nowait((partition.index, partition))

    async def may_commit(self, index: int) -> bool:
        """Under `limits.accept`, waits until all partitions before are committed; False if the queue ends first."""
        if self._limits.accept is None:
            return True
        turn = self._turns.setdefault(index, asyncio.Event())
        self._call_turn()
        await turn.wait()
        return self._turn == index and not self._enough()

    def record_commit(self, partition: PendingPartition, counts: Counts) -> None:
        self.counts = total([self.counts, counts])
        self._committed[partition.index] = CommittedPartition(
            counts.topics["accepted"], partition.size, partition.stream
        )
        self._on_commit(partition)
        self._open.discard(partition.index)
        self._turns.pop(partition.index, None)
        self._advance()
        self._call_turn()
        self._read_on()

    def stop(self, error: BaseException) -> None:
        """Hands out nothing more. The first error stays."""
        self.error = self.error or error
        self._end()

    def turn(self) -> int | None:
        """The partition that all others wait for under `limits.accept`; None without that limit."""
        return None if self._limits.accept is None else self._turn

    def _end(self) -> None:
        self.over.set()
        self._ready.put_nowait((math.inf, None))
        self._call_turn()

    def _call_turn(self) -> None:
        """Wakes whoever waits to commit and may; everybody, once the queue is over."""
        for index in list(self._turns) if self.over.is_set() else [self._turn]:
            if index in self._turns:
                self._turns[index].set()

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

    def all_seeds(self) -> int | None:
        """All seeds of the stream; None until it was read to its end."""
        return self._seeds_read if self._ended else None

    def committed(self) -> Collection[int]:
        return self._committed.keys()

    def _enough(self) -> bool:
        if self._limits.accept is None or self._turn < self._fewest:
            return False
        return self._planned > 0 or self._accepted >= self._limits.accept

    def _advance(self) -> None:
        while self._turn in self._committed and not self._enough():
            partition = self._committed[self._turn]
            self._accepted += partition.accepted
            self._before_turn += partition.seeds
            self._stream_before_turn = partition.stream
            self._turn += 1
        if self._enough() or (self._ended and not self._open):
            self._end()

    def _wants_more(self) -> bool:
        """Whether to read on: less than one partition more is ready than workers wait for."""
        if self._ended or self.over.is_set() or self._ready.qsize() > self._pulls:
            return False
        return self._limits.accept is None or len(self._open) < self.most_open

    def _read_on(self) -> None:
        if self._wants_more() and (self._reader is None or self._reader.done()):
            self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        """Reads while more is wanted. An error of the reader stops the queue after what it read."""
        while self._wants_more():
            try:
                partition: PendingPartition | None = await in_thread(lambda: next(self._partitions, None), name="seeds")
            except Exception as error:  # noqa: BLE001 - the queue carries it to whoever runs it
                self.stop(error)
                return
            if partition is None:
                self._ended = True
                self._advance()
            else:
                self._take_in(partition)

    def _take_in(self, partition: PendingPartition) -> None:
        self._seeds_read += partition.size
        if partition.index > self._last_read:
            self._last_read, self._stream_read = partition.index, partition.stream
        if partition.index not in self._committed:
            self._open.add(partition.index)
            self._ready.put_nowait((partition.index, partition))


def _plan(seeds: int, partitions: int, stream: str) -> dict[str, int | str]:
    return {"seeds": seeds, "partitions": partitions, **({"stream": stream} if stream else {})}


def in_thread(work: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Runs the work in a thread that no exit waits for: it may be deep in a slow file, or call a dead cluster."""
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

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


@contextmanager
def stopped_by_signals(queue: PartitionQueue) -> Iterator[None]:
    """The first of _ENDING stops the queue, the second interrupts this thread, a third is not caught.

    A SIGHUP that is ignored (`nohup`) stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop, received = asyncio.get_running_loop(), list[int]()

    def stop(signum: int) -> None:
        queue.stop(InterruptedRunError(signum))

    def handle(signum: int, _: FrameType | None) -> None:
        received.append(signum)
        if len(received) == 1:
            loop.call_soon_threadsafe(stop, signum)
            return
        signal.signal(signum, signal.SIG_DFL)
        raise KeyboardInterrupt(signum)

    heard = [s for s in _ENDING if s is not signal.SIGHUP or signal.getsignal(s) is not signal.SIG_IGN]
    before = {signum: signal.signal(signum, handle) for signum in heard}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
