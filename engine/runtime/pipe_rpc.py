"""Calls over a pipe between two processes, in both directions: a worker is called, and calls its parent's budget.

    caller: call(method, *args) -> pipe -> the other side's target.method(*args) -> pipe -> result or exception

Promise: when the other process is gone, every call that waits raises WorkerDiedError. Arguments and results are pickled
(both sides are ours). Price: two threads a side, so that neither event loop ever waits for a full pipe; some 0.1 ms a
call.
"""

import asyncio
import itertools
import queue
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from foil.engine.errors import FoilError
from foil.engine.runtime.workers import Cause, WorkerDiedError


class PipeRpc:
    """One end. `target` answers the other side's calls once it is there. When the other side is gone, `on_lost` says in
    a thread of its own with what error the calls that wait end.

    Must be made within a running event loop.
    """

    def __init__(self, pipe: Connection, target: asyncio.Future[Any], on_lost: Callable[[], WorkerDiedError]) -> None:
        self._pipe, self._target, self._on_lost = pipe, target, on_lost
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._serving: set[asyncio.Task[Any]] = set()
        self._outbox: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        self._lost: WorkerDiedError | None = None
        for work in (self._read, self._write):
            threading.Thread(target=work, name="pipe_rpc", daemon=True).start()

    async def call(self, method: str, *args: Any) -> Any:
        """What the other side's target returns. Raises what it raised, or WorkerDiedError."""
        if self._lost:
            raise _copy(self._lost)
        number = next(self._numbers)
        answer = self._waiting[number] = self._loop.create_future()
        self._outbox.put(("call", number, method, args))
        try:
            return await answer
        finally:
            self._waiting.pop(number, None)

    def close(self) -> None:
        """Lets the threads end; calls that wait raise WorkerDiedError."""
        self._outbox.put(None)
        self._lose(WorkerDiedError("the process at the other end of the pipe was ended", Cause.OUTSIDE))

    def _read(self) -> None:
        handlers: dict[str, Callable[..., None]] = {"call": self._serve, "result": self._settle}
        with suppress(EOFError, OSError, RuntimeError):  # the other side, or our own loop, is gone
            while True:
                kind, *message = self._pipe.recv()
                self._loop.call_soon_threadsafe(handlers[kind], *message)
        death = self._on_lost()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._lose, death)

    def _write(self) -> None:
        with suppress(OSError):
            while (message := self._outbox.get()) is not None:
                self._pipe.send(message)

    def _serve(self, number: int, method: str, args: tuple[Any, ...]) -> None:
        task = asyncio.ensure_future(self._call_target(method, args))
        self._serving.add(task)
        task.add_done_callback(partial(self._answer, number))

    async def _call_target(self, method: str, args: tuple[Any, ...]) -> Any:
        return await getattr(await asyncio.shield(self._target), method)(*args)

    def _answer(self, number: int, task: asyncio.Task[Any]) -> None:
        self._serving.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        self._outbox.put(("result", number, None if error else task.result(), _portable(error)))

    def _settle(self, number: int, result: Any, error: BaseException | None) -> None:
        answer = self._waiting.get(number)
        if answer is not None and not answer.done():
            answer.set_exception(error) if error else answer.set_result(result)

    def _lose(self, death: WorkerDiedError) -> None:
        self._lost = self._lost or death
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(_copy(self._lost))


def _copy(death: WorkerDiedError) -> WorkerDiedError:
    """An error of its own for each call: one that is raised twice would collect tracebacks."""
    return WorkerDiedError(str(death), death.cause)


def _portable(error: BaseException | None) -> FoilError | None:
    """Our own errors as they are; others as text, since not every exception survives pickling."""
    if error is None or isinstance(error, FoilError):
        return error
    return FoilError("a worker failed:\n" + "".join(traceback.format_exception(error)))
