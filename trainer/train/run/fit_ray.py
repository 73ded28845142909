"""The same training on a Ray Train worker pool: Ray places, connects and restarts the workers, and runs measurements.

    TorchTrainer: fit_and_validate in every worker, to the last step
        report(validation=...) -> a Ray task measures the stored weights while training goes on
    one more task: fit.train, which finds all steps done, chooses and publishes

Each worker takes its slice of every batch. Neither Ray Data nor DDP is used, so a batch is the same for any number of
workers. A restarted pool resumes from `out/checkpoints`, which all nodes must reach; Ray stores only the step.
Price: every worker holds the whole model and the index of the view. A measurement shares the workers' CPUs, or waits
for a GPU of its own, at the latest until the workers are done.
"""

import json
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import ray
import ray.train
from ray.train import Checkpoint
from ray.train.torch import TorchConfig
from ray.train.v2.api.config import FailureConfig, RunConfig, ScalingConfig
from ray.train.v2.api.exceptions import TrainingFailedError
from ray.train.v2.api.validation_config import ValidationConfig, ValidationTaskConfig
from ray.train.v2.torch.torch_trainer import TorchTrainer

from foil.datasets_out.training.training_view import TrainingView
from foil.engine.errors import RunFailedError, TrainingDivergedError
from foil.trainer.model.published_model import PublishedModel, is_trained, read_published_model
from foil.trainer.settings import TrainSettings
from foil.trainer.train.run.fit import fit_and_validate, open_validation, train
from foil.trainer.train.run.logs import read_rows
from foil.trainer.train.run.monitor import NO_CALLBACKS, Callbacks
from foil.trainer.train.run.validation import Validation

FOLLOW_S = 2.0
"""Seconds between two readings of the workers' logs."""


def train_on_ray(
    settings: TrainSettings, view: TrainingView, out: Path, command: str = "", callbacks: Callbacks = NO_CALLBACKS
) -> PublishedModel:
    """`fit.train` over `settings.workers` workers, of a CPU or a GPU each, on the Ray of this process or a new one.

    `callbacks` run in this process, a moment after the logs are written. Raises RunFailedError with the first worker's
    error if the pool failed more often than `settings.max_failures`, TrainingDivergedError as `fit` does.
    """
    out = out.resolve()
    if is_trained(out, settings, view.digest):
        return read_published_model(out, settings, view.digest)
    validation = open_validation(settings, view, out)
    if not ray.is_initialized():
        _start_ray(settings.workers)
    use_gpu = _use_gpu(settings)
    device = {"device": "cuda" if use_gpu else "cpu"}
    settings = settings.model_copy(update={"model": settings.model.model_copy(update=device)})
    arguments: dict[str, Any] = {"settings": settings, "view": view, "out": out}
    trainer = TorchTrainer(
        _train_on_worker,
        train_loop_config=arguments,
        torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl" if use_gpu else "gloo"),
        scaling_config=ScalingConfig(num_workers=settings.workers, use_gpu=use_gpu),
        run_config=RunConfig(
            storage_path=str(out / "ray"), failure_config=FailureConfig(max_failures=settings.max_failures)
        ),
        validation_config=ValidationConfig(
            partial(_measure_stored, **arguments), ray_remote_kwargs=_validation_resources(use_gpu)
        ),
    )
    try:
        with _reporting(callbacks, validation, out / "logs" / "train.csv"):
            result: Any = trainer.fit()
    except TrainingFailedError as error:
        raise RunFailedError(f"training on {settings.workers} Ray workers failed: {error}") from error
    if result.return_value:
        raise TrainingDivergedError(result.return_value)
    task: Any = ray.remote(num_cpus=1, num_gpus=int(use_gpu))(train)
    ray.get(task.remote(settings, view, out, command))
    return read_published_model(out, settings, view.digest)


@contextmanager
def _reporting(callbacks: Callbacks, validation: Validation, log: Path) -> Iterator[None]:
    """Calls the callbacks for what the workers log, while they work."""
    has_ended = threading.Event()
    thread = threading.Thread(target=_report_progress, args=(callbacks, validation, log, has_ended))
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()


def _report_progress(callbacks: Callbacks, validation: Validation, log: Path, has_ended: threading.Event) -> None:
    last_step = max((row.step for row in read_rows(log)), default=0)
    reported_steps = {measurement.step for measurement in validation.results()}
    is_last_look = False
    while not is_last_look:
        is_last_look = has_ended.wait(FOLLOW_S)
        for row in read_rows(log):
            if row.step > last_step:
                callbacks.on_step(row)
                last_step = row.step
        for measurement in [
            measurement for measurement in validation.results() if measurement.step not in reported_steps
        ]:
            callbacks.on_measured(measurement)
            reported_steps.add(measurement.step)


def _start_ray(workers: int) -> None:
    """Joins the cluster at RAY_ADDRESS, or starts one here that holds the workers; their output stays in Ray's logs."""
    address = os.environ.get("RAY_ADDRESS", "") or "local"
    options: dict[str, Any] = {"num_cpus": workers, "include_dashboard": False} if address == "local" else {}
    ray.init(address=address, log_to_driver=False, **options)


def _use_gpu(settings: TrainSettings) -> bool:
    if settings.model.device != "auto":
        return settings.model.device == "cuda"
    resources = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return bool(resources.get("GPU", 0) >= settings.workers)


def _validation_resources(gpu: bool) -> dict[str, Any]:
    """What a measurement asks of Ray: it must not wait for CPUs that the workers hold until they are done."""
    return {"num_gpus": 1} if gpu else {"num_cpus": 0}


def _train_on_worker(arguments: dict[str, Any]) -> str:
    """Words on how training diverged, at every worker; raised, it would only start the pool again."""
    try:
        fit_and_validate(**arguments, delegate=_delegate)
    except TrainingDivergedError as error:
        return str(error)
    return ""


def _delegate(step: int, is_needed: bool) -> None:
    """Has Ray measure the weights of this step; all workers call it. What Ray stores is a note of the step."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "step.json").write_text(json.dumps(step), encoding="utf-8")
        ray.train.report(
            {"step": step},
            checkpoint=Checkpoint.from_directory(folder) if is_needed else None,
            validation=ValidationTaskConfig(fn_kwargs={"step": step}) if is_needed else False,
        )


def _measure_stored(
    _: Checkpoint, *, settings: TrainSettings, view: TrainingView, out: Path, step: int
) -> dict[str, float]:
    return open_validation(settings, view, out).measure_stored(step).means
