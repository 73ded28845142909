"""Partitions to workers, whatever a worker is: this process, a child process, a Ray actor.

    course: partitions in order -> slots of workers: make -> (in order, under `accept`) commit
                                        | the worker dies
                                        v
                                   its suspects one by one in a worker apart, then the partition again

Promise: a dead worker costs its partitions another attempt and nothing else. A seed that kills its worker twice while
it runs alone (three times in all) is condemned: it becomes a failed row and its neighbours complete. What stops a run
(a signal, a spent budget, a full disk) lets seeds in flight finish and complete partitions commit.
Price: a few messages a partition; an extra worker only while suspects are tried.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from engine.errors import FoilError
from engine.flow.journal import suspects
from engine.flow.limits import Limits, RuntimeSettings
from engine.flow.partition_flow import DrainedError
from engine.flow.progress import Counts, total
from engine.flow.seed_outcome import SeedOutcome
from engine.protocols import Partition
from engine.runtime.partition_queue import PartitionQueue
from engine.topic import Seed

LOG = logging.getLogger(__name__)
_DEATHS_ALONE = 2
_DEATHS_AT_START = 5
_DEATHS_OF_PARTITION = 8
_ANSWER_S = 0.5
_OPEN_PARTITIONS = 5
"""Partitions that a worker may have open beyond those that fill its window, so that one slow reply idles nothing."""


class WorkerDiedError(FoilError):
    """A worker process is gone, and what it was making with it."""


class Worker(Protocol):
    """An engine.flow.partition_flow.Flow somewhere. Every call raises WorkerDiedError once it is gone."""

    async def make(self, partition: Partition, condemned: Mapping[str, SeedOutcome]) -> None: ...
    async def commit(self, index: int) -> Counts: ...
    async def try_alone(self, index: int, seed: Seed) -> None: ...
    async def live(self) -> tuple[int, Counts]: ...
    async def drain(self) -> None: ...
    async def close(self) -> None: ...


class StartWorker(Protocol):
    """Starts a worker whose parts are built, or raises WorkerDiedError. `apart`: it only tries suspects."""

    def __call__(self, *, apart: bool) -> Awaitable[Worker]: ...


class WorkerSlot:
    """The place of one worker: filled when it is first needed, and filled again when its worker dies."""

    def __init__(self, hire: StartWorker, *, apart: bool = False) -> None:
        self._hire, self._apart, self._filling = hire, apart, asyncio.Lock()
        self._worker: Worker | None = None
        self._said = (0, Counts())
        self.lost = 0

    async def worker(self) -> Worker:
        async with self._filling:
            if self._worker is None:
                self._worker = await self._hired()
            return self._worker

    async def _hired(self) -> Worker:
        for _ in range(_DEATHS_AT_START):
            try:
                return await self._hire(apart=self._apart)
            except WorkerDiedError as death:
                LOG.warning("a worker did not come up: %s", death)
                self.lost += 1
        raise FoilError(
            f"{_DEATHS_AT_START} workers died while they started; look into their messages, and their memory"
        )

    async def bury(self, worker: Worker) -> None:
        """Clears the seat of this worker, unless that was done already."""
        if worker is self._worker:
            self._worker = None
            self.lost += 1
            await worker.close()

    async def live(self) -> tuple[int, Counts]:
        """What the worker says of itself; what it said last, where it is too busy to answer."""
        if self._worker is None:
            return 0, Counts()
        with suppress(TimeoutError, WorkerDiedError):
            self._said = await asyncio.wait_for(self._worker.live(), _ANSWER_S)
        return self._said

    def here(self) -> list[Worker]:
        return [self._worker] if self._worker else []


class Supervisor:
    """Takes partitions of a course through workers until it is over."""

    def __init__(
        self,
        course: PartitionQueue,
        hire: StartWorker,
        journal: Path,
        limits: Limits,
        runtime: RuntimeSettings,
    ) -> None:
        self._course, self._journal, self._runtime = course, journal, runtime
        self._seats = [WorkerSlot(hire) for _ in range(max(1, runtime.workers))]
        self._slots = _OPEN_PARTITIONS + -(-runtime.window // limits.partition_seeds)
        self._apart, self._trying = WorkerSlot(hire, apart=True), asyncio.Lock()

    async def run(self) -> None:
        """Returns when every partition is committed, or when the course is over and its last seeds have had their time.

        What a slot raises stops the course.
        """
        slots = {asyncio.create_task(self._slot(seat)) for seat in self._seats for _ in range(self._slots)}
        over = asyncio.create_task(self._course.over.wait())
        try:
            while slots and not over.done():
                await asyncio.wait({*slots, over}, return_when=asyncio.FIRST_COMPLETED)
                done = {slot for slot in slots if slot.done()}
                slots -= done
                self._learn(done)
            if slots:
                await self._wind_down(slots)
        finally:
            over.cancel()
            for worker in self._workers():
                await worker.close()

    async def live(self) -> tuple[int, Counts]:
        """Seeds in flight and counts not yet committed, over all workers."""
        answers = await asyncio.gather(*(seat.live() for seat in self._seats))
        return sum(seeds for seeds, _ in answers), total(counts for _, counts in answers)

    def lost(self) -> int:
        """Workers that died so far."""
        return sum(seat.lost for seat in [*self._seats, self._apart])

    def _workers(self) -> list[Worker]:
        return [worker for seat in [*self._seats, self._apart] for worker in seat.here()]

    def _learn(self, done: set[asyncio.Task[None]]) -> None:
        for task in done:
            error = task.exception()
            if error and not isinstance(error, DrainedError):
                self._course.stop(error)

    async def _wind_down(self, slots: set[asyncio.Task[None]]) -> None:
        drains = [asyncio.create_task(worker.drain()) for worker in self._workers()]
        done, late = await asyncio.wait(slots, timeout=self._runtime.drain_s)
        self._learn(done)
        for task in [*late, *drains]:
            task.cancel()
        await asyncio.gather(*late, *drains, return_exceptions=True)

    async def _slot(self, seat: WorkerSlot) -> None:
        while (partition := await self._course.next()) is not None:
            await self._through(partition, seat)

    async def _through(self, partition: Partition, seat: WorkerSlot) -> None:
        """One partition to its commit, however often its worker dies on the way."""
        condemned: dict[str, SeedOutcome] = {}
        for _ in range(_DEATHS_OF_PARTITION):
            worker = await seat.worker()
            try:
                await worker.make(partition, condemned)
                if await self._course.may_commit(partition.index):
                    self._course.enter(partition, await worker.commit(partition.index))
            except WorkerDiedError as death:
                LOG.warning("partition %d: %s", partition.index, death)
                await seat.bury(worker)
                condemned |= await self._condemned(partition, condemned)
            else:
                return
        raise WorkerDiedError(
            f"partition {partition.index} lost its worker {_DEATHS_OF_PARTITION} times, and no seed of it alone is to "
            "blame; lower `runtime.window`, raise `runtime.worker_memory_mb`, or look into the worker's own messages"
        )

    async def _condemned(self, partition: Partition, before: Mapping[str, SeedOutcome]) -> dict[str, SeedOutcome]:
        """The seeds, of those in flight when the worker died, that kill a worker when they run alone."""
        suspected = set(suspects(self._journal, partition.index)) - set(before)
        found: dict[str, SeedOutcome] = {}
        async with self._trying:
            for seed in partition.seeds:
                if seed.id not in suspected or self._course.over.is_set():
                    continue
                if ending := await self._alone(partition.index, seed):
                    found[seed.id] = ending
        return found

    async def _alone(self, index: int, seed: Seed) -> SeedOutcome | None:
        for _ in range(_DEATHS_ALONE):
            worker = await self._apart.worker()
            started = time.monotonic()
            try:
                await worker.try_alone(index, seed)
            except WorkerDiedError as death:
                LOG.warning("seed %s, alone: %s", seed.id, death)
                await self._apart.bury(worker)
                hung = time.monotonic() - started >= self._runtime.seed_timeout_s
            else:
                return None
        reason = "timeout" if hung else "crashed_worker"
        return SeedOutcome(
            "failed", reason, f"its worker ended {_DEATHS_ALONE + 1} times, {_DEATHS_ALONE} with this seed alone"
        )
