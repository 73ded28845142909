"""Engines as actors of Ray: the driver of a run starts and owns them, its workers reach them by name.

    EngineCrew (driver) -> a placement group and an actor an engine -> watched, started again where it dies
    EngineCalls (worker) -> the actor of that name -> its model

Promise: a placement group lies on one node, and keeps an engine's room while the engine is started again; a lost node
costs another group. Actors and groups belong to the driver, so Ray ends them with it, also after kill -9. An actor that
is gone is a TransientModelError of the requests that it had, and its successor takes its name.
Price: a thread in the driver; an actor is a process with its own vLLM.
"""

import asyncio
import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import (
    ActorUnavailableError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    RayError,
    RayTaskError,
    TaskCancelledError,
    WorkerCrashedError,
)
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from foil.engine.errors import FoilError, ModelError, ModelOutageError, TransientModelError, UsageError
from foil.engine.models.local.pooled_vllm import EngineModel, EngineNotUpError, EngineSpec
from foil.engine.requests import Reply, Request
from foil.engine.telemetry.json_logs import begin_logs
from foil.engine.telemetry.ray_metrics import record_in_ray

LOG = logging.getLogger(__name__)
_CALLS_AT_ONCE = 10_000
_LOOK_S, _PING_S, _ROOM_S, _END_S = 0.5, 5.0, 30.0, 5.0
_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Pauses before an engine is started again, the last one for good; one that was up begins anew."""
_GONE = (RayActorError, ActorUnavailableError, WorkerCrashedError, ObjectLostError, OutOfMemoryError)


class _EngineActor:
    """One engine. `again`: it replaces one that died, so a start that fails may be tried once more."""

    def __init__(self, build: Callable[[], EngineModel], log_format: Any, run: str, *, again: bool) -> None:
        begin_logs(log_format, run)
        record_in_ray(run)
        self._model, self._again = build(), again
        self._starting: asyncio.Future[None] | None = None

    async def placed(self) -> None:
        """Returns once the actor has its process."""

    async def ready(self) -> None:
        """Returns once the engine can answer. Raises ModelOutageError where it never will."""
        self._starting = self._starting or asyncio.ensure_future(self._model.start())
        try:
            await asyncio.shield(self._starting)
        except (ModelOutageError, UsageError) as error:
            raise (TransientModelError if self._again else ModelOutageError)(str(error)) from None

    async def stay(self) -> None:
        """Ends with the actor, or with a start that failed."""
        await self.ready()
        await asyncio.Event().wait()

    async def complete(self, request: Request) -> Reply:
        return await self._model.complete(request)


@dataclass(slots=True)
class _EnginePlace:
    """The room of one engine, and the engine in it. `watch` ends when the engine does."""

    spec: EngineSpec
    name: str
    group: Any = None
    actor: Any = None
    placed: Any = None
    watch: Any = None
    deaths: int = 0
    since: float = 0.0
    start_at: float = 0.0
    look_at: float = 0.0
    given_up: bool = False
    has_warned: bool = False


class EngineCrew:
    """The engines of a run. Nothing is started before `start`, which may be called again; `close` ends all."""

    def __init__(self, specs: Sequence[EngineSpec], log_format: str, run: str) -> None:
        self.session = secrets.token_hex(4)
        self._places = [_EnginePlace(spec, name) for spec in specs for name in spec.names]
        self._log_format, self._run = log_format, run
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None and self._places:
            self._thread = threading.Thread(target=self._keep, name="engines", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Ends the engines and gives their room back; whoever started them in turn ends with them."""
        if self._thread is None:
            return
        self._over.set()
        self._thread.join(_END_S)
        for place in self._places:
            if place.actor is not None:
                ray.kill(place.actor, no_restart=True)
            if place.group is not None:
                remove_placement_group(place.group)

    def _keep(self) -> None:
        """Runs in a thread until the run is over. A cluster that does not answer for a moment is asked again."""
        while not self._over.wait(0 if any(place.watch for place in self._places) else _LOOK_S / 10):
            try:
                self._look()
            except (RayError, ConnectionError, RuntimeError) as error:
                LOG.warning("the engines cannot be looked after: %s", type(error).__name__)
                self._over.wait(_PAUSES_S[-1])

    def _look(self) -> None:
        """Starts what is to be started, and waits a moment for an engine that ends."""
        for place in self._places:
            if place.watch is None and not place.given_up and time.monotonic() >= place.start_at:
                self._start_engine(place)
            elif place.watch is not None and time.monotonic() >= place.look_at:
                self._look_for_room(place)
        watched = {place.watch: place for place in self._places if place.watch is not None}
        if watched:
            ended, _ = ray.wait(list(watched), timeout=_LOOK_S)
            for watch in ended:
                self._note_end(watched[watch])

    def _look_for_room(self, place: _EnginePlace) -> None:
        """Says once that an engine has no room yet. One that waits in a group that is lost would wait for good."""
        place.look_at = time.monotonic() + _ROOM_S
        if ray.wait([place.placed], timeout=0)[0]:
            return
        if not place.has_warned:
            place.has_warned = True
            LOG.warning("engine %s of %s waits for %s on one node", place.name, place.spec.model, _words(place))
        if _is_lost(place):
            ray.kill(place.actor, no_restart=True)

    def _start_engine(self, place: _EnginePlace) -> None:
        place.since = time.monotonic()
        place.look_at = place.since + _ROOM_S
        _hold_room(place)
        options = {
            "name": _actor_name(self.session, place.name),
            "num_cpus": place.spec.room.get("CPU", 0),
            "num_gpus": place.spec.room.get("GPU", 0),
            "scheduling_strategy": PlacementGroupSchedulingStrategy(place.group, placement_group_bundle_index=0),
            "max_restarts": 0,
            "max_task_retries": 0,
            "max_concurrency": _CALLS_AT_ONCE,
        }
        create = ray.remote(_EngineActor).options(**options).remote
        try:
            place.actor = create(place.spec.build, self._log_format, self._run, again=place.deaths > 0)
        except ValueError:  # the name is its predecessor's for a moment more
            place.start_at = place.since + _LOOK_S
            return
        place.placed, place.watch = place.actor.placed.remote(), place.actor.stay.remote()

    def _note_end(self, place: _EnginePlace) -> None:
        """Notes why an engine ended. One whose first start failed stays, to tell the workers so."""
        try:
            ray.get(place.watch)
        except RayTaskError as error:
            place.given_up = isinstance(error.cause, ModelOutageError)
            why = str(error.cause)
        except RayError as error:
            why = _why(error)
        place.watch = None
        if place.given_up:
            return
        now = time.monotonic()
        place.deaths = 1 if now - place.since > 2 * _PAUSES_S[-1] else place.deaths + 1
        place.start_at = now + _PAUSES_S[min(place.deaths, len(_PAUSES_S)) - 1]
        ray.kill(place.actor, no_restart=True)
        LOG.warning("engine %s of %s is gone (%s); it is started again", place.name, place.spec.model, why[:300])


