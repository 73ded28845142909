"""A worker elsewhere, and its rates seen from there: the same methods, carried by `call(method, *args)`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from foil.engine.errors import FoilError
from foil.engine.flow.progress import Counts
from foil.engine.flow.seed_outcome import SeedOutcome
from foil.engine.flow.worker_report import WorkerReport
from foil.engine.protocols import Parts, PendingPartition
from foil.engine.rates.client import AskForRates

Call = Callable[..., Awaitable[Any]]
_FLUSH_S = 4.0
"""The longest wait for a worker to end its journal and send its last spans."""


class RemoteWorker:
    """An engine.runtime.supervisor.Worker: `call` reaches its Flow, `end` ends it and gives back what it reserved."""

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
