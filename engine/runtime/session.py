"""One session of a run, whatever its workers are: resume, supervise, report, close the books.

    what is committed -> queue -> supervisor(workers) -> plan put -> conservation checked -> summary

Promise: a run whose plan is complete reads no seed; a session always ends in a summary, with the exit code that `foil`
ends with. Price: every commit entry is read once at the start; a small file is written twice a second.
"""

import asyncio
import logging
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from foil.engine.crash_points import crash_point
from foil.engine.errors import (
    CommitError,
    CorruptDataError,
    FoilError,
    JournalError,
    MovedFolderError,
    RunFailedError,
    RunHeldError,
)
from foil.engine.flow.budget import Budget, Spend, spend_of
from foil.engine.flow.journal_reading import paid_replies, possibly_paid_twice
from foil.engine.flow.limits import BudgetSettings, Limits, RuntimeSettings
from foil.engine.flow.progress import (
    Counts,
    Progress,
    SessionFile,
    Summary,
    check_conservation,
    counts_of,
    last_read,
    read_sessions,
    total,
)
from foil.engine.flow.run_metrics import CountRecorder, record_budget
from foil.engine.ids import canonical_json, sha256_hex
from foil.engine.models.local.pooled_vllm import EngineSpec
from foil.engine.protocols import Parts, Screen, SeedReader
from foil.engine.runtime.breaker import RunBreaker
from foil.engine.runtime.partition_queue import CommittedPartition, PartitionQueue, in_thread, stopped_by_signals
from foil.engine.runtime.seed_process import SeedProcess, SeedSource, sweep_spool
from foil.engine.runtime.seed_stream import SeedRecord, unpacked
from foil.engine.runtime.supervisor import CrewReport, Supervisor
from foil.engine.runtime.watchdog import relaxed_gc
from foil.engine.runtime.workers import Worker
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.storage.lease import RunLease, hold
from foil.engine.storage.opening import open_store
from foil.engine.telemetry.metrics import (
    PAID_TWICE,
    RUN_BREAKER_OPEN,
    SEEDS_IN_FLIGHT,
    WORKERS,
    WORKERS_LOST,
    is_recording,
)

LOG = logging.getLogger(__name__)
OnProgress = Callable[[Progress], None]
_TICK_S = 0.5
_FOLD_EVERY = 1024
_FOLD_AT_END = 64
"""Fewer committed partitions stay as they are: a small run is plain files."""


