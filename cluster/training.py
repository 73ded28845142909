"""What `foil train` and `foil evaluate` share: the job's `train` section, and its committed topics, pinned."""

from pathlib import Path

from cluster.job import Job
from datasets_out.commits.snapshot import load_snapshot, take_snapshot
from datasets_out.training.training_view import TrainingView
from engine.errors import UsageError
from trainer.settings import TrainSettings


def train_settings(path: Path, job: Job) -> TrainSettings:
    """The `train` section of the job file at `path`."""
    if job.train is None:
        raise UsageError(f"{path} has no `train` section; add one, `train: {{}}` takes every default")
    return job.train


def pin_topics(job: Job, settings: TrainSettings) -> TrainingView:
    """The committed topics, under a snapshot that is named after its own digest."""
    name = f"train-{load_snapshot(job.out, None).digest[:12]}"
    return TrainingView(take_snapshot(job.out, name), settings.split)
