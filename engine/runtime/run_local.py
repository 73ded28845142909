"""The run on one machine: in this process, or over child processes that may die.

Promise: the same shards either way. `workers: 0` costs nothing and shares the fate of its validators; `workers: N`
survives a child that exits, is killed, hangs or runs out of memory (engine.runtime.supervisor). A child ends
with its parent.
The rates of hosted models are leased to the children from one book (engine.rates.book), which this process keeps.
Price of a worker: one interpreter with its own parts, a second or so to start.
"""

import asyncio
import multiprocessing
import os
import secrets
import signal
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from foil.engine.flow.budget import Budget, BudgetClient, LeasedBudget
from foil.engine.flow.limits import BudgetSettings
from foil.engine.flow.partition_flow import Flow
from foil.engine.flow.progress import Summary
from foil.engine.rates.book import RateAsk, RateBook, RateLease
from foil.engine.runtime.pipe_rpc import PipeRpc
from foil.engine.runtime.session import OnProgress, RunSpec, WorkerSpec, run_session
from foil.engine.runtime.watchdog import exit_on_hang, limit_memory, relax_gc
from foil.engine.runtime.workers import Cause, RemoteWorker, WorkerDiedError, lease_rates
from foil.engine.storage.lease import Fence
from foil.engine.storage.opening import open_store
from foil.engine.telemetry.json_logs import begin_logs
from foil.engine.telemetry.otlp_spans import trace_here
from foil.engine.telemetry.prometheus import forget_process, record_here

_REAP_S = 1.0
_ASKED_TO_END = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SPAWN = multiprocessing.get_context("spawn")


def run(spec: RunSpec, on_progress: OnProgress) -> Summary:
    """Runs or resumes a job; see engine.runtime.session."""
    parts, worker, rates = spec.worker.build_parts(), spec.worker, RateBook()

    async def start_worker(
        budget: Budget, epoch: int, *, apart: bool, on_placed: Callable[[], None]
    ) -> Flow | RemoteWorker:
        on_placed()
        if worker.runtime.most_workers or apart:
            return await _start_child(worker, _ForChildren(budget, rates), epoch)
        fence = Fence(open_store(Path(parts.out)), epoch)
        return Flow(parts, worker.runtime, budget, "this process", log_seeds=False, fence=fence)

    return run_session(spec, parts, on_progress, start_worker)


class _ForChildren:
    """What the children of a run share: its budget, and the rates of its models."""

    def __init__(self, budget: Budget, rates: RateBook) -> None:
        self.lend, self.take_back, self.forfeit = budget.lend, budget.take_back, budget.forfeit
        self._rates = rates

    async def lease(self, ask: RateAsk) -> RateLease:
        return self._rates.lease(ask, asyncio.get_running_loop().time())


async def _start_child(spec: WorkerSpec, shared: _ForChildren, epoch: int) -> RemoteWorker:
    """A child process whose parts are built. Raises WorkerDiedError, or what building them raised."""
    owner = f"child {secrets.token_hex(4)}"
    own_end, child_end = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_run_child, args=(child_end, spec, owner, epoch), name=owner, daemon=True)
    process.start()
    child_end.close()
    served = asyncio.get_running_loop().create_future()
    served.set_result(shared)

    def obituary() -> WorkerDiedError:
        process.join(_REAP_S)
        return WorkerDiedError(
            f"{owner} (pid {process.pid}) ended with exit code {process.exitcode}", _cause(process.exitcode)
        )

    rpc = PipeRpc(own_end, served, on_lost=obituary)

    async def end() -> None:
        process.kill()
        await asyncio.to_thread(process.join)
        forget_process(process.pid)
        rpc.close()
        await shared.forfeit(owner)

    worker = RemoteWorker(rpc.call, end)
    try:
        await worker.live()
    except BaseException:
        await end()
        raise
    return worker


def _cause(exit_code: int | None) -> Cause:
    """What the exit code of a child says of its death. Nobody can tell a kill from the kernel's for want of memory."""
    if exit_code is None or -exit_code == signal.SIGKILL:
        return Cause.UNSURE
    return Cause.OUTSIDE if -exit_code in _ASKED_TO_END else Cause.OWN


def _run_child(pipe: Connection, spec: WorkerSpec, owner: str, epoch: int) -> None:
    """Runs in the child. The parent handles signals; when the parent is gone, the child ends."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    begin_logs(spec.runtime.log_format, spec.run)
    record_here(spec.run)
    trace_here(spec.run)
    relax_gc()
    asyncio.run(_serve(pipe, spec, owner, epoch))


async def _serve(pipe: Connection, spec: WorkerSpec, owner: str, epoch: int) -> None:
    unlimited = spec.limits.budget == BudgetSettings()

    async def build() -> Flow:
        budget: BudgetClient = Budget(BudgetSettings()) if unlimited else LeasedBudget(rpc.call)
        parts = spec.build_parts()
        lease_rates(parts, partial(rpc.call, "lease"))
        fence = Fence(open_store(Path(parts.out)), epoch)
        flow = Flow(parts, spec.runtime, budget, owner, log_seeds=True, fence=fence)
        limit_memory(spec.runtime.worker_memory_mb)
        return flow

    building = asyncio.create_task(build())
    rpc = PipeRpc(pipe, building, on_lost=lambda: os._exit(0))
    await asyncio.wait([building])
    await exit_on_hang(spec.runtime.seed_timeout_s)
