"""The same training on the CPU and on the GPU: the losses of a few steps, in float32 and in bfloat16."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np

from benchmarks.gpu.check import Figures, require_close
from benchmarks.gpu.sizes import SMALL, Sizes
from benchmarks.gpu.timing import device
from benchmarks.gpu.world import load, save_model, settings_for, view_of
from foil.datasets_out.training.training_view import TrainingView
from foil.trainer.model_settings import ModelSettings
from foil.trainer.settings import EncodeSettings, ScheduleSettings
from foil.trainer.train.run.fit import fit

Precision = Literal["float32", "bfloat16"]

ALLOWED: dict[Precision, float] = {"float32": 1e-5, "bfloat16": 1e-2}
"""Relative difference of two losses of a step."""
STEPS, TOPICS = 4, 8


def check(sizes: Sizes, folder: Path) -> Iterator[Figures]:
    """An encoder of MiniLM's shape, and a tiny decoder, which packs pairs."""
    view = view_of(STEPS * TOPICS, sizes.lengths, folder)
    shapes = {"encoder": sizes.shapes["minilm"], "decoder": SMALL.shapes["decoder"]}
    models = {name: save_model(shape, folder / name) for name, shape in shapes.items()}
    differences = {}
    yield {"cpu_against": device()}
    for name, precision in product(models, ALLOWED):
        here, there = (_losses(models[name], view, precision, place, folder) for place in ("cpu", device()))
        difference = float(np.max(np.abs(np.subtract(here, there)) / np.abs(here)))
        yield {f"{name}_{precision}_difference": difference, f"{name}_{precision}_losses": there}
        differences[name, precision] = difference
    for (name, precision), difference in differences.items():
        require_close(f"losses of the {name} in {precision}", difference, ALLOWED[precision])


def _losses(model: Path, view: TrainingView, precision: Precision, place: str, folder: Path) -> list[float]:
    """The losses of a whole run, checkpoint included."""
    settings = settings_for(
        model,
        SMALL,
        encode=EncodeSettings(precision=precision),
        model=ModelSettings.model_validate({"device": place}),
        schedule=ScheduleSettings(steps=STEPS, topics_per_batch=TOPICS, warmup_steps=1),
    )
    encoder = load(settings)
    return fit(encoder, encoder, settings, view, folder / f"{model.name}-{precision}-{place}")
