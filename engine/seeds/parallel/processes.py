"""A function applied to items by several processes, its results in the order of the items.

    items -> a thread for each process, which sends it an item and waits for the result -> results

Promise: a process that dies is replaced, and its item is done again; an item of which three of them die ends in a
FoilError. An error that comes with the items is raised after the results of those before it. The processes end with
the one that asks.
Price: an interpreter and a copy of the function for each; two items a process are taken ahead.
"""

import gc
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from logging import getLogger
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

from foil.engine.errors import FoilError, portable

Item = TypeVar("Item")
Result = TypeVar("Result")
LOG = getLogger(__name__)
_AHEAD = 2
_DEATHS = 3
_COLLECT_AFTER = (50_000, 20, 100)
_SPAWN = multiprocessing.get_context("spawn")


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], processes: int, doing: str
) -> Iterator[Result]:
    """The results. `function` goes to each process once, by pickle; `doing` is what messages call its work."""
    crew = _Crew(function, doing)
    threads = ThreadPoolExecutor(processes, "reading")
    source, ahead, error = iter(items), deque[Future[Result]](), None
    try:
        while True:
            while error is None and len(ahead) < _AHEAD * processes:
                try:
                    ahead.append(threads.submit(crew.apply, next(source)))
                except Exception as raised:  # noqa: BLE001 - raised below, or the end of the items
                    error = raised
            if not ahead:
                break
            yield ahead.popleft().result()
    finally:
        crew.close()
        threads.shutdown(cancel_futures=True)
    if error is not None and not isinstance(error, StopIteration):
        raise error


class _Crew(Generic[Item, Result]):
    """The processes, one for each thread that asks."""

    def __init__(self, function: Callable[[Item], Result], doing: str) -> None:
        self._function, self._doing = function, doing
        self._own = threading.local()
        self._processes: list[BaseProcess] = []
        self._closed, self._starting = False, threading.Lock()

    def apply(self, item: Item) -> Result:
        """The result of the process of this thread. Raises what the function raises, or FoilError after deaths."""
        for _ in range(_DEATHS):
            try:
                pipe = self._pipe()
                pipe.send(item)
                good, result = pipe.recv()
            except (EOFError, OSError):
                self._own.pipe = None
                if self._closed:
                    break
                LOG.warning("a process that %s died; another does its work again", self._doing)
                continue
            if good:
                return result  # type: ignore[no-any-return]  # what the function returned
            raise result
        raise FoilError(
            f"a process that {self._doing} died {_DEATHS} times in a row of the same; look into its messages and the "
            "memory of this machine, and run again"
        )

    def _pipe(self) -> Connection:
        pipe: Connection | None = getattr(self._own, "pipe", None)
        if pipe is None:
            with self._starting:
                if self._closed:
                    raise EOFError
                pipe, end = _SPAWN.Pipe()
                process = _SPAWN.Process(target=_serve, args=(end, self._function), daemon=True)
                process.start()
                end.close()
                self._processes.append(process)
            self._own.pipe = pipe
        return pipe

    def close(self) -> None:
        """Ends all processes."""
        with self._starting:
            self._closed = True
            for process in self._processes:
                process.kill()
                process.join()


def _serve(pipe: Connection, function: Callable[[Any], Any]) -> None:
    """Runs in each process. Signals are for the one that asks; when it is gone, this one ends."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    gc.set_threshold(*_COLLECT_AFTER)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        item = pipe.recv()
        try:
            pipe.send((True, function(item)))
        except Exception as error:  # noqa: BLE001 - raised again where it was asked
            pipe.send((False, portable(error, "a process that reads seeds failed")))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(0)
