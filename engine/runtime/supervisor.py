"""Partitions to workers, whatever a worker is: this process, a child process, a Ray actor.

    queue: partitions in order -> slots of workers: make -> (in order, under `accept`) commit
                                        | the worker dies
                                        v
                                   its suspects one by one in a worker apart, then the partition again

Promise: a dead worker costs its partitions another attempt and nothing else. A seed that kills its worker twice while
it runs alone (three times in all) is a poison seed: it becomes a failed row and its neighbours complete. What stops a
run (a signal, a spent budget, a full disk) lets seeds in flight finish and complete partitions commit.
Price: a few messages a partition; an extra worker only while suspects are tried.
"""

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

    async def make(self, partition: Partition, poison_seeds: Mapping[str, SeedOutcome]) -> None: ...
    async def commit(self, index: int) -> Counts: ...
    async def try_alone(self, index: int, seed: Seed) -> None: ...
    async def live(self) -> tuple[int, Counts]: ...
    async def drain(self) -> None: ...
    async def close(self) -> None: ...


class StartWorker(Protocol):
    """Starts a worker whose parts are built, or raises WorkerDiedError. `apart`: it only tries suspects."""

    def __call__(self, *, apart: bool) -> Awaitable[Worker]: ...


class WorkerSlot:
    """Holds one worker: started when it is first needed, and started again when it dies."""

    def __init__(self, start: StartWorker, *, apart: bool = False) -> None:
        self._start, self._apart, self._filling = start, apart, asyncio.Lock()
        self._worker: Worker | None = None
        self._last_report = (0, Counts())
        self.lost = 0

    async def worker(self) -> Worker:
        async with self._filling:
            if self._worker is None:
                self._worker = await self._start_worker()
            return self._worker

    async def _start_worker(self) -> Worker:
        for _ in range(_DEATHS_AT_START):
            try:
                return await self._start(apart=self._apart)
            except WorkerDiedError as death:
                LOG.warning("a worker did not come up: %s", death)
                self.lost += 1
        raise FoilError(
            f"{_DEATHS_AT_START} workers died while they started; look into their messages, and their memory"
        )

    async def discard(self, worker: Worker) -> None:
        """Empties the slot of this dead worker, unless that was done already."""
        if worker is self._worker:
            self._worker = None
            self.lost += 1
            await worker.close()

    async def live(self) -> tuple[int, Counts]:
        """What the worker says of itself; what it said last, where it is too busy to answer."""
        if self._worker is None:
            return 0, Counts()
        with suppress(TimeoutError, WorkerDiedError):
            self._last_report = await asyncio.wait_for(self._worker.live(), _ANSWER_S)
        return self._last_report

    def workers(self) -> list[Worker]:
        return [self._worker] if self._worker else []


