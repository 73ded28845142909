"""Ends processes when the process that they serve has gone, however it went: also by `kill -9`.

    python leash.py PARENT run COMMAND...   runs the command in this process group; when it or the parent has ended,
                                            what is left of the group is killed. SIGTERM is for the command alone
    python leash.py PARENT follow           when the parent has ended, kills what its multiprocessing had spawned

A script of its own, since a process that was killed can tidy up nothing. Price: 10 MB, and two looks a second.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

_LOOK_S = 0.5
_OURS = (b"multiprocessing.spawn", b"VLLM::")


def main() -> None:
    """Watches until there is nothing left to watch."""
    parent, verb, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if verb == "run":
        _run(parent, command)
    else:
        _follow(parent)


def _run(parent: int, command: list[str]) -> None:
    served = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while os.getppid() == parent:
        try:
            code = served.wait(_LOOK_S)
        except subprocess.TimeoutExpired:
            continue
        sys.stderr.write(f"ended with exit code {code}\n")
        sys.stderr.flush()
        break
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _follow(parent: int) -> None:
    """Remembers descendants with their start, since a pid alone may be used again."""
    seen: dict[int, str] = {}
    while os.getppid() == parent:
        seen.update(_spawned({parent, *seen}))
        time.sleep(_LOOK_S)
    seen.update(_spawned(set(seen)))
    for pid, start in seen.items():
        if _stat(pid)[1] == start:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _spawned(parents: set[int]) -> Iterator[tuple[int, str]]:
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        mother, start = _stat(pid)
        if mother in parents:
            with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
                title = file.read()
                if any(mark in title for mark in _OURS):
                    yield pid, start


def _stat(pid: int) -> tuple[int, str]:
    """The parent of a process, and when it began, in the kernel's ticks; (0, "") if it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(") ")[2].split()
    except OSError:
        return 0, ""
    return (0, "") if fields[0] == "Z" else (int(fields[1]), fields[19])


if __name__ == "__main__":
    main()
