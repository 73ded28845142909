"""Ends processes when the process that they serve has gone, however it went: also by `kill -9`.

    python leash.py PARENT run COMMAND...   runs the command in this process group; when it or the parent has ended,
                                            what is left of the group is killed. SIGTERM is for the command alone
    python leash.py PARENT kill PID...      kills those processes when the parent has ended; ends once they have

A script of its own, since a process that was killed can tidy up nothing. Price: 10 MB, and two looks a second.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

_LOOK_S = 0.5


def main() -> None:
    """Watches until there is nothing left to watch."""
    parent, verb, rest = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if verb == "run":
        _run(parent, rest)
    else:
        _kill(parent, [int(pid) for pid in rest])


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


def _kill(parent: int, pids: list[int]) -> None:
    started = {pid: _start_of(pid) for pid in pids}
    while alive := [pid for pid, start in started.items() if start and _start_of(pid) == start]:
        if os.getppid() != parent:
            for pid in alive:
                os.kill(pid, signal.SIGKILL)
            return
        time.sleep(_LOOK_S)


def _start_of(pid: int) -> str:
    """When the process began, in the kernel's ticks, or "" if it has ended: a pid alone may be used again."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - pathlib would be half of what this script loads
            state, *fields = file.read().rpartition(") ")[2].split()
    except OSError:
        return ""
    return "" if state == "Z" else fields[18]


if __name__ == "__main__":
    main()
