"""The same training on a Ray Train worker pool: Ray places, joins (gloo) and restarts the workers.

Each worker runs `fit.train` on its slice of every batch; Ray Data and DDP stay out of it, so that a batch is the same
whatever the number of workers. A restarted pool resumes from `out/checkpoints`, which all workers must reach.
Price: every worker holds the whole model and the index of the view.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer
from ray.train.v2.api.exceptions import TrainingFailedError

from datasets_out.training_view import TrainingView
from engine.errors import RunFailedError
from trainer.fit import Trained, fingerprint_of, read_trained, train
from trainer.settings import TrainSettings

MAX_FAILURES = 2
"""Restarts of the pool before a run is given up; Ray's own default is none."""


def train_on_ray(settings: TrainSettings, view: TrainingView, out: Path, command: str = "") -> Trained:
    """`fit.train` over `settings.workers` workers of one CPU each, on the Ray that this process is connected to.

    Raises RunFailedError with the first worker's error if the pool failed more often than MAX_FAILURES.
    """
    trainer = TorchTrainer(
        _work,
        train_loop_config={"settings": settings, "view": view, "out": out.resolve(), "command": command},
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=settings.workers, use_gpu=False),
        run_config=RunConfig(
            storage_path=str(out.resolve() / "ray"), failure_config=FailureConfig(max_failures=MAX_FAILURES)
        ),
    )
    try:
        trainer.fit()
    except TrainingFailedError as error:
        raise RunFailedError(f"training on {settings.workers} Ray workers failed: {error}") from error
    return read_trained(out, fingerprint_of(settings, view))


def _work(arguments: dict[str, Any]) -> None:
    train(**arguments)
