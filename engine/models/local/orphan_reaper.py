"""Ends processes when the process that they serve has gone, however it went: also by `kill -9`.

    python orphan_reaper.py PARENT run COMMAND...   runs the command in this process group; when the command or PARENT
                                                    has ended, kills what is left of the group. SIGTERM reaches the
                                                    command alone
    python orphan_reaper.py PARENT follow           when PARENT has ended, kills what its multiprocessing spawned

It is a script of its own, since a killed process can tidy up nothing. Price: 15 MB, and two looks a second.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import psutil

_LOOK_S = 0.5
_SPAWNED = ("multiprocessing.spawn", "VLLM::")


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
    """Remembers descendants as they appear; psutil compares start times, since a pid may be used again."""
    descendants: set[psutil.Process] = set()
    while os.getppid() == parent:
        descendants.update(_spawned_by({parent, *(process.pid for process in descendants)}))
        time.sleep(_LOOK_S)
    descendants.update(_spawned_by({process.pid for process in descendants}))
    for process in descendants:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _spawned_by(parents: set[int]) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.ppid() in parents and any(mark in " ".join(process.cmdline()) for mark in _SPAWNED):
                yield process


if __name__ == "__main__":
    main()
