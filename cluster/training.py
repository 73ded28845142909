"""What `foil train` and `foil evaluate` share: the job's `train` section, and its committed topics, pinned."""

from pathlib import Path

from cluster.job import Job
from datasets_out.training.sources import SourceSettings, TopicSource, pin_source
from datasets_out.training.training_view import TrainingView
from engine.errors import UsageError
from trainer.settings import TrainSettings


def train_settings(path: Path, job: Job) -> TrainSettings:
    """The `train` section of the job file at `path`."""
    if job.train is None:
        raise UsageError(f"{path} has no `train` section; add one, `train: {{}}` takes every default")
    return job.train


def pin_sources(job: Job, settings: TrainSettings) -> list[TopicSource]:
    """The runs that the job trains on, each under a snapshot that is named; its own run where it names none."""
    return [pin_source(source) for source in settings.data or (SourceSettings(run=job.out),)]


def pin_topics(job: Job, settings: TrainSettings) -> TrainingView:
    """The accepted topics of these runs."""
    return TrainingView(pin_sources(job, settings), settings.split)
