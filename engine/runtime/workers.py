"""What a worker is, how one dies, the place for one; and a worker elsewhere: the same methods, carried by
`call(method, *args)`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from foil.engine.errors import FoilError
from foil.engine.flow.progress import Counts
from foil.engine.flow.seed_outcome import SeedOutcome
from foil.engine.flow.worker_report import SeedEndings, WorkerReport
from foil.engine.protocols import Parts, PendingPartition
from foil.engine.rates.client import AskForRates

Call = Callable[..., Awaitable[Any]]
_FLUSH_S = 4.0
"""The longest wait for a worker to end its journal and send its last spans."""


class Cause(Enum):
    """What ended a worker, as far as is known."""

    OWN = "own"
    UNSURE = "unsure"
    OUTSIDE = "outside"


class WorkerDiedError(FoilError):
    """A worker process is gone, and what it was making with it."""

    def __init__(self, message: str, cause: Cause = Cause.OWN) -> None:
        super().__init__(message)
        self.cause = cause

    def __reduce__(self) -> tuple[type["WorkerDiedError"], tuple[str, Cause]]:
        return type(self), (str(self), self.cause)


class Worker(Protocol):
    """An engine.flow.partition_flow.Flow somewhere. Every call raises WorkerDiedError once it is gone."""

    async def start(
        self, partition: PendingPartition, poison_seeds: Mapping[str, SeedOutcome], *, again: bool
    ) -> None: ...
    async def make(self, index: int) -> None: ...
    async def commit(self, index: int) -> Counts: ...
    async def try_seeds(self, partition: PendingPartition, seed_ids: Sequence[str]) -> None: ...
    async def live(self) -> WorkerReport: ...
    async def drain(self) -> None: ...
    async def close(self) -> None: ...


class StartWorker(Protocol):
    """Starts a worker whose parts are built, or raises WorkerDiedError.

    `apart`: it only tries suspects, and must need no room. `on_placed` is called once it has its process.
    """

    def __call__(self, *, apart: bool, on_placed: Callable[[], None]) -> Awaitable[Worker]: ...


@dataclass(eq=False, slots=True)
class WorkerSlot:
    """A place for one worker. `open` are the partitions that the worker has, `work` the task that feeds it.

    `ended_before` is how the seeds of its earlier workers ended.
    """

    apart: bool = False
    placed: bool = False
    worker: Worker | None = None
    deaths_at_start: int = 0
    report: WorkerReport = field(default_factory=WorkerReport)
    ended_before: SeedEndings = field(default_factory=SeedEndings)
    open: dict[int, PendingPartition] = field(default_factory=dict)
    work: asyncio.Task[None] | None = None

    def place(self) -> None:
        """Notes that the worker has its process; its parts are still to be built."""
        self.placed = True

    async def clear(self) -> None:
        """Ends the worker, if there is one."""
        self.ended_before += self.report.endings
        worker, self.worker, self.placed, self.report = self.worker, None, False, WorkerReport()
        if worker:
            await worker.close()


class RemoteWorker:
    """A Worker: `call` reaches its Flow, `end` ends it and gives back what it reserved."""

    def __init__(self, call: Call, end: Callable[[], Awaitable[None]]) -> None:
        self._call, self._end = call, end

    async def start(
        self, partition: PendingPartition, poison_seeds: Mapping[str, SeedOutcome], *, again: bool = False
    ) -> None:
        await self._call("start", partition, poison_seeds, again)

    async def make(self, index: int) -> None:
        await self._call("make", index)

    async def commit(self, index: int) -> Counts:
        counts: Counts = await self._call("commit", index)
        return counts

    async def try_seeds(self, partition: PendingPartition, seed_ids: Sequence[str]) -> None:
        await self._call("try_seeds", partition, seed_ids)

    async def live(self) -> WorkerReport:
        report: WorkerReport = await self._call("live")
        return report

    async def drain(self) -> None:
        await self._call("drain")

    async def close(self) -> None:
        with suppress(FoilError, TimeoutError):
            await asyncio.wait_for(self._call("flush"), _FLUSH_S)
        await self._end()


def lease_rates(parts: Parts, ask: AskForRates) -> None:
    """Lets the models of a worker share their rates with all workers who ask there."""
    for model in {id(model): model for model in parts.models.values()}.values():
        model.lease_rates(ask)
