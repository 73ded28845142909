"""The processes that vLLM starts below this one. Their titles are no proof: `setproctitle` may find no room for one."""

import contextlib

import psutil

_SPAWNED = ("multiprocessing.spawn", "VLLM::")


def descendants(*marks):
    """Our processes with one of these in their command."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if any(mark in " ".join(process.cmdline()) for mark in marks):
                found.append(process)
    return found


def spawned_processes():
    """The engines, and the workers that are their children."""
    return descendants(*_SPAWNED)


def engine_processes():
    """An engine's own process, one for each."""
    spawned = {process.pid: process for process in spawned_processes()}
    engines = []
    for process in spawned.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.ppid() not in spawned:
                engines.append(process)
    return engines


def gone(processes, within_s=10.0):
    return not psutil.wait_procs(processes, timeout=within_s)[1]
