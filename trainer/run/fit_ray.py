"""The same training on a Ray Train worker pool: Ray places, joins and restarts the workers, and measures beside them.

    TorchTrainer: fit.learn in every worker, to the last step
        report(validation=...) -> a Ray task measures the stored weights while training goes on
    one more task: fit.train, which finds all steps done, chooses and publishes

Each worker takes its slice of every batch; Ray Data and DDP stay out of it, so that a batch is the same whatever the
number of workers. A restarted pool resumes from `out/checkpoints`, which all nodes must reach; Ray itself is only told
the step. Price: every worker holds the whole model and the index of the view; measuring shares the workers' CPUs, or
waits for a GPU of its own, at the latest until the workers are done.
"""

from __future__ import annotations

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

from datasets_out.training.training_view import TrainingView
from engine.errors import RunFailedError
from trainer.evaluation.validation import Validation
from trainer.model.published_model import Trained, fingerprint_of, read_trained
from trainer.run.fit import learn, train, validation_of
from trainer.run.logs import read_rows
from trainer.run.monitor import NOBODY, Callbacks
from trainer.settings import TrainSettings

FOLLOW_S = 2.0
"""Seconds between two looks at what the workers logged."""


def train_on_ray(
    settings: TrainSettings, view: TrainingView, out: Path, command: str = "", told: Callbacks = NOBODY
) -> Trained:
    """`fit.train` over `settings.workers` workers, of a CPU or a GPU each, on the Ray of this process or a new one.

    `told` is called in this process, a moment later than the logs. Raises RunFailedError with the first worker's error
    if the pool failed more often than `settings.max_failures`.
    """
    out, fingerprint = out.resolve(), fingerprint_of(settings, view.digest)
    if (out / "model").exists():
        return read_trained(out, fingerprint)
    validation = validation_of(settings, view, out)
    if not ray.is_initialized():
        _start(settings.workers)
    gpu = _use_gpu(settings)
    place = {"device": "cuda" if gpu else "cpu"}
    settings = settings.model_copy(update={"model": settings.model.model_copy(update=place)})
    run: dict[str, Any] = {"settings": settings, "view": view, "out": out}
    trainer = TorchTrainer(
        _work,
        train_loop_config=run,
        torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl" if gpu else "gloo"),
        scaling_config=ScalingConfig(num_workers=settings.workers, use_gpu=gpu),
        run_config=RunConfig(
            storage_path=str(out / "ray"), failure_config=FailureConfig(max_failures=settings.max_failures)
        ),
        validation_config=ValidationConfig(partial(_measure, **run), ray_remote_kwargs=_beside(gpu)),
    )
    try:
        with _followed(told, validation, out / "logs" / "train.csv"):
            trainer.fit()
    except TrainingFailedError as error:
        raise RunFailedError(f"training on {settings.workers} Ray workers failed: {error}") from error
    task: Any = ray.remote(num_cpus=1, num_gpus=int(gpu))(train)
    ray.get(task.remote(settings, view, out, command))
    return read_trained(out, fingerprint)


@contextmanager
def _followed(told: Callbacks, validation: Validation, log: Path) -> Iterator[None]:
    """Tells of what the workers write while they work."""
    over = threading.Event()
    thread = threading.Thread(target=_follow, args=(told, validation, log, over))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _follow(told: Callbacks, validation: Validation, log: Path, over: threading.Event) -> None:
    last = max((row.step for row in read_rows(log)), default=0)
    known = {one.step for one in validation.results()}
    ended = False
    while not ended:
        ended = over.wait(FOLLOW_S)
        for row in [row for row in read_rows(log) if row.step > last]:
            told.on_step(row)
            last = row.step
        for one in [one for one in validation.results() if one.step not in known]:
            told.on_measured(one)
            known.add(one.step)


def _start(workers: int) -> None:
    """Joins the cluster at RAY_ADDRESS, or starts one here that holds the workers; their output stays in Ray's logs."""
    address = os.environ.get("RAY_ADDRESS", "") or "local"
    size: dict[str, Any] = {"num_cpus": workers, "include_dashboard": False} if address == "local" else {}
    ray.init(address=address, log_to_driver=False, **size)


def _use_gpu(settings: TrainSettings) -> bool:
    if settings.model.device != "auto":
        return settings.model.device == "cuda"
    there = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return bool(there.get("GPU", 0) >= settings.workers)


def _beside(gpu: bool) -> dict[str, Any]:
    """What a measurement asks of Ray: it must not wait for CPUs that the workers hold until they are done."""
    return {"num_gpus": 1} if gpu else {"num_cpus": 0}


def _work(arguments: dict[str, Any]) -> None:
    learn(**arguments, hand_over=_hand_over)


def _hand_over(step: int, wanted: bool) -> None:
    """Has Ray measure the weights of this step; all workers call it. What Ray stores is a note of the step."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "step.json").write_text(json.dumps(step), encoding="utf-8")
        ray.train.report(
            {"step": step},
            checkpoint=Checkpoint.from_directory(folder) if wanted else None,
            validation=ValidationTaskConfig(fn_kwargs={"step": step}) if wanted else False,
        )


def _measure(_: Checkpoint, *, settings: TrainSettings, view: TrainingView, out: Path, step: int) -> dict[str, float]:
    return validation_of(settings, view, out).measure_stored(step).means
