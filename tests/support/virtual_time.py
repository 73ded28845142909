"""An event loop whose clock jumps to the next timer instead of waiting for it: hours of a schedule in milliseconds.

The code under test is the real one; only `loop.time()` and the selector's patience are replaced.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """Nothing here may wait for the outside world: with no timer and nothing ready, the program is stuck."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Impatient(self))

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


class _Impatient(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        found = super().select(0)
        if found:
            return found
        if timeout is None:
            raise RuntimeError("everything waits for something that no timer will bring")
        self._loop.advance(timeout + 1e-9)
        return []


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
