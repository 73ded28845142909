"""The folders in which a job is tried: one a fingerprint, beside its `out`, each a run like any other.

    <out>.try/<fingerprint>/     the first seeds of the job as it was then

A changed job has another fingerprint, so no try is refused; it takes over the replies of all earlier ones, and of the
run itself. Price: the journals of the earlier tries are read once.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cluster.build import build_run
from cluster.job import Job
from datasets_out.commits.log import CommitLog
from datasets_out.commits.snapshot import load_snapshot, read_partitions
from engine.flow.funnel import Funnel, funnel_of

_DIGITS = 12


def tries_of(job: Job) -> list[Path]:
    """The folders of earlier tries, the newest first."""
    folder = _folder(job)
    tries = [each for each in folder.iterdir() if (each / "run.json").is_file()] if folder.is_dir() else []
    return sorted(tries, key=lambda each: (each / "run.json").stat().st_mtime, reverse=True)


def has_run(out: Path) -> bool:
    """Whether a run was opened in the folder."""
    return CommitLog(out).store.get("run.json") is not None


def try_job(job: Job, seeds: int, reuse: Sequence[Path] = ()) -> tuple[Job, list[Path]]:
    """The job over its first seeds in a folder of its own, and the runs whose replies it takes over."""
    limits = job.limits.model_copy(update={"seeds": min(seeds, job.limits.seeds or seeds), "accept": None})
    tried = replace(job, limits=limits, train=None, evaluate=None)
    out = _folder(job) / build_run(tried).fingerprint[:_DIGITS]
    earlier = [each for each in tries_of(job) if each != out]
    own = [job.out] if has_run(job.out) else []
    return replace(tried, place=str(out)), [*reuse, *own, *earlier]


def _folder(job: Job) -> Path:
    return job.out.with_name(f"{job.out.name}.try")


def funnel_in(out: Path) -> Funnel:
    """The funnel of what is committed in a run."""
    topics = (topic for topics in read_partitions(load_snapshot(out, None)) for topic in topics)
    return funnel_of(topics)
