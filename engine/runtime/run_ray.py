"""The run over a pool of Ray actors: the same flow, supervision and shards as engine.runtime.run_local.

Promise: an actor that finds no room waits for it in Ray, which is what an autoscaler and an added node look for; the
run goes on without it. A dead actor's partitions go to another one; Ray itself restarts and retries nothing, since a
retry of a call that had ended would run it twice. A head that comes back finds its actors again; without one, Ray ends
the driver in time and without a word. Resume needs nothing but the disk. What may wait for a dead cluster is called in
threads, so that this one always hears a signal.
Price: an actor is a process with its own parts; `out` must be a folder that every node sees.
"""

import asyncio
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import ray
from ray.autoscaler.sdk import request_resources
from ray.exceptions import (
    ActorUnavailableError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    RayTaskError,
    WorkerCrashedError,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from foil.engine.errors import BudgetLostError, ClusterUnreachableError, FoilError
from foil.engine.flow.budget import Budget, BudgetClient, LeasedBudget
from foil.engine.flow.limits import BudgetSettings, RuntimeSettings, WorkerRange
from foil.engine.flow.partition_flow import Flow
from foil.engine.flow.progress import Summary
from foil.engine.models.local.engine_actors import EngineCalls, EngineCrew
from foil.engine.models.local.pooled_vllm import use_engines
from foil.engine.rates.on_ray import ask_cluster
from foil.engine.runtime.partition_queue import in_thread
from foil.engine.runtime.session import OnProgress, RunSpec, WorkerSpec, run_session
from foil.engine.runtime.watchdog import exit_on_hang, limit_memory, relax_gc
from foil.engine.runtime.workers import Cause, RemoteWorker, WorkerDiedError, lease_rates
from foil.engine.storage.lease import Fence
from foil.engine.storage.opening import open_store
from foil.engine.telemetry.json_logs import begin_logs
from foil.engine.telemetry.metrics import use_meter
from foil.engine.telemetry.otlp_spans import trace_here
from foil.engine.telemetry.ray_metrics import record_in_ray

_CALLS_AT_ONCE = 10_000
_REMOTE: dict[type[Any], Any] = {}
_CONNECT_S = 10.0
_DASHBOARD_PORT = 8265
_END_S = 1.0
"""Seconds that a call may take which only tidies up; a dead head answers none."""
_REACH_S, _CLOSE_S = 10.0, 10.0
_OUTSIDE = ("its node has died", "killed by `ray.kill`", "its owner has died", "running low on memory")
"""What Ray writes of deaths that are not the process's own doing; its errors say it in no other way."""


def run(spec: RunSpec, on_progress: OnProgress) -> Summary:
    """Runs or resumes a job; see engine.runtime.session. Joins the Ray that this process is in, or starts one."""
    runtime = spec.worker.runtime
    with _cluster(spec.worker), _room_held(runtime), _engines(spec.worker) as crew:
        record_in_ray(spec.worker.run)
        start_worker = _ActorPool(spec.worker, crew).start_worker
        return run_session(spec, spec.worker.build_parts(), on_progress, start_worker)


class _FlowActor:
    """What an actor is: a Flow, opened by its first call, so that what building it raises reaches the caller."""

    async def start(self) -> None:
        """Returns once the actor has its process."""

    async def open(self, spec: WorkerSpec, budget_actor: Any, owner: str, epoch: int, engines: str) -> None:
        budget: BudgetClient = (
            LeasedBudget(partial(_call_budget, budget_actor)) if budget_actor else Budget(BudgetSettings())
        )
        begin_logs(spec.runtime.log_format, spec.run)
        record_in_ray(spec.run)
        trace_here(spec.run)
        use_engines(EngineCalls(engines) if spec.engines else None)
        parts = spec.build_parts()
        lease_rates(parts, ask_cluster)
        fence = Fence(open_store(Path(parts.out)), epoch)
        self._flow = Flow(parts, spec.runtime, budget, owner, log_seeds=True, fence=fence)
        limit_memory(spec.runtime.worker_memory_mb)
        relax_gc()
        self._watchdog = asyncio.create_task(exit_on_hang(spec.runtime.seed_timeout_s))

    async def call(self, method: str, *args: Any) -> Any:
        return await getattr(self._flow, method)(*args)


class _BudgetActor(Budget):
    """The run's budget as an actor on the driver's node, where the run has one: it lives as long as the driver's node.

    It is of one run, and not of the service that runs share for rates, since a budget is a run's own.
    """

    async def call(self, method: str, *args: Any) -> Any:
        return await getattr(self, method)(*args)


class _ActorPool:
    """Starts actors. The engines and the budget actor come with the first, when it is known what was spent before."""

    def __init__(self, spec: WorkerSpec, crew: EngineCrew) -> None:
        self._spec, self._crew = spec, crew
        self._own_node = _own_node()
        self._budget_actor: Any = None
        self._creating = asyncio.Lock()

    async def start_worker(
        self, budget: Budget, epoch: int, *, apart: bool, on_placed: Callable[[], None]
    ) -> RemoteWorker:
        """An actor whose parts are built; one that tries suspects `apart` claims no CPU, since none may be free."""
        owner = f"actor {secrets.token_hex(4)}"
        self._crew.start()
        flow_actor = await self._create(budget, apart=apart)

        async def end() -> None:
            await _tidy_up(partial(ray.kill, flow_actor, no_restart=True))
            if self._budget_actor is not None:
                with suppress(WorkerDiedError, TimeoutError):
                    await asyncio.wait_for(_call_actor(self._budget_actor, "forfeit", owner), _END_S)

        try:
            await _await_actor(flow_actor.start.remote())
            on_placed()
            opening = flow_actor.open.remote(self._spec, self._budget_actor, owner, epoch, self._crew.session)
            await _await_actor(opening)
        except BaseException:
            await end()
            raise
        return RemoteWorker(partial(_call_actor, flow_actor), end)

    async def _create(self, budget: Budget, *, apart: bool) -> Any:
        limits = self._spec.limits.budget
        gpus = 0.0 if apart else self._spec.runtime.worker_gpus
        await in_thread(partial(_check_own_node, self._own_node), name="ray")
        async with self._creating:
            if self._budget_actor is None and limits != BudgetSettings():
                on_this_node = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
                create = partial(_actor(_BudgetActor, cpus=0, strategy=on_this_node).remote, limits, budget.spent)
                self._budget_actor = await in_thread(create, name="ray")
        return await in_thread(_actor(_FlowActor, cpus=0 if apart else 1, gpus=gpus).remote, name="ray")


def _own_node() -> str:
    """Where the Ray node of this process listens."""
    node_id, all_nodes = ray.get_runtime_context().get_node_id(), cast("Callable[[], list[dict[str, Any]]]", ray.nodes)
    [node] = [node for node in all_nodes() if node["NodeID"] == node_id]
    return f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}"


