"""The run over a pool of Ray actors: the same flow, supervision and shards as engine.runtime.run_local.

Promise: a dead actor's partitions go to another one; Ray itself restarts and retries nothing, since a retry of a call
that had ended would run it twice. Head death ends the driver without a word: resume needs nothing but the disk.
Price: an actor is a process with its own parts; `out` must be a folder that every node sees.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import ray
from ray.exceptions import ObjectLostError, RayActorError, RayTaskError, WorkerCrashedError

from engine.errors import FoilError
from engine.flow.budget import Budget, BudgetClient
from engine.flow.limits import BudgetSettings, Limits, RuntimeSettings
from engine.flow.partition_flow import Flow
from engine.flow.progress import Summary
from engine.protocols import Parts, Screen, SeedReader
from engine.runtime.remote import RemoteBudget, RemoteWorker
from engine.runtime.session import OnProgress, Work, run_session
from engine.runtime.supervisor import WorkerDiedError
from engine.runtime.watchdog import exit_on_hang, limit_memory

BuildParts = Callable[[], Parts]
_CALLS_AT_ONCE = 10_000


def run(  # noqa: PLR0917 - the parts of a run, in the order of the flow
    reader: SeedReader,
    screens: Sequence[Screen],
    build_parts: BuildParts,
    limits: Limits,
    runtime: RuntimeSettings,
    on_progress: OnProgress,
) -> Summary:
    """Runs or resumes a job; see engine.runtime.session. Joins the Ray that this process is in, or starts one."""
    with _cluster(runtime):
        pool = _ActorPool(build_parts, limits, runtime)
        return run_session(Work(reader, screens, build_parts(), limits, runtime), on_progress, pool.hire)


class _FlowActor:
    """What an actor is: a Flow, opened by its first call, so that what building it raises reaches the caller."""

    async def open(self, build_parts: BuildParts, runtime: RuntimeSettings, bank: Any, owner: str) -> None:
        purse: BudgetClient = RemoteBudget(partial(_called, bank)) if bank else Budget(BudgetSettings())
        self._flow = Flow(build_parts(), runtime, purse, owner, marks=True)
        limit_memory(runtime.worker_memory_mb)
        self._watch = asyncio.create_task(exit_on_hang(runtime.seed_timeout_s))

    async def call(self, method: str, *args: Any) -> Any:
        return await getattr(self._flow, method)(*args)


class _BudgetActor(Budget):
    """The run's purse as an actor, where the run has a budget."""

    async def call(self, method: str, *args: Any) -> Any:
        return await getattr(self, method)(*args)


class _ActorPool:
    """Starts actors. `bank` is made at the first, when it is known what earlier sessions spent."""

    def __init__(self, build_parts: BuildParts, limits: Limits, runtime: RuntimeSettings) -> None:
        self._build_parts, self._limits, self._runtime = build_parts, limits, runtime
        self._bank: Any = None

    async def hire(self, budget: Budget, *, apart: bool) -> RemoteWorker:
        """An actor whose parts are built; one that tries suspects `apart` claims no CPU, since none may be free."""
        if self._bank is None and self._limits.budget != BudgetSettings():
            self._bank = _actor(_BudgetActor, cpus=0).remote(self._limits.budget, budget.spent)
        owner = f"actor {secrets.token_hex(4)}"
        gpus = 0.0 if apart else self._runtime.worker_gpus
        host = _actor(_FlowActor, cpus=0 if apart else 1, gpus=gpus).remote()

        async def end() -> None:
            ray.kill(host, no_restart=True)
            if self._bank is not None:
                await _called(self._bank, "forfeit", owner)

        try:
            await _answer(host.open.remote(self._build_parts, self._runtime, self._bank, owner))
        except BaseException:
            await end()
            raise
        return RemoteWorker(partial(_called, host), end)


def _actor(kind: type[Any], cpus: int, gpus: float = 0.0) -> Any:
    """Supervision is ours (engine.runtime.supervisor), so Ray neither restarts the actor nor repeats its calls."""
    actor: Any = ray.remote(kind)
    return actor.options(
        num_cpus=cpus, num_gpus=gpus, max_restarts=0, max_task_retries=0, max_concurrency=_CALLS_AT_ONCE
    )


async def _called(actor: Any, method: str, *args: Any) -> Any:
    return await _answer(actor.call.remote(method, *args))


async def _answer(reference: Any) -> Any:
    try:
        return await reference
    except RayTaskError as error:
        if isinstance(error.cause, FoilError):
            raise error.cause from None
        raise FoilError(f"a worker failed:\n{error}") from None
    except (RayActorError, WorkerCrashedError, ObjectLostError) as error:
        raise WorkerDiedError(f"the actor is gone: {str(error).splitlines()[0]}") from None


@contextmanager
def _cluster(runtime: RuntimeSettings) -> Iterator[None]:
    if ray.is_initialized():
        yield
        return
    address = runtime.ray_address or os.environ.get("RAY_ADDRESS", "") or "local"
    size: dict[str, Any] = {"num_cpus": runtime.workers, "include_dashboard": False} if address == "local" else {}
    ray.init(address=address, **size)
    try:
        yield
    finally:
        ray.shutdown()
