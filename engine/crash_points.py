"""Named points at which a drill may kill this process, as `kill -9` or a power cut would.

`FOIL_CRASH_POINT=put.linked:3` kills the process with SIGKILL at the third passage of `put.linked`. No cleanup code
runs, so a drill that passes at every point shows that resuming needs nothing but the disk. Unarmed, a point costs one
comparison.
"""

import os
import signal

_armed: dict[str, int] = {}


def crash_point(name: str) -> None:
    """Dies here if this point and passage are armed; returns at once otherwise."""
    if name in _armed:
        _armed[name] -= 1
        if _armed[name] == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str) -> None:
    """Arms one point, `name` or `name:passage` (from 1); "" disarms all."""
    _armed.clear()
    if point:
        name, _, passage = point.partition(":")
        _armed[name] = int(passage or 1)


arm(os.environ.get("FOIL_CRASH_POINT", ""))