class StartWorkerWithin(Protocol):
    """A StartWorker (engine.runtime.workers) that is given the run's budget and the epoch of its lease."""

    def __call__(
        self, budget: Budget, epoch: int, *, apart: bool, on_placed: Callable[[], None]
    ) -> Awaitable[Worker]: ...


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a worker process needs, and all that is sent to it: `build_parts` must be picklable."""

    build_parts: Callable[[], Parts]
    limits: Limits
    runtime: RuntimeSettings
    run: str = ""  # names the run in logs
    engines: tuple[EngineSpec, ...] = ()  # those that the driver starts apart from the workers


def _ignore_count(_seeds: int) -> None:
    """Nobody watches how many seeds are read."""


def _nothing() -> None:
    """Prepares nothing."""


def _fold_nothing(_at_least: int) -> None:
    """The entries stay as they are."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One run: what is read and screened in one process, what each worker gets, and what decides the rows.

    With workers, `open_seeds` makes the reader and the screens anew in a process of their own; without it those two go
    there by pickle. `on_seeds` hears how many seeds were read.
    `takeover`: takes the folder from a run that holds it. `stands`: the folder is this run's already; else `prepare`
    makes it so, once it is held. `fold` takes committed entries together, where there are so many that are not yet.
    """

    reader: SeedReader
    screens: Sequence[Screen]
    worker: WorkerSpec
    identity: Mapping[str, Any] = field(default_factory=dict)
    takeover: bool = False
    stands: bool = True
    open_seeds: Callable[[], tuple[SeedReader, Sequence[Screen]]] | None = None
    on_seeds: Callable[[int], None] = _ignore_count
    prepare: Callable[[], None] = _nothing
    fold: Callable[[int], object] = _fold_nothing

    @property
    def fingerprint(self) -> str:
        """One hash over all that decides the rows of a run."""
        return sha256_hex(canonical_json(self.identity))[:32]


def run_session(spec: RunSpec, parts: Parts, on_progress: OnProgress, start_worker: StartWorkerWithin) -> Summary:
    """Runs a job to its end, or as far as it gets.

    A FoilError that stops it stands in the summary; anything else is raised, after complete partitions are committed.
    In the main thread, the first SIGINT, SIGTERM or SIGHUP drains the run and the second raises SystemExit at once.
    """
    try:
        with relaxed_gc():
            return asyncio.run(_run_alone(spec, parts, on_progress, start_worker))
    except KeyboardInterrupt as second:
        raise SystemExit(128 + (second.args[0] if second.args else signal.SIGINT)) from None


async def _run_alone(spec: RunSpec, parts: Parts, on_progress: OnProgress, start_worker: StartWorkerWithin) -> Summary:
    """A session that holds the folder, and reads what is there once it does. A finished run needs no lease."""
    if spec.stands and parts.store.plan() is not None and (finished := _Session(spec, parts, on_progress)).complete():
        return finished.summary()
    async with hold(open_store(Path(parts.out)), takeover=spec.takeover) as lease:
        spec.prepare()
        return await _Session(spec, parts, on_progress).run(start_worker, lease)


class _Session:
    def __init__(self, spec: RunSpec, parts: Parts, on_progress: OnProgress) -> None:
        self._spec, self._parts, self._on_progress = spec, parts, on_progress
        self._limits = spec.worker.limits
        self._began = time.monotonic()
        self._journal = open_store(Path(parts.out))
        entries, self._plan = parts.store.committed(), parts.store.plan()
        counts = {index: counts_of(entry) for index, entry in entries.items()}
        self._earlier = total(counts.values())
        committed = {
            index: CommittedPartition(c.topics["accepted"], c.seeds.total(), _stream(entries[index]))
            for index, c in counts.items()
        }
        as_given = partial(_pair, spec.reader, spec.screens)
        runtime, self._seeds = spec.worker.runtime, None
        planned = self._plan["partitions"] if self._plan else 0
        source = SeedSource(as_given, self._limits, parts.store, self._journal, runtime.readers)
        if runtime.most_workers:
            source = replace(source, open=spec.open_seeds or as_given)
            self._seeds = SeedProcess(source, runtime, spec.worker.run, self._note_read)
            self._queue = PartitionQueue(
                iter(self._seeds), committed, self._limits, self._seeds.committed, planned=planned
            )
        else:
            partitions = map(unpacked, source.partitions(entries, self._note_read))
            self._queue = PartitionQueue(partitions, committed, self._limits, planned=planned)
        self._recorder = CountRecorder()
        self._read: dict[str, Any] = {}
        self._folding: asyncio.Future[None] | None = None
        self._folded_at = 0

    async def run(self, start_worker: StartWorkerWithin, lease: RunLease) -> Summary:
        """Runs until the queue is over."""
        if self.complete():
            return self.summary()
        budget = Budget(self._limits.budget, self._spent())
        start = partial(start_worker, budget, lease.epoch)
        supervisor = Supervisor(self._queue, start, self._journal, self._limits, self._spec.worker.runtime)
        store = open_store(Path(self._parts.out))
        file = SessionFile(store)
        sweep_spool(store)
        if self._seeds:
            self._seeds.open(store, lease.epoch)
        LOG.info("the session began: %d partitions are committed", len(self._queue.committed()))
        background = [
            asyncio.create_task(self._tick(supervisor, file)),
            asyncio.create_task(lease.keep(self._queue.stop)),
        ]
        try:
            with stopped_by_signals(self._queue):
                await supervisor.run()
            await self._look_for_cause(lease)
        finally:
            for task in background:
                task.cancel()
            if self._seeds:
                self._seeds.close()
        await self._fold(_FOLD_AT_END)
        self._put_plan()
        if self.complete():
            await lease.confirm()
        summary = self.summary(supervisor.lost())
        file.note(summary)
        self._recorder.record(summary.counts)
        self._recorder.end()
        PAID_TWICE.record(summary.possibly_paid_twice)
        LOG.info("the session ended with exit code %d%s", summary.exit_code, summary.stopped and f": {summary.stopped}")
        if self._queue.error and not isinstance(self._queue.error, FoilError):
            raise self._queue.error
        return summary

    async def _look_for_cause(self, lease: RunLease) -> None:
        """What the storage failed with may follow from the loss of the folder: then that is the error."""
        if isinstance(self._queue.error, OSError | CommitError | CorruptDataError):
            try:
                await lease.confirm()
            except (MovedFolderError, RunHeldError) as lost:
                self._queue.error = lost
            except JournalError:
                LOG.warning("the lease cannot be read either")

    async def _fold(self, at_least: int) -> None:
        """Takes entries together in a thread, one call at a time; what fails is left to the next call."""
        if self._folding:
            await self._folding
        self._folding = in_thread(partial(self._fold_now, at_least), name="fold")
        await self._folding

    def _fold_now(self, at_least: int) -> None:
        try:
            self._spec.fold(at_least)
        except (FoilError, OSError) as error:
            LOG.warning("the entries of the run could not be taken together (%s); nothing is lost", error)

    def _put_plan(self) -> None:
        """The plan is the last thing put: with it, the next session knows that there is nothing to do."""
        if (plan := self._queue.plan()) is not None:
            self._plan = plan
            crash_point("session.planned")
            self._parts.store.put_plan(plan)
            if self.complete():
                check_conservation(int(plan["seeds"]), self._counts())

    def complete(self) -> bool:
        """Whether every partition of the plan is committed."""
        return self._plan is not None and len(self._queue.committed()) >= self._plan["partitions"]

    def _counts(self) -> Counts:
        return total([self._earlier, self._queue.counts])

    def _spent(self) -> Spend:
        if self._limits.budget == BudgetSettings():
            return Spend()
        return spent_before(self._parts)

    async def _tick(self, supervisor: Supervisor, file: SessionFile) -> None:
        lost, breaker = 0, RunBreaker(self._limits.breakers)
        if is_recording():
            PAID_TWICE.record(possibly_paid_twice(self._journal))
        self._recorder.begin(max(1, self._spec.worker.runtime.most_workers))
        while True:
            crew = supervisor.live()
            counts = total([self._counts(), crew.counts])
            progress = self._progress(crew, counts)
            await asyncio.to_thread(file.note, progress)
            self._on_progress(progress)
            self._recorder.record(counts)
            self._recorder.record_commits(len(self._queue.committed()))
            record_budget(self._limits.budget, counts)
            SEEDS_IN_FLIGHT.record(crew.in_flight)
            WORKERS.record(crew.placed, "placed")
            WORKERS_LOST.record(crew.lost - lost)
            lost = crew.lost
            if len(self._queue.committed()) - self._folded_at >= _FOLD_EVERY and not self._is_folding():
                self._folded_at = len(self._queue.committed())
                self._folding = in_thread(partial(self._fold_now, _FOLD_EVERY), name="fold")
            if tripped := breaker.check(crew.endings, time.monotonic()):
                RUN_BREAKER_OPEN.record(1, tripped.breaker)
                self._queue.stop(tripped)
            await asyncio.sleep(_TICK_S)

    def _planned(self) -> int | None:
        """The seeds of the whole run; the most there can be, or None, until the corpus was read to its end."""
        if self._plan:
            return int(self._plan["seeds"])
        seeds = self._queue.all_seeds()
        if seeds is None and self._seeds:
            seeds = self._seeds.seeds()
        return self._limits.seeds if seeds is None else seeds

    def _progress(self, crew: CrewReport, counts: Counts) -> Progress:
        seconds, planned = max(time.monotonic() - self._began, 1e-6), self._planned()
        topics_per_s = (counts.topics.total() - self._earlier.topics.total()) / seconds
        eta_s = None if crew.stalled else self._time_left(counts, planned, seconds)
        workers = (crew.lost, crew.placed, crew.places, crew.waiting_for)
        return Progress(planned, counts, crew.in_flight, seconds, topics_per_s, eta_s, *workers, read=self._read)

    def _time_left(self, counts: Counts, planned: int | None, seconds: float) -> float | None:
        """Seconds until every seed has ended, or enough topics are accepted; None where neither is known."""
        seeds, accepted = counts.seeds.total(), counts.topics["accepted"]
        goals = (
            (planned, seeds, seeds - self._earlier.seeds.total()),
            (self._limits.accept, accepted, accepted - self._earlier.topics["accepted"]),
        )
        times = [max(0, goal - now) * seconds / gain for goal, now, gain in goals if goal is not None and gain > 0]
        return min(times, default=None)

    def _is_folding(self) -> bool:
        return self._folding is not None and not self._folding.done()

    def summary(self, workers_lost: int = 0) -> Summary:
        """What the run came to."""
        counts, complete = self._counts(), self.complete()
        error = None if complete else self._queue.error
        if error is None and (failed := counts.seeds["failed"]):
            error = RunFailedError(
                f"{failed} {'seed' if failed == 1 else 'seeds'} failed; `foil why` says why, "
                "`foil run --retry-failed` asks again"
            )
        return Summary(
            planned=self._planned(),
            counts=counts,
            partitions=len(self._queue.committed()),
            complete=complete,
            seconds=time.monotonic() - self._began,
            workers_lost=workers_lost,
            possibly_paid_twice=possibly_paid_twice(self._journal),
            exit_code=getattr(error, "exit_code", 1) if error else 0,
            stopped=str(error) if error else "",
            read=self._read or last_read(read_sessions(self._journal)),
        )

    def _note_read(self, seeds: int, ledger: Ledger) -> None:
        self._read = {"seeds": seeds, **ledger.plain()}
        self._spec.on_seeds(seeds)


def _pair(reader: SeedReader, screens: Sequence[Screen]) -> tuple[SeedReader, Sequence[Screen]]:
    """The two as they are."""
    return reader, screens


def _stream(entry: Mapping[str, Any]) -> str:
    """The digest of the seed stream to the end of this partition, as far as its entry says."""
    return SeedRecord(**entry["facts"].get("seeds", {})).stream


def spent_before(parts: Parts) -> Spend:
    """What earlier sessions paid: for committed rows, for those that stood before a retry, and for replies whose
    partition is not committed yet."""
    committed, totals = parts.store.committed(), parts.store.totals()
    counts, journal = counts_of(totals), open_store(Path(parts.out))
    spent = Spend(counts.calls, counts.prompt_tokens + counts.completion_tokens, counts.cost_usd)
    for reply in paid_replies(journal, committed.keys()):
        spent += spend_of(reply)
    for partition in totals["reopened"]:
        for call in parts.store.replaced_calls(partition) if partition in committed else ():
            spent += Spend(1, call.prompt_tokens + call.completion_tokens, call.cost_usd)
    return spent