class EngineCalls:
    """An engine.models.local.pooled_vllm.Send of this process, to the engines of one EngineCrew."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._actors: dict[str, Any] = {}
        self._looks: dict[str, asyncio.Task[Any]] = {}

    async def __call__(self, engine: str, request: Request) -> Reply:
        actor = self._actors.get(engine) or await self._find(engine)
        pending_reply = actor.complete.remote(request)
        try:
            reply: Reply = await _answer(engine, pending_reply)
        except asyncio.CancelledError:
            ray.cancel(pending_reply)
            raise
        except TransientModelError:
            self._actors.pop(engine, None)
            raise
        return reply

    async def _find(self, engine: str) -> Any:
        """The actor of an engine that is up; those who wait for the same one look once."""
        if engine not in self._looks or self._looks[engine].done():
            self._looks[engine] = asyncio.create_task(self._look(engine))
        return await asyncio.shield(self._looks[engine])

    async def _look(self, engine: str) -> Any:
        try:
            actor = await asyncio.to_thread(ray.get_actor, _actor_name(self._session, engine))
            await asyncio.wait_for(_answer(engine, actor.ready.remote()), _PING_S)
        except (ValueError, TimeoutError, TransientModelError) as error:
            raise EngineNotUpError(f"the engine {engine} is not up: {error}") from None
        self._actors[engine] = actor
        return actor


async def _answer(engine: str, reference: Any) -> Any:
    try:
        return await reference
    except RayTaskError as error:
        if isinstance(error.cause, FoilError):
            raise error.cause from None
        raise ModelError(f"the engine {engine} failed:\n{error}") from None
    except (*_GONE, TaskCancelledError) as error:
        raise TransientModelError(f"the engine {engine} is gone: {_why(error)}") from None


def _why(error: Exception) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return next((line for line in lines if "because" in line), lines[0])[:300]


def _hold_room(place: _EnginePlace) -> None:
    """Keeps the engine's placement group, or makes another where its node is lost.

    Ray 2.60 tries to put a lost group onto the same node again and again, millions of times, with a GCS that is busy.
    """
    if _is_lost(place):
        remove_placement_group(place.group)
        place.group = None
    place.group = place.group or placement_group([dict(place.spec.room)], strategy="STRICT_PACK")


def _is_lost(place: _EnginePlace) -> bool:
    lost = {"RESCHEDULING", "REMOVED"}
    return place.group is not None and ray.util.placement_group_table(place.group)["state"] in lost


def _actor_name(session: str, engine: str) -> str:
    return f"foil-engine-{session}-{engine}"


def _words(place: _EnginePlace) -> str:
    return " and ".join(f"{amount:g} {kind}" for kind, amount in place.spec.room.items())
