"""A function applied to items by several processes, its results in the order of the items.

Promise: a process that dies is replaced, and its items are done again; three deaths without a result between them end
in a FoilError. An error that comes with the items is raised after the results of those before it. The processes end
with the one that asks.
Price: an interpreter and a copy of the function for each; two items a process are taken ahead.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from logging import getLogger
from typing import Any, Generic, TypeVar

from engine.errors import FoilError

Item = TypeVar("Item")
Result = TypeVar("Result")
LOG = getLogger(__name__)
_AHEAD = 2
_DEATHS = 3
_SPAWN = multiprocessing.get_context("spawn")


class OrderedMap(Generic[Item, Result]):
    """The results of `function`, which goes to each process once by pickle. Iterate once.

    `doing` is what messages call its work.
    """

    def __init__(self, function: Callable[[Item], Result], items: Iterable[Item], processes: int, doing: str) -> None:
        self._function, self._items = function, iter(items)
        self._processes, self._doing = processes, doing
        self._ahead: deque[tuple[Item, Future[Result]]] = deque()
        self._error: Exception | None = None
        self._deaths = 0
        self._pool = self._start()

    def __iter__(self) -> Iterator[Result]:
        try:
            while self._fill():
                if (result := self._first()) is not None:
                    yield result
            if self._error:
                raise self._error
        finally:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._processes, mp_context=_SPAWN, initializer=_begin, initargs=(self._function,))

    def _fill(self) -> bool:
        """Takes items ahead; False once nothing is left."""
        while len(self._ahead) < _AHEAD * self._processes and self._error is None:
            try:
                item = next(self._items)
            except StopIteration:
                break
            except Exception as error:  # noqa: BLE001 - raised after the results of the items before it
                self._error = error
                break
            self._ahead.append((item, self._submit(item)))
        return bool(self._ahead)

    def _submit(self, item: Item) -> "Future[Result]":
        """Where the pool is broken already, the first result says so."""
        with suppress(BrokenProcessPool):
            return self._pool.submit(_apply, item)
        broken: Future[Result] = Future()
        broken.set_exception(BrokenProcessPool())
        return broken

    def _first(self) -> Result | None:
        """The result of the first item, or None where a process died and the items were given to others."""
        try:
            result = self._ahead[0][1].result()
        except BrokenProcessPool:
            self._replace()
            return None
        self._deaths = 0
        self._ahead.popleft()
        return result

    def _replace(self) -> None:
        self._deaths += 1
        if self._deaths >= _DEATHS:
            raise FoilError(
                f"a process that {self._doing} died {_DEATHS} times in a row without a result between; look into its "
                "messages and the memory of this machine, and run again"
            )
        LOG.warning("a process that %s died; others do its work again", self._doing)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._start()
        self._ahead = deque((item, self._submit(item)) for item, _ in self._ahead)


_FUNCTION: list[Callable[[Any], Any]] = []
"""In a process of the pool, what it applies."""


def _begin(function: Callable[[Any], Any]) -> None:
    """Runs in each process first. Signals are for the one that asks; when it is gone, this one ends."""
    _FUNCTION[:] = [function]
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(0)


def _apply(item: Any) -> Any:
    return _FUNCTION[0](item)
