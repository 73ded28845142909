"""A local model whose engines are processes of their own, apart from the workers that ask them (`engines: N`).

    request -> EndpointPool (an Endpoint an engine, the seed's own first) -> the engine's process -> Reply

PooledVllm    the model of a worker; it reaches engines through what `use_engines` set, and knows no Ray
EngineSpec    what whoever starts the engines must know

Promise: the pool is that of hosted models: affinity by seed, concurrency, a breaker an engine. An engine that is not up
costs a request no attempt; one that dies under it costs one, and the next goes to another engine. The number of engines
changes no request and no id. Price: a message each way, 0.6 ms of CPU.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from foil.engine.errors import ModelError, ModelOutageError, TransientModelError
from foil.engine.ids import canonical_json, sha256_hex
from foil.engine.model_traits import ModelTraits, Patience
from foil.engine.models.local.local_vllm import LocalVllmSettings, model_name
from foil.engine.models.pacing import Endpoint, EndpointPool, RequestSlot
from foil.engine.protocols import Model
from foil.engine.requests import Reply, Request, estimate_tokens

Send = Callable[[str, Request], Awaitable[Reply]]
"""Sends a request to the engine of this name."""
_MOST_IN_FLIGHT = 1024
_FAILURES = 1
"""An engine fails by its death alone, so one failure opens its breaker."""


class EngineNotUpError(TransientModelError):
    """No engine has this name yet, or it loads its weights."""


class EngineModel(Model, Protocol):
    """A model that can be made ready before its first request. `start` may be awaited by several."""

    async def start(self) -> None: ...


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """The engines of one model: their names, what makes one (picklable), and the room that each claims on one node."""

    model: str
    names: tuple[str, ...]
    build: Callable[[], EngineModel]
    room: Mapping[str, float]


def engine_names(settings: LocalVllmSettings) -> tuple[str, ...]:
    """The names of a model's engines, the same in every process; they are labels of metrics too."""
    key = sha256_hex(canonical_json(settings.model_dump(mode="json")))[:8]
    return tuple(f"{key}_{number}" for number in range(settings.engines))


def engine_spec(settings: LocalVllmSettings, build: Callable[[LocalVllmSettings], EngineModel]) -> EngineSpec:
    """What the settings say of their engines. All GPUs of an engine are one bundle, which Ray keeps on one node."""
    gpus = settings.tensor_parallel_size * settings.pipeline_parallel_size
    room = {"CPU": float(settings.engine_cpus)} if settings.engine_cpus else {"CPU": 1.0, "GPU": float(gpus)}
    return EngineSpec(model_name(settings), engine_names(settings), _Builder(build, settings), room)


@dataclass(frozen=True, slots=True)
class _Builder:
    """Makes the model of one engine. Its processes are its own; in a placement group vLLM would ask Ray for them."""

    build: Callable[[LocalVllmSettings], EngineModel]
    settings: LocalVllmSettings

    def __call__(self) -> EngineModel:
        arguments = dict(self.settings.engine_args)
        if self.settings.tensor_parallel_size * self.settings.pipeline_parallel_size > 1:
            arguments.setdefault("distributed_executor_backend", "mp")
        return self.build(self.settings.model_copy(update={"engines": 0, "engine_args": arguments}))


class _CurrentEngines:
    send: Send | None = None


_current = _CurrentEngines()


def use_engines(send: Send | None) -> None:
    """From now on the models of this process reach their engines so."""
    _current.send = send


class PooledVllm(Model):
    """The pool of a model's engines, seen from one worker."""

    def __init__(self, settings: LocalVllmSettings) -> None:
        patience = Patience(outage_s=settings.startup_s, timeout_s=settings.timeout_s)
        self.name, self.traits = (
            model_name(settings),
            ModelTraits(settings.params.plain(), patience, provider="vllm", samples=True),
        )
        endpoints = [
            Endpoint(name, 1.0, _MOST_IN_FLIGHT, None, None, failures=_FAILURES, label=name)
            for name in engine_names(settings)
        ]
        self.pool = EndpointPool(endpoints, patience.outage_s)
        self._failed_at: dict[str, str] = {}

    async def complete(self, request: Request) -> Reply:
        """One send to an engine that is up. Raises an error of engine.errors, after the slot is given back."""
        if _current.send is None:
            raise ModelOutageError(
                f"{self.name}: only `foil run` on Ray starts `engines`; set engines: 0 for what asks models elsewhere"
            )
        tokens = sum(estimate_tokens(request))
        while True:
            slot = await self.pool.acquire(tokens, request.affinity, self._failed_at.pop(request.id, ""))
            try:
                return await self._send(slot, _current.send, request)
            except EngineNotUpError:
                continue
            except TransientModelError:
                if len(self.pool.endpoints) > 1:
                    self._failed_at[request.id] = slot.endpoint.name
                raise

    async def _send(self, slot: RequestSlot, send: Send, request: Request) -> Reply:
        patience = self.traits.patience
        try:
            async with asyncio.timeout(patience.timeout_s):
                reply = await send(slot.endpoint.name, request)
        except TransientModelError:
            slot.leave("failed")
            raise
        except TimeoutError:
            slot.leave("failed")
            raise TransientModelError(
                f"{self.name}: engine {slot.endpoint.name} did not answer within timeout_s: {patience.timeout_s:g} s"
            ) from None
        except ModelError:
            slot.leave("worked", 0)
            raise
        except BaseException:
            slot.leave(None)
            raise
        slot.leave("worked", reply.prompt_tokens + reply.completion_tokens)
        return reply
