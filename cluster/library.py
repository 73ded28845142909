"""Foil as a library: `import foil`, and what the program `foil` does as functions.

    job = foil.load_job("job.yaml", ["limits.seeds=100"])
    summary = foil.run(job)
    made = foil.open_run(job.out)
    made.sql("SELECT query, instruction FROM intents LIMIT 5")      a pyarrow.Table
    for topic in made.topics(): ...
    model = foil.train("job.yaml")
    rows = foil.evaluate(["out/demo/model"], on=["pir:data/pir"])

Promise: the same checks, files and errors as the commands of the same names; what goes wrong is an error of
foil.engine.errors. Libraries are loaded when a function needs them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from foil.cluster.extras import need

if TYPE_CHECKING:
    import pyarrow as pa

    from foil.cluster.job import Job
    from foil.datasets_out.commits.verify import Damage
    from foil.engine.flow.progress import Summary
    from foil.engine.topic import Topic
    from foil.trainer.model.published_model import PublishedModel
    from foil.trainer.settings import Instructions
    from foil.trainer.train.run.logs import LogRow
    from foil.trainer.train.run.validation import Measurement

Made = TypeVar("Made")


def load_job(path: str | Path, overrides: Sequence[str] = (), *, out: str | Path | None = None) -> Job:
    """A job file, read and checked. `overrides`: `section.key=value`, as `--set` takes them. Raises UsageError."""
    from foil.cluster.job import load_job as load

    return load(Path(path), overrides, out)


def run(job: Job | str | Path, *, reuse: Sequence[str | Path] = (), retry_failed: bool = False) -> Summary:
    """Runs or resumes a job, or a job file; see `foil run`. A finished one is a no-op.

    Raises UsageError, RunHeldError while another process has the folder, and what ends a run.
    """
    from foil.cluster.deploy.open_files import raise_limit
    from foil.cluster.run_job import run_job

    raise_limit()
    read = load_job(job) if isinstance(job, str | Path) else job
    paid = [_place(folder) for folder in reuse]
    return _outside_a_loop(lambda: run_job(read, paid, retry_failed=retry_failed))


def open_run(out: str | Path) -> OpenRun:
    """A run's folder, or bucket, to read from. Raises NoRunError where there is none."""
    from foil.datasets_out.commits.log import CommitLog

    folder = _place(out)
    CommitLog(folder).run()
    return OpenRun(folder)


def train(
    job: Job | str | Path,
    *,
    on_step: Callable[[LogRow], None] | None = None,
    on_measured: Callable[[Measurement], None] | None = None,
) -> PublishedModel:
    """The model of a job's section `train`, found finished or trained; its progress goes to stderr.

    `on_step` is called with the row of each step (step, loss, learning_rate, gradient_norm, topics_per_s, ...),
    `on_measured` with each measurement on dev topics (step, means). What they raise ends the training, which resumes.
    """
    from foil.cluster.job import load_training_job
    from foil.cluster.training import train_job, train_settings

    need("sentence_transformers", extra="train")
    from foil.trainer.train.run.monitor import NO_CALLBACKS, Callbacks

    name = str(job) if isinstance(job, str | Path) else "the job"
    read = load_training_job(Path(job)) if isinstance(job, str | Path) else job
    settings = train_settings(Path(name), read)
    watcher = Callbacks(on_step or NO_CALLBACKS.on_step, on_measured or NO_CALLBACKS.on_measured)
    return _outside_a_loop(lambda: train_job(read, settings, f"foil.train({name!r})", watcher))


def evaluate(
    systems: Sequence[str],
    on: Sequence[str],
    *,
    measures: Sequence[str] = (),
    overrides: Sequence[str] = (),
    instructions: Instructions = "given",
    out: str | Path = "evaluation",
) -> list[dict[str, Any]]:
    """Systems on benchmarks, with BM25 and the base model: rows, kept in OUT/results.jsonl too.

    The arguments are those of `foil evaluate SYSTEM... --on BENCHMARK...`.
    """
    from foil.cluster.evaluations.benchmarks import EvaluationOrder, evaluate_benchmarks

    need("sentence_transformers", extra="train")
    order = EvaluationOrder(systems, on, overrides, measures, out=_place(out))
    return _outside_a_loop(lambda: evaluate_benchmarks(order, instructions=instructions, quiet=True))


@dataclass(frozen=True, slots=True)
class OpenRun:
    """What is committed in a run's folder. Each method reads what is there when it is called."""

    out: Path

    def sql(self, query: str, *, snapshot: str | None = None) -> pa.Table:
        """The answer to a query over the run's views, behind the wall of `foil sql`: it reads and does nothing else."""
        from foil.datasets_out.sql.query import run_sql

        return run_sql(self.out, query, snapshot=snapshot)

    def topics(self, *, snapshot: str | None = None) -> Iterator[Topic]:
        """The accepted topics, in the order of their partitions."""
        from foil.datasets_out.commits.snapshot import load_snapshot, read_accepted

        return read_accepted(load_snapshot(self.out, snapshot))

    def status(self) -> dict[str, Any]:
        """How far the run is: planned, accepted, rejected, failed, calls, tokens, cost; `foil status --json`."""
        from foil.datasets_out.commits.log import CommitLog
        from foil.engine.flow.progress import status

        return status(CommitLog(self.out), self.out)

    def verify(self) -> list[Damage]:
        """Every file against its digest; an empty list where all is whole."""
        from foil.datasets_out.commits.verify import verify

        return verify(self.out)


def _place(out: str | Path) -> Path:
    """A folder, or the mirror of a bucket's URL."""
    from foil.engine.storage.mirrors import mirror_of

    return mirror_of(str(out))


def _outside_a_loop(call: Callable[[], Made]) -> Made:
    """What the call gives: in a thread of its own where this one runs an event loop, as a notebook's does."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return call()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call).result()