class Supervisor:
    """Takes partitions of the queue through workers until it is over."""

    def __init__(
        self,
        queue: PartitionQueue,
        start: StartWorker,
        journal: Path,
        limits: Limits,
        runtime: RuntimeSettings,
    ) -> None:
        self._queue, self._journal, self._runtime = queue, journal, runtime
        self._slots = [WorkerSlot(start) for _ in range(max(1, runtime.workers))]
        self._open_per_worker = _OPEN_PARTITIONS + -(-runtime.window // limits.partition_seeds)
        self._apart, self._trying = WorkerSlot(start, apart=True), asyncio.Lock()

    async def run(self) -> None:
        """Returns when every partition is committed, or when the queue is over and its last seeds have had their time.

        An error in a slot stops the queue.
        """
        tasks = {asyncio.create_task(self._fill(slot)) for slot in self._slots for _ in range(self._open_per_worker)}
        over = asyncio.create_task(self._queue.over.wait())
        try:
            while tasks and not over.done():
                await asyncio.wait({*tasks, over}, return_when=asyncio.FIRST_COMPLETED)
                finished = {task for task in tasks if task.done()}
                tasks -= finished
                self._stop_on_error(finished)
            if tasks:
                await self._drain(tasks)
        finally:
            over.cancel()
            for worker in self._workers():
                await worker.close()

    async def live(self) -> tuple[int, Counts]:
        """Seeds in flight and counts not yet committed, over all workers."""
        answers = await asyncio.gather(*(slot.live() for slot in self._slots))
        return sum(seeds for seeds, _ in answers), total(counts for _, counts in answers)

    def placed(self) -> int:
        """Workers that are up, those that only try suspects aside."""
        return sum(len(slot.workers()) for slot in self._slots)

    def lost(self) -> int:
        """Workers that died so far."""
        return sum(slot.lost for slot in [*self._slots, self._apart])

    def _workers(self) -> list[Worker]:
        return [worker for slot in [*self._slots, self._apart] for worker in slot.workers()]

    def _stop_on_error(self, finished: set[asyncio.Task[None]]) -> None:
        for task in finished:
            error = task.exception()
            if error and not isinstance(error, DrainedError):
                self._queue.stop(error)

    async def _drain(self, tasks: set[asyncio.Task[None]]) -> None:
        drains = [asyncio.create_task(worker.drain()) for worker in self._workers()]
        finished, late = await asyncio.wait(tasks, timeout=self._runtime.drain_s)
        self._stop_on_error(finished)
        for task in [*late, *drains]:
            task.cancel()
        await asyncio.gather(*late, *drains, return_exceptions=True)

    async def _fill(self, slot: WorkerSlot) -> None:
        while (partition := await self._queue.next()) is not None:
            await self._run_partition(partition, slot)

    async def _run_partition(self, partition: Partition, slot: WorkerSlot) -> None:
        """One partition to its commit, however often its worker dies on the way."""
        poison_seeds: dict[str, SeedOutcome] = {}
        for _ in range(_DEATHS_OF_PARTITION):
            worker = await slot.worker()
            try:
                await worker.make(partition, poison_seeds)
                if await self._queue.may_commit(partition.index):
                    self._queue.record_commit(partition, await worker.commit(partition.index))
            except WorkerDiedError as death:
                LOG.warning("partition %d: %s", partition.index, death)
                await slot.discard(worker)
                poison_seeds |= await self._find_poison(partition, poison_seeds)
            else:
                return
        raise WorkerDiedError(
            f"partition {partition.index} lost its worker {_DEATHS_OF_PARTITION} times, and no seed of it alone is to "
            "blame; lower `runtime.window`, raise `runtime.worker_memory_mb`, or look into the worker's own messages"
        )

    async def _find_poison(
        self, partition: Partition, known_poison: Mapping[str, SeedOutcome]
    ) -> dict[str, SeedOutcome]:
        """The seeds, of those in flight when the worker died, that kill a worker when they run alone."""
        suspected = set(suspects(self._journal, partition.index)) - set(known_poison)
        poison_seeds: dict[str, SeedOutcome] = {}
        async with self._trying:
            for seed in partition.seeds:
                if seed.id not in suspected or self._queue.over.is_set():
                    continue
                if outcome := await self._try_alone(partition.index, seed):
                    poison_seeds[seed.id] = outcome
        return poison_seeds

    async def _try_alone(self, index: int, seed: Seed) -> SeedOutcome | None:
        for _ in range(_DEATHS_ALONE):
            worker = await self._apart.worker()
            started = time.monotonic()
            try:
                await worker.try_alone(index, seed)
            except WorkerDiedError as death:
                LOG.warning("seed %s, alone: %s", seed.id, death)
                await self._apart.discard(worker)
                hung = time.monotonic() - started >= self._runtime.seed_timeout_s
            else:
                return None
        reason = "timeout" if hung else "crashed_worker"
        return SeedOutcome(
            "failed", reason, f"its worker ended {_DEATHS_ALONE + 1} times, {_DEATHS_ALONE} with this seed alone"
        )
