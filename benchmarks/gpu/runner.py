"""Runs checks one after the other, each in a process and a folder of its own, whatever becomes of the others.

A check yields its figures as it has them. One that raises, dies or passes its time limit has failed, and what it
yielded before is kept; its processes are ended and its folder is removed. What checks print goes to stderr.
"""

import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from benchmarks.gpu.check import Check, Figures, Result, SkippedError
from benchmarks.gpu.sizes import Sizes

GRACE_S = 10.0
"""How long a process may take to end once its check is done."""


def run_checks(checks: Sequence[Check], sizes: Sizes, limit_s: float, start: str = "spawn") -> Iterator[Result]:
    """The result of every check, in their order; all together may take `limit_s`, and each its own limit.

    `start` is how multiprocessing makes a process. "forkserver" imports what the checks need only once, and "spawn"
    inherits nothing: a process forked after CUDA was looked at cannot use it.
    """
    context: Any = multiprocessing.get_context(start)
    if start == "forkserver":
        context.set_forkserver_preload([check.function.partition(":")[0] for check in checks])
    ends_at = time.monotonic() + limit_s
    for check in checks:
        left = min(check.limit_s, ends_at - time.monotonic())
        if left > 0:
            yield _run_apart(context, check, sizes, left)
        else:
            yield Result(check.name, ok=False, reason=f"not started: the checks before it took all {limit_s:g} s")


def _run_apart(context: Any, check: Check, sizes: Sizes, limit_s: float) -> Result:
    started = time.monotonic()
    receiver, sender = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix="gpu-check-", ignore_cleanup_errors=True) as folder:
        process = context.Process(target=_report, args=(sender, check, sizes, Path(folder)))
        try:
            process.start()
        except (EOFError, OSError) as error:
            return Result(check.name, ok=False, reason=f"its process did not start ({error!r}); see stderr")
        sender.close()
        try:
            result = _receive(receiver, process, check, limit_s)
        finally:
            _end_group(process)
    return replace(result, seconds=time.monotonic() - started)


def _receive(receiver: Connection, process: Any, check: Check, limit_s: float) -> Result:
    """The result that the process sends, with all figures that came before it."""
    figures, ends_at = Figures(), time.monotonic() + limit_s
    reason = f"ended after {limit_s:.3g} s, the time that it may take"
    try:
        while receiver.poll(max(0.0, ends_at - time.monotonic())):
            message = receiver.recv()
            if isinstance(message, Result):
                process.join(GRACE_S)
                return replace(message, figures=figures)
            figures |= message
    except EOFError:
        process.join(GRACE_S)
        reason = f"its process ended with exit code {process.exitcode}; see stderr"
    return Result(check.name, ok=False, reason=reason, figures=figures)


def _report(sender: Connection, check: Check, sizes: Sizes, folder: Path) -> None:
    """Runs a check in this process, which leads a group of its own, and sends the result."""
    os.setsid()
    os.dup2(sys.__stderr__.fileno() if sys.__stderr__ else 2, 1)
    try:
        for figures in resolve_name(check.function)(sizes, folder):
            sender.send(figures)
        result = Result(check.name, ok=True)
    except SkippedError as reason:
        result = Result(check.name, ok=False, skipped=True, reason=str(reason))
    except Exception as error:  # noqa: BLE001 - whatever a check raises is its result
        traceback.print_exc()
        words = " ".join(f"{type(error).__name__}: {error}".split())
        result = Result(check.name, ok=False, reason=words[:500])
    spent = os.times()
    sender.send(replace(result, cpu_s=spent.user + spent.system + spent.children_user + spent.children_system))


def _end_group(process: Any) -> None:
    """Ends a process with all that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()
