"""Partitions to workers, whatever a worker is: this process, a child process, a Ray actor.

    places: one for each wanted worker; it is started in the background, and again when it dies
    queue: lowest partition first -> a worker that is up: start, make -> (in order, under `accept`) commit
              ^                          | it dies
              +---- at once, or after ---+---> its suspects in groups, many at a time, in workers apart

Promise: only a worker that is up takes a partition, so a run goes on with the workers that it has. A dead worker costs
its partitions another attempt and nothing else. What stops a run (a signal, a spent budget, a full disk) lets seeds in
flight finish and complete partitions commit.

Blame. What a death says of the seeds in flight follows from its `Cause`. Outside (a lost node, a preemption): nothing;
the partitions go back at once. Unsure (SIGKILL): the seeds are suspects if it was their second such death. The
worker's own (an exit, a segmentation fault, a hang): they are suspects. Suspects are split into groups, a group that
survives is cleared, and one that does not is split again. A seed that ends its worker twice while it runs alone is a
poison seed: it becomes a failed row and its neighbours complete.

What ends a run is a rate, never a number of deaths, since a long run on machines that are taken away sees thousands:
- no worker was ever up, and in each place that had one, `_DEATHS_AT_START` in a row died while they started;
- a partition lost its worker `DEATHS` times within `_DEATHS_S` seconds, was paid no new reply between these deaths,
  and none of its seeds is to blame.
Price: a few messages a partition, one a worker and half second; workers apart only while suspects are tried.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from foil.engine.errors import FoilError
from foil.engine.flow.journal_reading import LeftOpen, left_open
from foil.engine.flow.limits import Limits, RuntimeSettings
from foil.engine.flow.partition_flow import DrainedError
from foil.engine.flow.progress import Counts, total
from foil.engine.flow.seed_outcome import SeedOutcome
from foil.engine.flow.worker_report import SeedEndings, WorkerReport
from foil.engine.protocols import PendingPartition
from foil.engine.runtime.partition_queue import PartitionQueue
from foil.engine.runtime.suspects import DEATHS, PartitionPast, Trials, suspects_of
from foil.engine.runtime.workers import Cause, StartWorker, Worker, WorkerDiedError, WorkerSlot
from foil.engine.storage.store import Store

LOG = logging.getLogger(__name__)
_DEATHS_AT_START = 5
_DEATHS_S = 600.0
_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Pauses between the attempts to fill a place, the last one for good."""
_REPORT_S = 0.5
_REPORTS_PER_S = 200
_SILENT_S = 30.0
"""Seconds beyond a seed's own that a worker may leave a question unanswered."""
_OPEN_PARTITIONS = 5
_SLOW_WINDOWS, _SLOW_PARTITIONS = 7, 32
"""Partitions that a worker may have open beyond those that fill its window, and where none waits for its turn so many
windows of seeds more: a slow reply keeps its partition open, and must not keep others from being begun."""


@dataclass(frozen=True, slots=True)
class CrewReport:
    """All workers together. `stalled`: for `runtime.stall_s` nothing was answered or committed."""

    placed: int
    places: int
    lost: int
    in_flight: int
    counts: Counts
    endings: SeedEndings
    stalled: bool
    waiting_for: str


