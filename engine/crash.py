"""Named points at which a drill may kill this process, as `kill -9` or a power cut would.

`FOIL_CRASH_POINT=put.linked:3` kills the process with SIGKILL at the third passage of `put.linked`. No cleanup code
runs, so a drill that passes at every point shows that resuming needs nothing but the disk. Unset, a point costs one
comparison.
"""

from __future__ import annotations

import os
import signal

_POINT, _, _PASSAGE = os.environ.get("FOIL_CRASH_POINT", "").partition(":")
_LEFT = [int(_PASSAGE or 1)]


def crash_point(name: str) -> None:
    """Dies here if the environment names this point and passage; returns at once otherwise."""
    if not _POINT or name != _POINT:
        return
    _LEFT[0] -= 1
    if _LEFT[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
