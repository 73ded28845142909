"""The limits that a worker process sets itself: a watchdog for its event loop, and a bound on its memory.

Promise: a worker whose event loop stands still for too long (a hang in a validator, in Python or in C, even one that
never lets go of the interpreter) writes where it stands to stderr and exits; memory beyond the limit is a MemoryError
of the seed that wanted it. Price: one timer a second.
"""

import asyncio
import faulthandler
import gc
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TICK_S = 1.0
_COLLECT_AFTER = (50_000, 20, 100)


@contextmanager
def relaxed_gc() -> Iterator[None]:
    """Lets the cyclic garbage collector run more seldom, and not over what is there already.

    A run holds many small objects for seconds (topics of open partitions); at Python's own thresholds, looking through
    them again and again takes a fifth of its CPU time.
    """
    before = gc.get_threshold()
    relax_gc()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def relax_gc() -> None:
    """The same for the rest of this process's life."""
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)


async def exit_on_hang(seconds: float) -> None:
    """Runs until cancelled; ends the process if the event loop does not come round for this long."""
    try:
        while True:
            faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__ or sys.stderr)
            await asyncio.sleep(min(_TICK_S, seconds / 4))
    finally:
        faulthandler.cancel_dump_traceback_later()


def limit_memory(mb: int) -> None:
    """Lets this process have this many MiB of private memory more than it has now (Linux); 0 sets no limit.

    Files that are mapped for reading, such as a shared index, do not count.
    """
    if mb:
        pages = int(Path("/proc/self/statm").read_text().split()[5])
        limit = pages * resource.getpagesize() + (mb << 20)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))
