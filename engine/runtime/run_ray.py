"""The run over a pool of Ray actors: the same flow, supervision and shards as engine.runtime.run_local.

Promise: a dead actor's partitions go to another one; Ray itself restarts and retries nothing, since a retry of a call
that had ended would run it twice. Head death ends the driver without a word: resume needs nothing but the disk.
Price: an actor is a process with its own parts; `out` must be a folder that every node sees.
"""

import asyncio
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import ray
from ray.exceptions import ObjectLostError, RayActorError, RayTaskError, WorkerCrashedError

from engine.errors import FoilError
from engine.flow.budget import Budget, BudgetClient
from engine.flow.limits import BudgetSettings, RuntimeSettings
from engine.flow.partition_flow import Flow
from engine.flow.progress import Summary
from engine.runtime.remote import RemoteBudget, RemoteWorker
from engine.runtime.session import OnProgress, RunSpec, WorkerSpec, run_session
from engine.runtime.supervisor import WorkerDiedError
from engine.runtime.watchdog import exit_on_hang, limit_memory
from engine.telemetry.json_logs import begin_logs
from engine.telemetry.metrics import use_meter
from engine.telemetry.ray_metrics import record_in_ray

_CALLS_AT_ONCE = 10_000


def run(spec: RunSpec, on_progress: OnProgress) -> Summary:
    """Runs or resumes a job; see engine.runtime.session. Joins the Ray that this process is in, or starts one."""
    with _cluster(spec.worker.runtime):
        record_in_ray()
        start_worker = _ActorPool(spec.worker).start_worker
        return run_session(spec, spec.worker.build_parts(), on_progress, start_worker)


class _FlowActor:
    """What an actor is: a Flow, opened by its first call, so that what building it raises reaches the caller."""

    async def open(self, spec: WorkerSpec, budget_actor: Any, owner: str) -> None:
        budget: BudgetClient = (
            RemoteBudget(partial(_call_actor, budget_actor)) if budget_actor else Budget(BudgetSettings())
        )
        begin_logs(spec.runtime.log_format, spec.run)
        record_in_ray()
        self._flow = Flow(spec.build_parts(), spec.runtime, budget, owner, log_seeds=True)
        limit_memory(spec.runtime.worker_memory_mb)
        self._watchdog = asyncio.create_task(exit_on_hang(spec.runtime.seed_timeout_s))

    async def call(self, method: str, *args: Any) -> Any:
        return await getattr(self._flow, method)(*args)


class _BudgetActor(Budget):
    """The run's budget as an actor, where the run has one."""

    async def call(self, method: str, *args: Any) -> Any:
        return await getattr(self, method)(*args)


class _ActorPool:
    """Starts actors; the budget actor with the first, when it is known what earlier sessions spent."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._budget_actor: Any = None

    async def start_worker(self, budget: Budget, *, apart: bool) -> RemoteWorker:
        """An actor whose parts are built; one that tries suspects `apart` claims no CPU, since none may be free."""
        limits = self._spec.limits.budget
        if self._budget_actor is None and limits != BudgetSettings():
            self._budget_actor = _actor(_BudgetActor, cpus=0).remote(limits, budget.spent)
        owner = f"actor {secrets.token_hex(4)}"
        gpus = 0.0 if apart else self._spec.runtime.worker_gpus
        flow_actor = _actor(_FlowActor, cpus=0 if apart else 1, gpus=gpus).remote()

        async def end() -> None:
            ray.kill(flow_actor, no_restart=True)
            if self._budget_actor is not None:
                await _call_actor(self._budget_actor, "forfeit", owner)

        try:
            await _await_actor(flow_actor.open.remote(self._spec, self._budget_actor, owner))
        except BaseException:
            await end()
            raise
        return RemoteWorker(partial(_call_actor, flow_actor), end)


def _actor(kind: type[Any], cpus: int, gpus: float = 0.0) -> Any:
    """Supervision is ours (engine.runtime.supervisor), so Ray neither restarts the actor nor repeats its calls."""
    actor: Any = ray.remote(kind)
    return actor.options(
        num_cpus=cpus, num_gpus=gpus, max_restarts=0, max_task_retries=0, max_concurrency=_CALLS_AT_ONCE
    )


async def _call_actor(actor: Any, method: str, *args: Any) -> Any:
    return await _await_actor(actor.call.remote(method, *args))


async def _await_actor(reference: Any) -> Any:
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
        use_meter(None)
        ray.shutdown()