class Supervisor:
    """Takes partitions of the queue through workers until it is over."""

    def __init__(
        self, queue: PartitionQueue, start: StartWorker, journal: Store, limits: Limits, runtime: RuntimeSettings
    ) -> None:
        self._queue, self._start, self._journal, self._runtime = queue, start, journal, runtime
        self._in_order = limits.accept is not None
        self._slots = [WorkerSlot() for _ in range(max(1, runtime.most_workers))]
        self._open_per_worker = _OPEN_PARTITIONS + -(-runtime.window // limits.partition_seeds)
        if not self._in_order:
            slow = -(-_SLOW_WINDOWS * runtime.window // limits.partition_seeds)
            self._open_per_worker += min(slow, _SLOW_PARTITIONS)
        queue.most_open = self._open_per_worker * len(self._slots)
        self._pasts: defaultdict[int, PartitionPast] = defaultdict(PartitionPast)
        self._trials = Trials(self._start_worker, max(2, len(self._slots)), runtime.seed_timeout_s)
        self._tasks: set[asyncio.Task[None]] = set()
        self._lost = self._moves = 0
        self._ever_up = self._draining = False
        self._stall = _Stall(runtime.stall_s)

    async def run(self) -> None:
        """Returns when every partition is committed, or when the queue is over and its last seeds have had their time.

        An error that is no worker's death stops the queue.
        """
        try:
            for slot in self._slots:
                self._spawn(self._keep_filled(slot))
            await self._queue.over.wait()
            await self._drain()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.gather(*(slot.clear() for slot in [*self._slots, *self._trials.slots]))

    def live(self) -> CrewReport:
        """What all workers say of themselves, and what the run waits for."""
        reports = [slot.report for slot in self._slots]
        in_flight = sum(report.in_flight for report in reports)
        counts = total(  # a report may be older than the commit of what it counts
            each for slot in self._slots for index, each in slot.report.counts.items() if index in slot.open
        )
        endings = reduce(add, (slot.ended_before + slot.report.endings for slot in self._slots))
        stalled_s = self._stall.seconds((self._moves, self._queue.counts.topics.total()))
        placed, places = sum(slot.placed for slot in self._slots), len(self._slots)
        waits = [self._missing(placed)] if placed < self._runtime.least_workers else []
        waits += [f"{trying} seeds tried apart for what they do to a worker"] if (trying := self._trials.trying) else []
        waits += [self._stalled(stalled_s, in_flight)] if stalled_s else []
        return CrewReport(placed, places, self.lost(), in_flight, counts, endings, stalled_s > 0, "; ".join(waits))

    def lost(self) -> int:
        """Workers that died so far."""
        return self._lost + self._trials.lost

    def _missing(self, placed: int) -> str:
        gpus = self._runtime.worker_gpus
        room = "CPU" + (f" and {gpus:g} GPU" if gpus else "") if self._runtime.kind == "ray" else "their processes"
        return f"{placed} of {self._runtime.most_workers} workers placed; waiting for {room}"

    def _stalled(self, seconds: float, in_flight: int) -> str:
        oldest = max(slot.report.oldest_request_s for slot in self._slots)
        words = f"nothing was answered or committed for {seconds:.0f} s: {in_flight} seeds in flight"
        words += f", the oldest request {oldest:.0f} s old" if oldest else ""
        if not any(slot.worker for slot in self._slots):
            words += ", no worker is up"
        turn = self._queue.turn()
        return words + (f", `limits.accept` waits for partition {turn}" if turn is not None else "")

    # Workers

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs in the background; an error stops the queue."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._queue.stop(error)

    async def _keep_filled(self, slot: WorkerSlot) -> None:
        """Starts a worker for this place, feeds it, and starts another when it dies, until the queue is over."""
        while not self._queue.over.is_set():
            worker = await self._start_worker(slot)
            slot.work = asyncio.create_task(self._feed_and_watch(slot, worker))
            try:
                await slot.work
            except WorkerDiedError as death:
                LOG.warning("a worker is gone: %s", death)
                await self._empty_place(slot, death)

    async def _start_worker(self, slot: WorkerSlot) -> Worker:
        attempt = 0
        while True:
            try:
                async with asyncio.timeout(self._runtime.start_timeout_s):
                    slot.worker = await self._start(apart=slot.apart, on_placed=slot.place)
            except TimeoutError:
                LOG.warning("a worker was not up after `runtime.start_timeout_s`; another is asked for")
            except WorkerDiedError as death:
                LOG.warning("a worker did not come up: %s", death)
                self._lost += 1
                slot.deaths_at_start += death.cause is not Cause.OUTSIDE
                self._check_start()
            else:
                slot.placed, slot.deaths_at_start, self._ever_up = True, 0, True
                return slot.worker
            await asyncio.sleep(_PAUSES_S[min(attempt, len(_PAUSES_S) - 1)])
            slot.placed, attempt = False, attempt + 1

    def _check_start(self) -> None:
        """Raises FoilError if no worker was ever up, and all that found a place died again and again."""
        tried = [slot.deaths_at_start for slot in self._slots if slot.placed or slot.deaths_at_start]
        if not self._ever_up and min(tried, default=0) >= _DEATHS_AT_START:
            raise FoilError(
                f"no worker came up: {sum(tried)} died while they started; look into their messages, and their memory"
            )

    async def _feed_and_watch(self, slot: WorkerSlot, worker: Worker) -> None:
        """Feeds a worker until the queue is over. Raises WorkerDiedError as soon as the worker is known to be gone."""
        watch = asyncio.create_task(self._watch(slot, worker))
        feed = asyncio.create_task(self._feed(slot, worker))
        try:
            await asyncio.wait({watch, feed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            watch.cancel()
            feed.cancel()
            ended = await asyncio.gather(watch, feed, return_exceptions=True)
        for error in filter(None, ended):
            if not isinstance(error, asyncio.CancelledError):
                raise _first_of(error)

    async def _watch(self, slot: WorkerSlot, worker: Worker) -> None:
        """Keeps what the worker says of itself; many workers are asked less often.

        One that is silent for longer than a seed may take is frozen, since it would have ended itself
        (engine.runtime.watchdog): it is given up, and its partitions go to others.
        """
        while True:
            before = slot.report
            try:
                async with asyncio.timeout(self._runtime.seed_timeout_s + _SILENT_S):
                    slot.report = await worker.live()
            except TimeoutError:
                silence = f"it has not answered for {self._runtime.seed_timeout_s + _SILENT_S:.0f} s"
                raise WorkerDiedError(silence, Cause.OUTSIDE) from None
            self._moves += _answered(before) != _answered(slot.report)
            await asyncio.sleep(max(_REPORT_S, len(self._slots) / _REPORTS_PER_S))

    async def _feed(self, slot: WorkerSlot, worker: Worker) -> None:
        """Takes partitions one after the other, each once the seeds of the last are all in the worker's window, so that
        none waits at one worker while another could begin it.
        """
        room = asyncio.Semaphore(self._open_per_worker)
        async with asyncio.TaskGroup() as group:
            while True:
                await room.acquire()
                if (partition := await self._queue.next()) is None:
                    return
                slot.open[partition.index] = partition
                started = asyncio.Event()
                group.create_task(self._run_partition(slot, worker, partition, room, started))
                await started.wait()

    async def _run_partition(
        self,
        slot: WorkerSlot,
        worker: Worker,
        partition: PendingPartition,
        room: asyncio.Semaphore,
        started: asyncio.Event,
    ) -> None:
        """One partition to its commit. One that waits for its turn leaves its room to another (see `most_open`)."""
        try:
            try:
                again = partition.index in self._pasts
                await worker.start(partition, self._poison_seeds(partition.index), again=again)
            finally:
                started.set()
            await worker.make(partition.index)
            if self._in_order:
                room.release()
            if await self._queue.may_commit(partition.index):
                self._queue.record_commit(partition, await worker.commit(partition.index))
                self._pasts.pop(partition.index, None)
        except WorkerDiedError:
            raise
        except DrainedError:
            pass
        except FoilError as error:
            self._queue.stop(error)
        slot.open.pop(partition.index, None)
        if not self._in_order:
            room.release()

    def _poison_seeds(self, index: int) -> Mapping[str, SeedOutcome]:
        return self._pasts[index].poison_seeds if index in self._pasts else {}

    async def _drain(self) -> None:
        self._draining = True
        workers = [slot.worker for slot in self._slots if slot.worker]
        works = [slot.work for slot in self._slots if slot.work and not slot.work.done()]
        drains = [asyncio.create_task(worker.drain()) for worker in workers]
        if works:
            await asyncio.wait(works, timeout=self._runtime.drain_s)
        for task in [*works, *drains]:
            task.cancel()
        await asyncio.gather(*works, *drains, return_exceptions=True)

    # Deaths

    async def _empty_place(self, slot: WorkerSlot, death: WorkerDiedError) -> None:
        """Empties the place of a dead worker; what it had goes back, in the background where seeds are to be tried."""
        self._lost += 1
        partitions, slot.open, writer = list(slot.open.values()), {}, slot.report.writer
        await slot.clear()
        if not self._draining:
            leftovers = await asyncio.to_thread(left_open, self._journal, writer)
            for partition in partitions:
                self._spawn(self._recover(partition, death, leftovers.get(partition.index, LeftOpen((), 0))))

    async def _recover(self, partition: PendingPartition, death: WorkerDiedError, leftover: LeftOpen) -> None:
        """Gives a dead worker's partition back, its poison seeds found before."""
        past = self._pasts[partition.index]
        suspects = suspects_of(past, leftover, death.cause, _now())
        if suspects:
            poison_seeds = await self._trials.find_poison(partition, suspects)
            past.poison_seeds |= poison_seeds
            if poison_seeds:
                past.deaths.clear()
        if len(past.deaths) == DEATHS and past.deaths[-1] - past.deaths[0] < _DEATHS_S:
            raise WorkerDiedError(
                f"partition {partition.index} lost its worker {DEATHS} times in a row, and no seed of it alone is to "
                "blame; lower `runtime.window`, raise `runtime.worker_memory_mb`, or look into the worker's messages"
            )
        self._queue.give_back(partition)


class _Stall:
    """Tells how long nothing has changed."""

    def __init__(self, after_s: float) -> None:
        self._after_s, self._since = after_s, 0.0
        self._state: object = None

    def seconds(self, state: object) -> float:
        """The seconds for which the state has been this one; 0 as long as they are no stall."""
        now = _now()
        if state != self._state:
            self._state, self._since = state, now
        return now - self._since if now - self._since >= self._after_s else 0.0


def _now() -> float:
    return asyncio.get_running_loop().time()


def _answered(report: WorkerReport) -> tuple[int, int]:
    return report.answers, sum(counts.topics.total() for counts in report.counts.values())


def _first_of(error: BaseException) -> BaseException:
    """The error itself; of a group, one that is no worker's death if there is one."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    _, other_errors = error.split(WorkerDiedError)
    return _first_of((other_errors or error).exceptions[0])
