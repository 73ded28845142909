"""What `foil train`, `foil evaluate` and `foil ablate` share: a job's `train` section, its topics, its training."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from foil.cluster.extras import is_installed, need
from foil.cluster.job import TrainingJob
from foil.cluster.terminal import say
from foil.datasets_out.training.sources import SourceSettings, TopicSource, digest_of, pin_source
from foil.datasets_out.training.training_view import TrainingView
from foil.engine.atomic_files import held
from foil.engine.errors import UsageError
from foil.engine.storage.trees import download, upload
from foil.trainer.model.published_model import PublishedModel, is_trained, read_published_model
from foil.trainer.settings import TrainSettings

if TYPE_CHECKING:
    from foil.trainer.train.run.logs import LogRow
    from foil.trainer.train.run.monitor import Callbacks
    from foil.trainer.train.run.validation import Measurement

STEP_LINE_S = 5.0
"""Seconds between two lines on the steps."""

_MEASURES = {
    "both_views": "both views",
    "net": "net p-MRR",
    "instructed_ndcg": "nDCG@10 with instructions",
    "plain_ndcg": "without",
}


def train_settings(path: Path, job: TrainingJob) -> TrainSettings:
    """The `train` section of the job file at `path`."""
    if job.train is None:
        raise UsageError(f"{path} has no `train` section; add one, `train: {{}}` takes every default")
    return job.train


def pin_sources(job: TrainingJob, settings: TrainSettings) -> list[TopicSource]:
    """The runs that the job trains on, each under a snapshot that is named; its own run where it names none."""
    return [pin_source(source) for source in settings.data or (SourceSettings(run=job.out),)]


def pin_protected(settings: TrainSettings) -> list[TopicSource]:
    """The runs that the job keeps apart, each under a snapshot that is named."""
    return [pin_source(source) for source in settings.protect]


def pin_topics(job: TrainingJob, settings: TrainSettings) -> TrainingView:
    """The accepted topics of the runs that the job trains on."""
    teacher = settings.loss.teacher
    judged = bool(teacher and teacher.judge)
    return TrainingView(pin_sources(job, settings), settings.split, pin_protected(settings), judged=judged)


def train_job(job: TrainingJob, settings: TrainSettings, command: str, *watchers: Callbacks) -> PublishedModel:
    """The job's model, found finished or trained, from its newest checkpoint on; shows its progress, `watchers` too.

    Raises RunHeldError while another process of this machine trains it.
    """
    with held(job.out, "train"):
        for name in ("model", "checkpoints", "logs"):
            download(job.out / name)
        return _find_trained(job, settings) or _train(job, settings, command, watchers)


def _find_trained(job: TrainingJob, settings: TrainSettings) -> PublishedModel | None:
    """The model of these settings and data, if it is there; nothing is read but its facts."""
    if not (job.out / "model").exists():
        return None
    digest = digest_of(pin_sources(job, settings), pin_protected(settings))
    if not is_trained(job.out, settings, digest):
        say("goes on from the last checkpoint; the learning rate is from there on that of the new number of steps")
        return None
    trained = read_published_model(job.out, settings, digest)
    upload(job.out / "model", whole=True)  # a kill may have cut the first upload short
    say("trained already, with these settings on these data")
    return trained


def _train(job: TrainingJob, settings: TrainSettings, command: str, watchers: Sequence[Callbacks]) -> PublishedModel:
    if settings.workers:
        need("ray", extra="ray")
    if "wandb" in settings.report_to and not is_installed("wandb"):
        raise UsageError(
            "train.report_to names wandb, which is not installed; `pip install wandb`, or leave it out of "
            "train.report_to; nothing was trained"
        )
    view = pin_topics(job, settings)
    _print_view(view)
    from foil.trainer.train.run.monitor import Callbacks, together

    steps = settings.schedule.with_steps_for(len(view.partitions("train"))).steps
    watchers = [Callbacks(_StepLine(steps).show, _print_measured), *watchers]
    if "wandb" not in settings.report_to:
        return _fit(settings, view, job.out, command, together(watchers))
    from foil.trainer.train.run.wandb_reports import wandb_reports

    with wandb_reports(settings, job.out) as reports:
        return _fit(settings, view, job.out, command, together([*watchers, reports]))


def _fit(settings: TrainSettings, view: TrainingView, out: Path, command: str, callbacks: Callbacks) -> PublishedModel:
    if settings.workers:
        from foil.trainer.train.run.fit_ray import train_on_ray

        return train_on_ray(settings, view, out, command, callbacks)
    if settings.reranker:
        from foil.trainer.train.run.fit_reranker import train_reranker

        return train_reranker(settings, view, out, command, callbacks)
    from foil.trainer.train.run import fit

    return fit.train(settings, view, out, command, callbacks)


def _print_view(view: TrainingView) -> None:
    for split, facts in view.facts.items():
        counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in facts.items())
        say(f"{split}: {counts}")


class _StepLine:
    """A line on the first step, on the last, and every few seconds between: loss, learning rate, speed, time left."""

    def __init__(self, steps: int) -> None:
        self._steps, self._first, self._began, self._shown = steps, 0, 0.0, 0.0

    def show(self, row: LogRow) -> None:
        now = time.monotonic()
        if not self._first:
            self._first, self._began = row.step, now - row.seconds
        elif row.step < self._steps and now - self._shown < STEP_LINE_S:
            return
        self._shown = now
        seconds = (now - self._began) / (row.step - self._first + 1) * (self._steps - row.step)
        ending = f", {seconds:,.0f} s left" if seconds else ""
        say(
            f"step {row.step}/{self._steps}  loss {row.loss:.3f}  rate {row.learning_rate:.1e}  "
            f"{row.topics_per_s:.1f} topics/s{ending}"
        )


def _print_measured(measurement: Measurement) -> None:
    means = ", ".join(
        f"{words} {measurement.means[name]:.1f}" for name, words in _MEASURES.items() if name in measurement.means
    )
    say(f"dev topics after step {measurement.step}: {means} ({measurement.seconds:.1f} s)")
