"""The folders in which a job is tried: one a fingerprint, next to its `out`, each a run like any other.

    <out>.try/<fingerprint>/     the first seeds of the job as it was then

A changed job has another fingerprint, so no try is refused; it takes over the replies of all earlier ones, and of the
run itself. Price: the journals of the earlier tries are read once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from foil.cluster.build import build_run
from foil.cluster.job import Job
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import load_snapshot, read_partitions
from foil.datasets_out.curation.reply_archive import ReplyArchive
from foil.engine.planning.funnel import Funnel, funnel_of
from foil.engine.planning.plan import PlanSample

_DIGITS = 12
_REPLIES = 50
_DECIDING = ("seeds", "recipe", "models", "validators", "replies")


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


@dataclass(frozen=True, slots=True)
class Rates:
    """What a plan goes by: the funnel of a folder or of the seeds `of` which it is, and the seconds of a reply by task.

    `differs` names the sections in which the job that made them is another one.
    """

    of: str
    funnel: Funnel
    differs: tuple[str, ...] = ()
    latencies: Mapping[str, float] = field(default_factory=dict)


def rates_for(
    job: Job, identity: Mapping[str, Any], folder: Path | None, sample: PlanSample, *, use_sample: bool
) -> Rates:
    """The rates of the folder that is given; else of the sample, where it was paid for that; else of the job's own run,
    of a try of the same job, of its newest try; else of the seeds in the sample that stored replies bring to an end."""
    own = Rates("the seeds that are answered already", funnel_of(sample.rows))
    if use_sample and not folder:
        return own
    folders = [folder] if folder else [*([job.out] if has_run(job.out) else []), *tries_of(job)]
    candidates = [(out, _differences(CommitLog(out).run()["job"], identity)) for out in folders]
    filled = [candidate for candidate in candidates if CommitLog(candidate[0]).sums().counts.seeds.total()]
    same = [candidate for candidate in filled if not candidate[1]]
    tried = [candidate for candidate in filled if candidate[0] != job.out]
    best = next(iter(candidates if folder else [*same, *tried]), None)
    if best is None:
        return own
    out, differs = best
    funnel = funnel_in(out)
    return Rates(str(out), funnel, differs, _latencies(out, funnel))


def _differences(standing: Mapping[str, Any], identity: Mapping[str, Any]) -> tuple[str, ...]:
    """The sections that decide what is asked, where they are not the same."""
    names = [name for name in _DECIDING if standing.get(name) != identity.get(name)]
    parts = standing.get("fingerprints", {}), identity.get("fingerprints", {})
    if not names and any(parts[0].get(name) != digest for name, digest in parts[1].items()):
        return ("templates or code",)
    return tuple(names)


def _latencies(out: Path, funnel: Funnel) -> dict[str, float]:
    """The mean seconds of the first replies to each task, as far as the journal has them."""
    archive, latencies = ReplyArchive([out]), {}
    for task, stage in funnel.stages.items():
        replies = list(filter(None, map(archive.find, stage.request_ids[:_REPLIES])))
        if replies:
            latencies[task] = fmean(reply.latency_s for reply in replies)
    return latencies
