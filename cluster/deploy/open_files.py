"""How many files this process may have open: raised as far as it may, and held against what a run needs."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

from foil.engine.errors import NotReadyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foil.engine.flow.limits import RuntimeSettings
    from foil.engine.models.endpoints import HostedSettings

_ENOUGH = 65_536
_OWN = 128
"""Files of a process other than its connections: libraries, the journal, the shards of a commit, pipes."""
_REQUESTS_A_SEED = 4
"""Requests of one seed that are open at once, at most and as a rule."""


def raise_limit() -> None:
    """Lets this process, and those that it starts, open as many files as the system allows, within reason."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def check_limit(models: Sequence[HostedSettings], runtime: RuntimeSettings) -> None:
    """Raises NotReadyError where one process of the run would need more open files than it may have."""
    connections = sum(model.max_concurrency for model in models)
    needed = _OWN + min(connections, _REQUESTS_A_SEED * runtime.window)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        raise NotReadyError(
            f"this shell lets a process open {soft} files, and this run may need {needed}; raise the limit "
            f"(`ulimit -n {needed}`), or lower `runtime.window` (nothing was started)"
        )
