"""The run on one machine: in this process, or over child processes that may die.

Promise: the same shards either way. `workers: 0` costs nothing and dies with its first os._exit or hang in C;
`workers: N` survives both: see engine.supervise. Price of a worker: one interpreter with its own parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.budget import Budget
from engine.conduct import OnProgress, Work, conduct
from engine.flow import Flow
from engine.limits import Limits, RuntimeSettings
from engine.progress import Summary
from engine.protocols import Parts, Screen, SeedReader


class InProcess(Flow):
    """A worker that is this process."""

    async def close(self) -> None:
        """Nothing to end."""


def run(  # noqa: PLR0917 - the parts of a run, in the order of the flow
    reader: SeedReader,
    screens: Sequence[Screen],
    build_parts: Callable[[], Parts],
    limits: Limits,
    runtime: RuntimeSettings,
    on_progress: OnProgress,
) -> Summary:
    """Runs or resumes a job; see engine.conduct.conduct. `build_parts` must be picklable where there are workers."""
    parts = build_parts()

    async def hire(budget: Budget) -> InProcess:
        return InProcess(parts, runtime, budget, "this process", marks=False)

    return conduct(Work(reader, screens, parts, limits, runtime), on_progress, hire)
