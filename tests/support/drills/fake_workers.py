"""A supervisor over workers that are no processes, on a clock that jumps: hours of deaths in milliseconds.

The supervisor, its queue and the journal are the real ones; a fake worker writes what a Flow would write there.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partialmethod
from pathlib import Path
from random import Random
from typing import Any

import pytest

from foil.engine.flow.journal import Journal, PartitionJournal
from foil.engine.flow.journal_records import reply_fact
from foil.engine.flow.limits import Limits, RuntimeSettings
from foil.engine.flow.progress import Counts
from foil.engine.flow.worker_report import WorkerReport
from foil.engine.protocols import Partition
from foil.engine.requests import Reply
from foil.engine.runtime.partition_queue import PartitionQueue
from foil.engine.runtime.supervisor import Supervisor
from foil.engine.runtime.workers import Cause, WorkerDiedError
from foil.engine.storage.local_store import LocalStore
from tests.support.small_parts import seed
from tests.support.virtual_time import VirtualLoop


class _InlineLoop(VirtualLoop):
    """Work for threads is done by the loop itself."""

    def run_in_executor(self, _executor: Any, work: Callable[..., Any], *args: Any) -> Any:
        future = self.create_future()
        future.set_result(work(*args))
        return future


_REAL_START = threading.Thread.start


def _start_thread(thread: threading.Thread) -> None:
    if thread.name == "seeds":
        asyncio.get_running_loop().call_soon(thread.run)
    else:
        _REAL_START(thread)


def run_inline(work: Coroutine[Any, Any, Any]) -> Any:
    """Like asyncio.run, in virtual time and one thread."""
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner(loop_factory=_InlineLoop) as runner:
        patch.setattr(threading.Thread, "start", partialmethod(_start_thread))
        return runner.run(work)


@dataclass
class FakeWorld:
    """`room`: workers that find a place. `slow`: the share of seeds that take 20 times as long.

    `poison`: seeds that end their worker. `start` may be replaced.
    """

    folder: Path
    seeds: int = 40
    size: int = 8
    seed_s: float = 1.0
    slow: float = 0.0
    room: int = 1_000
    poison: frozenset[str] = frozenset()
    runtime: RuntimeSettings = field(default_factory=lambda: RuntimeSettings(workers=2))
    accept: int | None = None
    chance: Random = field(default_factory=lambda: Random(1))
    committed: dict[int, frozenset[str]] = field(default_factory=dict)
    alive: list["FakeWorker"] = field(default_factory=list)
    deaths: Counter[str] = field(default_factory=Counter)
    started: int = 0

    def __post_init__(self) -> None:
        self.limits = Limits(partition_seeds=self.size, accept=self.accept)
        seeds = [seed(number) for number in range(self.seeds)]
        cuts = range(0, self.seeds, self.size)
        self.partitions = [Partition(i, tuple(seeds[cut : cut + self.size])) for i, cut in enumerate(cuts)]
        self.queue = PartitionQueue(iter(self.partitions), {}, self.limits)
        self.supervisor = Supervisor(self.queue, self.start, LocalStore(self.folder), self.limits, self.runtime)
        self.changed = asyncio.Event()

    async def start(self, *, apart: bool, on_placed: Callable[[], None]) -> "FakeWorker":
        while not apart and len([worker for worker in self.alive if not worker.apart]) >= self.room:
            await self.changed.wait()
        worker = FakeWorker(self, apart)
        self.alive.append(worker)
        on_placed()
        self.started += 1
        try:
            await worker.unless_dead(asyncio.sleep(self.chance.uniform(0.1, 2.0)))
        except BaseException:
            await worker.close()
            raise
        return worker

    def draw_seconds(self) -> float:
        """How long the next seed takes."""
        slow = self.chance.random() < self.slow if self.slow else False
        return self.chance.uniform(0.5, 1.5) * self.seed_s * (20 if slow else 1)

    def change(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


@dataclass
class _Running:
    """A partition that a worker has started."""

    journal: PartitionJournal
    poison_seeds: frozenset[str]
    seeds: list[asyncio.Task[None]] = field(default_factory=list)


class FakeWorker:
    """An engine.runtime.workers.Worker that lives until `die`."""

    def __init__(self, world: FakeWorld, apart: bool) -> None:
        self.world, self.apart, self.death = world, apart, asyncio.get_running_loop().create_future()
        self.window = asyncio.Semaphore(world.runtime.window)
        self.running: dict[int, _Running] = {}
        self.made: dict[int, frozenset[str]] = {}
        self.busy = self.answers = 0
        self.journal = Journal(LocalStore(world.folder), "session")

    def die(self, cause: Cause) -> None:
        if not self.death.done():
            self.death.set_result(cause)
            self.world.deaths[cause.value] += 1
            self._leave()

    def _leave(self) -> None:
        for running in self.running.values():
            for task in running.seeds:
                task.cancel()
        self.world.alive.remove(self)
        self.world.change()

    async def unless_dead(self, work: Coroutine[Any, Any, Any]) -> Any:
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, self.death}, return_when=asyncio.FIRST_COMPLETED)
            if self.death.done():
                raise WorkerDiedError("it is gone", self.death.result())
            return task.result()
        finally:
            task.cancel()

    async def start(self, partition: Partition, poison_seeds: Any, *, again: bool) -> None:
        await self.unless_dead(self._start(partition, poison_seeds, again))

    async def _start(self, partition: Partition, poison_seeds: Any, again: bool) -> None:
        journal = self.journal.open(partition.index, again=again)
        running = self.running[partition.index] = _Running(journal, frozenset(poison_seeds))
        for one in partition.seeds:
            await self.window.acquire()
            running.seeds.append(asyncio.create_task(self._run(one.id, journal, poison_seeds)))

    async def make(self, index: int) -> None:
        running = self.running[index]
        await self.unless_dead(asyncio.wait(running.seeds))
        running.journal.close()
        self.made[index] = self.running.pop(index).poison_seeds

    async def _run(self, name: str, journal: PartitionJournal, poison_seeds: Any) -> None:
        async with self._at_work():
            await journal.begun(name)
            if journal.get(name) is None:
                await asyncio.sleep(self.world.draw_seconds())
                reply = Reply(name, "")  # written, and not waited for: a sync takes real time
                journal._append(reply_fact(reply))
                journal._replies.setdefault(name, reply)
            if name in self.world.poison and name not in poison_seeds:
                self.die(Cause.OWN)
                await asyncio.sleep(1e9)
            await asyncio.sleep(0.01)
            journal.ended(name)

    @asynccontextmanager
    async def _at_work(self) -> Any:
        self.busy += 1
        try:
            yield
            self.answers += 1
        finally:
            self.busy -= 1
            self.window.release()

    async def commit(self, index: int) -> Counts:
        await self.unless_dead(asyncio.sleep(0.01))
        standing = self.world.committed.setdefault(index, self.made[index])
        assert standing == self.made[index]
        seeds = len(self.world.partitions[index].seeds)
        counts = Counts(seeds=Counter(accepted=seeds), topics=Counter(accepted=seeds))
        await self.unless_dead(asyncio.sleep(0.01))  # it may die between its commit and its answer
        return counts

    async def try_seeds(self, _partition: Partition, seed_ids: Sequence[str]) -> None:
        await self.unless_dead(asyncio.sleep(self.world.seed_s))
        if self.world.poison & set(seed_ids):
            self.die(Cause.OWN)
            await self.unless_dead(asyncio.sleep(0))

    async def live(self) -> WorkerReport:
        await self.unless_dead(asyncio.sleep(0))
        return WorkerReport(self.busy, {}, self.answers, writer=self.journal.writer)

    async def drain(self) -> None:
        """Nothing is kept from starting here."""

    async def close(self) -> None:
        if not self.death.done():
            self.death.set_result(Cause.OUTSIDE)
            self._leave()
