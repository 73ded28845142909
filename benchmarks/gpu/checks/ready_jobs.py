"""The ready jobs for larger bases: their own settings, random weights of their bases' shapes; time and memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import yaml

from benchmarks.gpu.check import Figures, UnequalError
from benchmarks.gpu.checks.training import train_until
from benchmarks.gpu.sizes import JobName, Sizes
from benchmarks.gpu.timing import forget_peak, peak_memory
from benchmarks.gpu.world import load, save_model, view_of
from foil.trainer.model.encoder import load_starting_encoder
from foil.trainer.settings import TrainSettings

JOBS = Path(__file__).resolve().parents[3] / "examples" / "jobs"
GPU_GIB: dict[JobName, int] = {"embed_300m": 24, "embed_600m": 24, "embed_4b": 80}
"""What the comments of the jobs say that their GPU has."""
STEPS = 2
"""Of a job; the last is timed."""


def check(sizes: Sizes, folder: Path) -> Iterator[Figures]:
    """A step of each job as `foil train` makes it: LoRA, gradient cache, pull to the base, plain rows."""
    too_large = []
    for name, gib in GPU_GIB.items():
        settings = _settings(name, sizes, folder / name)
        figures = _measure(settings, sizes, folder / name)
        yield {f"{name}_{figure}": value for figure, value in figures.items()}
        if figures["peak_gib"] > gib:
            too_large.append(f"{name} takes {figures['peak_gib']:.1f} GiB, and its job promises {gib}")
    if too_large:
        raise UnequalError("; ".join(too_large))


def _settings(name: JobName, sizes: Sizes, folder: Path) -> TrainSettings:
    """The job's own, from random weights, and so many steps that a check never ends them."""
    train: dict[str, Any] = yaml.safe_load((JOBS / f"{name}.yaml").read_text(encoding="utf-8"))["train"]
    schedule = {**train["schedule"], "epochs": None, "steps": 10**6}
    if sizes.job_topics:
        schedule["topics_per_batch"] = train["retention"]["plain_topics"] = sizes.job_topics
    base = save_model(sizes.job_shapes[name], folder / "model", torch.bfloat16)
    changes = {"base": base, "schedule": schedule, "validation": {"topics": 0}, "checkpoint_steps": 10**6}
    return TrainSettings.model_validate({**train, **changes})


def _measure(settings: TrainSettings, sizes: Sizes, folder: Path) -> Figures:
    view = view_of(2 * settings.schedule.topics_per_batch, sizes.job_lengths, folder)
    forget_peak()
    base = load_starting_encoder(settings, adapters=False)
    encoder, out = load(settings), folder / "checkpoints"
    rows = train_until(lambda rows: len(rows) == STEPS, encoder, settings, view, out, base=base)
    return {"step_s": rows[-1].seconds, "tokens_per_s": rows[-1].tokens_per_s, "peak_gib": peak_memory() / 2**30}
