"""The run on one machine: in this process, or over child processes that may die.

Promise: the same shards either way. `workers: 0` costs nothing and shares the fate of its validators; `workers: N`
survives a child that exits, is killed, hangs or runs out of memory (engine.runtime.supervisor). A child ends
with its parent.
Price of a worker: one interpreter with its own parts, a second or so to start.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import secrets
import signal
import threading
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection

from engine.flow.budget import Budget, BudgetClient
from engine.flow.limits import BudgetSettings, Limits, RuntimeSettings
from engine.flow.partition_flow import Flow
from engine.flow.progress import Summary
from engine.protocols import Parts, Screen, SeedReader
from engine.runtime.pipe_rpc import PipeRpc
from engine.runtime.remote import RemoteBudget, RemoteWorker
from engine.runtime.session import OnProgress, Work, run_session
from engine.runtime.watchdog import exit_on_hang, limit_memory, relaxed_gc

LOG = logging.getLogger(__name__)
_SPAWN = multiprocessing.get_context("spawn")
BuildParts = Callable[[], Parts]


def run(  # noqa: PLR0917 - the parts of a run, in the order of the flow
    reader: SeedReader,
    screens: Sequence[Screen],
    build_parts: BuildParts,
    limits: Limits,
    runtime: RuntimeSettings,
    on_progress: OnProgress,
) -> Summary:
    """Runs or resumes a job; see engine.runtime.session. `build_parts` must be picklable where there are workers."""
    parts = build_parts()

    async def hire(budget: Budget, *, apart: bool) -> Flow | RemoteWorker:
        if runtime.workers or apart:
            return await _child(build_parts, limits, runtime, budget)
        return Flow(parts, runtime, budget, "this process", marks=False)

    return run_session(Work(reader, screens, parts, limits, runtime), on_progress, hire)


async def _child(build_parts: BuildParts, limits: Limits, runtime: RuntimeSettings, budget: Budget) -> RemoteWorker:
    """A child process whose parts are built. Raises WorkerDiedError, or what building them raised."""
    owner = f"child {secrets.token_hex(4)}"
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_live, args=(theirs, build_parts, limits, runtime, owner), name=owner, daemon=True)
    process.start()
    theirs.close()
    purse = asyncio.get_running_loop().create_future()
    purse.set_result(budget)
    ending = threading.Event()

    def report() -> None:
        process.join(1.0)
        if not ending.is_set():
            LOG.warning("%s (pid %s) ended with exit code %s", owner, process.pid, process.exitcode)

    wire = PipeRpc(ours, purse, on_lost=report)

    async def end() -> None:
        ending.set()
        process.kill()
        await asyncio.to_thread(process.join)
        wire.close()
        await budget.forfeit(owner)

    worker = RemoteWorker(wire.call, end)
    try:
        await worker.live()
    except BaseException:
        await end()
        raise
    return worker


def _live(pipe: Connection, build_parts: BuildParts, limits: Limits, runtime: RuntimeSettings, owner: str) -> None:
    """The life of a child. Signals are its parent's business; when the parent is gone, so is the child."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)
    with relaxed_gc():
        asyncio.run(_serve(pipe, build_parts, limits, runtime, owner))


async def _serve(
    pipe: Connection, build_parts: BuildParts, limits: Limits, runtime: RuntimeSettings, owner: str
) -> None:
    async def build() -> Flow:
        purse: BudgetClient = Budget(BudgetSettings()) if limits.budget == BudgetSettings() else RemoteBudget(wire.call)
        flow = Flow(build_parts(), runtime, purse, owner, marks=True)
        limit_memory(runtime.worker_memory_mb)
        return flow

    building = asyncio.create_task(build())
    wire = PipeRpc(pipe, building, on_lost=partial(os._exit, 0))
    await asyncio.wait([building])
    await exit_on_hang(runtime.seed_timeout_s)