def _check_own_node(address: str) -> None:
    """Raises ClusterUnreachableError if the node of this process is dead: Ray would keep every new actor waiting
    without a word, also under a head that has come back.
    """
    try:
        _check_reachable(address)
    except ClusterUnreachableError:
        raise ClusterUnreachableError(
            f"the Ray node of this process ({address}) is gone, as after the death of its head; what was answered "
            "and committed is kept: run again once a head is up"
        ) from None


def _actor(kind: type[Any], cpus: int, gpus: float = 0.0, strategy: Any = "DEFAULT") -> Any:
    """Supervision is ours (engine.runtime.supervisor), so Ray neither restarts the actor nor repeats its calls."""
    actor: Any = _REMOTE.setdefault(kind, ray.remote(kind))  # one of each kind, which Ray uploads once
    return actor.options(
        num_cpus=cpus,
        num_gpus=gpus,
        max_restarts=0,
        max_task_retries=0,
        max_concurrency=_CALLS_AT_ONCE,
        scheduling_strategy=strategy,
    )


async def _call_actor(actor: Any, method: str, *args: Any) -> Any:
    return await _await_actor(actor.call.remote(method, *args))


async def _call_budget(actor: Any, method: str, *args: Any) -> Any:
    try:
        return await _call_actor(actor, method, *args)
    except WorkerDiedError as death:
        raise BudgetLostError(
            f"the run's budget is gone with its process ({death}); run again: the journal knows what was spent"
        ) from None


