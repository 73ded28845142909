"""What `foil train`, `foil evaluate` and `foil ablate` share: a job's `train` section, its topics, its training."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from foil.cluster.job import Job
from foil.cluster.terminal import say
from foil.datasets_out.training.sources import SourceSettings, TopicSource, digest_of, pin_source
from foil.datasets_out.training.training_view import TrainingView
from foil.engine.atomic_files import held
from foil.engine.errors import UsageError
from foil.engine.storage.trees import download, upload
from foil.trainer.model.published_model import PublishedModel, fingerprint_of, read_published_model
from foil.trainer.settings import TrainSettings

if TYPE_CHECKING:
    from foil.trainer.train.run.logs import LogRow
    from foil.trainer.train.run.validation import Measurement

_MEASURES = {
    "both_views": "both views",
    "net": "net p-MRR",
    "instructed_ndcg": "nDCG@10 with instructions",
    "plain_ndcg": "without",
}


def train_settings(path: Path, job: Job) -> TrainSettings:
    """The `train` section of the job file at `path`."""
    if job.train is None:
        raise UsageError(f"{path} has no `train` section; add one, `train: {{}}` takes every default")
    return job.train


def pin_sources(job: Job, settings: TrainSettings) -> list[TopicSource]:
    """The runs that the job trains on, each under a snapshot that is named; its own run where it names none."""
    return [pin_source(source) for source in settings.data or (SourceSettings(run=job.out),)]


def pin_protected(settings: TrainSettings) -> list[TopicSource]:
    """The runs that the job keeps apart, each under a snapshot that is named."""
    return [pin_source(source) for source in settings.protect]


def pin_topics(job: Job, settings: TrainSettings) -> TrainingView:
    """The accepted topics of the runs that the job trains on."""
    return TrainingView(pin_sources(job, settings), settings.split, pin_protected(settings))


def train_job(job: Job, settings: TrainSettings, command: str) -> PublishedModel:
    """The job's model, found finished or trained, from its newest checkpoint on; tells its progress.

    Raises RunHeldError while another process of this machine trains it.
    """
    with held(job.out, "train"):
        for name in ("model", "checkpoints", "logs"):
            download(job.out / name)
        return _find_trained(job, settings) or _train(job, settings, command)


def _find_trained(job: Job, settings: TrainSettings) -> PublishedModel | None:
    """The model of these settings and data, if it is there; nothing is read but its facts."""
    if not (job.out / "model").exists():
        return None
    digest = digest_of(pin_sources(job, settings), pin_protected(settings))
    trained = read_published_model(job.out, fingerprint_of(settings, digest))
    upload(job.out / "model", whole=True)  # a kill may have cut the first upload short
    say("trained already, with these settings on these data")
    return trained


def _train(job: Job, settings: TrainSettings, command: str) -> PublishedModel:
    from foil.cluster.extras import need

    if settings.workers:
        need("ray", extra="ray")
    view = pin_topics(job, settings)
    _print_view(view)
    from foil.trainer.train.run.monitor import Callbacks

    steps = settings.schedule.with_steps_for(len(view.partitions("train"))).steps
    callbacks = Callbacks(partial(_print_step, steps=steps), _print_measured)
    if settings.workers:
        from foil.trainer.train.run.fit_ray import train_on_ray

        return train_on_ray(settings, view, job.out, command, callbacks)
    if settings.reranker:
        from foil.trainer.train.run.fit_reranker import train_reranker

        return train_reranker(settings, view, job.out, command, callbacks)
    from foil.trainer.train.run import fit

    return fit.train(settings, view, job.out, command, callbacks)


def _print_view(view: TrainingView) -> None:
    for split, facts in view.facts.items():
        counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in facts.items())
        say(f"{split}: {counts}")


def _print_step(row: LogRow, *, steps: int) -> None:
    if row.step % 10 == 0 or row.step == steps:
        speed = f"{row.seconds:.2f} s a step, {row.topics_per_s:.1f} topics/s"
        say(f"step {row.step}/{steps}  loss {row.loss:.3f}  {speed}")


def _print_measured(measurement: Measurement) -> None:
    means = ", ".join(
        f"{words} {measurement.means[name]:.1f}" for name, words in _MEASURES.items() if name in measurement.means
    )
    say(f"dev topics after step {measurement.step}: {means} ({measurement.seconds:.1f} s)")
