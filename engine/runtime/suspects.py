"""Which of the seeds that were in flight at a worker's death end a worker, found by trying them in workers apart."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from foil.engine.flow.journal_reading import LeftOpen
from foil.engine.flow.seed_outcome import SeedOutcome
from foil.engine.protocols import PendingPartition
from foil.engine.runtime.workers import Cause, Worker, WorkerDiedError, WorkerSlot

LOG = logging.getLogger(__name__)
_GROUPS = 8
"""Groups that suspects are split into: 128 of them are down to one after three deaths."""
_DEATHS_ALONE = 2
DEATHS = 8
"""A partition that lost its worker so often within a while, and was paid nothing meanwhile, ends the run."""


@dataclass(slots=True)
class PartitionPast:
    """What is known of a partition that lost a worker: deaths seen by each seed, and when."""

    kills: Counter[str] = field(default_factory=Counter)
    poison_seeds: dict[str, SeedOutcome] = field(default_factory=dict)
    deaths: deque[float] = field(default_factory=lambda: deque(maxlen=DEATHS))


def suspects_of(past: PartitionPast, leftover: LeftOpen, cause: Cause, now: float) -> list[str]:
    """The ids of the seeds that were in flight and may have ended the worker, by what it left in the journal."""
    if cause is Cause.OUTSIDE:
        return []
    if leftover.replies:
        past.deaths.clear()
    past.deaths.append(now)
    in_flight = set(leftover.suspects) - set(past.poison_seeds)
    past.kills.update(in_flight)
    needed = 1 if cause is Cause.OWN else 2
    return [seed for seed in sorted(in_flight) if past.kills[seed] >= needed]


class Trials:
    """Tries suspects in groups, so many workers at once. `start` fills a slot with a worker.

    `trying` seeds are tried now, in `slots`; `lost` workers died of it.
    """

    def __init__(self, start: Callable[[WorkerSlot], Awaitable[Worker]], at_once: int, seed_timeout_s: float) -> None:
        self._start, self._tries, self._seed_timeout_s = start, asyncio.Semaphore(at_once), seed_timeout_s
        self.slots: list[WorkerSlot] = []
        self.trying = self.lost = 0

    async def find_poison(self, partition: PendingPartition, seeds: Sequence[str]) -> dict[str, SeedOutcome]:
        """The seeds, of these, that end a worker when they run alone."""
        self.trying += len(seeds)
        try:
            poison_seeds = await self._try_groups(partition, seeds)
        finally:
            self.trying -= len(seeds)
        if not self.trying:
            idle, self.slots = self.slots, []
            await asyncio.gather(*(slot.clear() for slot in idle))
        return poison_seeds

    async def _try_groups(self, partition: PendingPartition, seeds: Sequence[str]) -> dict[str, SeedOutcome]:
        group_outcomes = await asyncio.gather(*(self._try_group(partition, group) for group in _split(seeds)))
        return {name: outcome for outcomes in group_outcomes for name, outcome in outcomes.items()}

    async def _try_group(self, partition: PendingPartition, seeds: Sequence[str]) -> dict[str, SeedOutcome]:
        deaths, seconds = 0, 0.0
        while deaths < (_DEATHS_ALONE if len(seeds) == 1 else 1):
            death, seconds = await self._try_once(partition, seeds)
            if death is None:
                return {}
            deaths += death.cause is not Cause.OUTSIDE
        if len(seeds) > 1:
            return await self._try_groups(partition, seeds)
        reason = "timeout" if seconds >= self._seed_timeout_s else "crashed_worker"
        detail = f"its worker ended {_DEATHS_ALONE + 1} times, {_DEATHS_ALONE} with this seed alone"
        return {seeds[0]: SeedOutcome("failed", reason, detail)}

    async def _try_once(
        self, partition: PendingPartition, seeds: Sequence[str]
    ) -> tuple[WorkerDiedError | None, float]:
        """How a worker apart ended over these seeds, None if it did not, and after how many seconds."""
        async with self._worker_apart() as slot:
            worker = slot.worker or await self._start(slot)
            started = _now()
            try:
                await worker.try_seeds(partition, seeds)
            except WorkerDiedError as death:
                LOG.warning("partition %d, %d seeds apart: %s", partition.index, len(seeds), death)
                self.lost += 1
                await slot.clear()
                return death, _now() - started
            return None, _now() - started

    @asynccontextmanager
    async def _worker_apart(self) -> AsyncIterator[WorkerSlot]:
        async with self._tries:
            free = [slot for slot in self.slots if slot.work is None]
            slot = free[0] if free else WorkerSlot(apart=True)
            if not free:
                self.slots.append(slot)
            slot.work = asyncio.current_task()
            try:
                yield slot
            finally:
                slot.work = None


def _split(seeds: Sequence[str]) -> Iterable[Sequence[str]]:
    size = -(-len(seeds) // _GROUPS)
    return (seeds[start : start + size] for start in range(0, len(seeds), size))


def _now() -> float:
    return asyncio.get_running_loop().time()