async def _await_actor(reference: Any) -> Any:
    try:
        return await reference
    except RayTaskError as error:
        if isinstance(error.cause, FoilError):
            raise error.cause from None
        raise FoilError(f"a worker failed:\n{error}") from None
    except (RayActorError, WorkerCrashedError, ObjectLostError, OutOfMemoryError) as error:
        message = next((line for line in str(error).splitlines() if "because" in line), str(error).splitlines()[0])
        raise WorkerDiedError(f"the actor is gone: {message[:300]}", _cause(error)) from None


def _cause(error: Exception) -> Cause:
    """What Ray says of a death. An exit and a SIGKILL look alike to it; both count as the worker's own."""
    if isinstance(error, ActorUnavailableError | ObjectLostError) or getattr(error, "preempted", False):
        return Cause.OUTSIDE
    return Cause.OUTSIDE if any(sign in str(error) for sign in _OUTSIDE) else Cause.OWN


async def _tidy_up(work: Callable[[], object]) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(in_thread(work, name="ray")), _END_S)


@contextmanager
def _cluster(spec: WorkerSpec) -> Iterator[None]:
    runtime = spec.runtime
    if ray.is_initialized():
        yield
        return
    address = runtime.ray_address or os.environ.get("RAY_ADDRESS", "") or "local"
    _check_reachable(address)
    cpus = runtime.most_workers + sum(len(each.names) * each.room.get("CPU", 0.0) for each in spec.engines)
    size: dict[str, Any] = {"num_cpus": int(cpus), "include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address=address, **size)
    except ConnectionError as error:
        raise _unreachable(address, error) from None
    try:
        yield
    finally:
        use_meter(None)
        _leave(ray.get_runtime_context().gcs_address)


def _leave(address: str) -> None:
    """Disconnects. From a head that is dead Ray does so for 15 seconds; that is left to the interpreter's exit, so that
    the summary comes first.
    """
    with suppress(FoilError):
        _check_reachable(address, _END_S)
        ray.shutdown()


def _beside_signals(work: Callable[[], object], most_s: float | None = None) -> None:
    """Runs the work in a thread, so that this one hears signals; waits for it, at most so many seconds."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again below
            raised.append(error)

    thread = threading.Thread(target=run, name="ray", daemon=True)
    thread.start()
    thread.join(most_s)
    if raised:
        raise raised[0]


@contextmanager
def _engines(spec: WorkerSpec) -> Iterator[EngineCrew]:
    """The engines of the run, none of which is left behind."""
    crew = EngineCrew(spec.engines, spec.runtime.log_format, spec.run)
    try:
        yield crew
    finally:
        _beside_signals(crew.close, _CLOSE_S)


@contextmanager
def _room_held(runtime: RuntimeSettings) -> Iterator[None]:
    """Asks the cluster's autoscaler, if it has one, to hold room for `workers.min` until the run ends.

    The workers up to `max` need no asking: those that wait for room are what an autoscaler counts.
    """
    if not isinstance(runtime.workers, WorkerRange):
        yield
        return
    room = {"CPU": 1.0} | ({"GPU": runtime.worker_gpus} if runtime.worker_gpus else {})
    _beside_signals(partial(request_resources, bundles=[room] * runtime.workers.min))
    try:
        yield
    finally:
        _beside_signals(partial(request_resources, bundles=[]), _END_S)


def _check_reachable(address: str, most_s: float = _CONNECT_S) -> None:
    """Raises ClusterUnreachableError unless something listens there within so many seconds. `local`, `auto` and bare
    names pass.

    `address`: HOST:PORT, ray://HOST:PORT or http://HOST[:PORT].
    """
    parts = urlsplit(address if "://" in address else f"//{address}")
    default = {"http": _DASHBOARD_PORT, "https": 443}.get(parts.scheme)
    try:
        host, port = parts.hostname, parts.port or default
        if host is None or port is None:
            return
        socket.create_connection((host, port), timeout=most_s).close()
    except (OSError, ValueError) as error:
        raise _unreachable(address, error) from None


def _unreachable(address: str, why: object) -> ClusterUnreachableError:
    """The error for an address at which no head answers."""
    return ClusterUnreachableError(
        f"no Ray head answers at {address}: {why}; start one with `ray start --head`, correct the address, or see that "
        "RAY_AUTH_MODE and its token are those of the cluster"
    )
