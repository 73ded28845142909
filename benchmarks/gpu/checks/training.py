"""Tokens a second of Foil's own training loop, as a share of what the device multiplies, and where the time goes."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from benchmarks.gpu.check import Figures
from benchmarks.gpu.sizes import ShapeName, Sizes
from benchmarks.gpu.timing import (
    outside_products,
    peak_memory,
    product_rate,
    product_weights,
    profile,
    seconds,
)
from benchmarks.gpu.world import load, save_model, settings_for, view_of
from foil.datasets_out.training.training_view import TrainingView
from foil.trainer.model.encoder import Encoder
from foil.trainer.settings import ScheduleSettings, TrainSettings
from foil.trainer.train.loss.batch_loss import add_gradients
from foil.trainer.train.run.fit import BatchReader, Hooks, fit, make_optimiser, optimise
from foil.trainer.train.run.logs import LogRow

AIM = 0.45
"""The share of the matrix rate that training should reach."""
WARM_UP, FEWEST = 3, 2
"""Steps that are not timed, and steps that are at least."""
LARGEST, NAMED = 8, 80
"""Kernels that are told, those with most time, and characters of their names; those that begin alike are one."""


def check_minilm(sizes: Sizes, folder: Path) -> Iterator[Figures]:
    """An encoder of MiniLM's shape."""
    return _check("minilm", sizes, folder)


def check_base(sizes: Sizes, folder: Path) -> Iterator[Figures]:
    """An encoder of BERT base's shape."""
    return _check("base", sizes, folder)


def check_decoder(sizes: Sizes, folder: Path) -> Iterator[Figures]:
    """A decoder of Qwen3-0.6B's shape."""
    return _check("decoder", sizes, folder)


def _check(shape: ShapeName, sizes: Sizes, folder: Path) -> Iterator[Figures]:
    topics = sizes.train_topics[shape]
    schedule = ScheduleSettings(steps=10**6, topics_per_batch=topics)
    settings = settings_for(save_model(sizes.shapes[shape], folder / "model"), sizes, schedule=schedule)
    settings = settings.model_copy(update={"checkpoint_steps": 10**6})
    view = view_of(2 * topics, sizes.lengths, folder)
    encoder = load(settings)
    rows = train_for(sizes.train_s, encoder, settings, view, folder / "checkpoints")
    yield {"topics_a_step": topics, **_speeds(rows, encoder, product_rate(sizes.matrix))}
    yield _where_time_goes(encoder, settings, view)


class _EnoughError(Exception):
    """Ends a run that was only to be timed."""


def train_for(least_s: float, encoder: Encoder, settings: TrainSettings, view: TrainingView, out: Path) -> list[LogRow]:
    """The log of the steps that `fit` makes in so many seconds after the warm-up."""

    def enough(rows: list[LogRow]) -> bool:
        timed = rows[WARM_UP:]
        return len(timed) >= FEWEST and sum(row.seconds for row in timed) >= least_s

    return train_until(enough, encoder, settings, view, out)[WARM_UP:]


def train_until(
    enough: Callable[[list[LogRow]], bool],
    encoder: Encoder,
    settings: TrainSettings,
    view: TrainingView,
    out: Path,
    *,
    base: Encoder | None = None,
) -> list[LogRow]:
    """The log of the steps that `fit` makes until there are enough of them; `settings` must allow that many."""
    rows: list[LogRow] = []

    def on_step(row: LogRow) -> None:
        rows.append(row)
        if enough(rows):
            raise _EnoughError

    try:
        fit(encoder, base or encoder, settings, view, out, hooks=Hooks(on_step))
    except _EnoughError:
        return rows
    raise AssertionError("a million steps in seconds")


def _speeds(rows: list[LogRow], encoder: Encoder, rate: float) -> Figures:
    """Forward and backward are 6 operations a weight and token; attention's own products are not counted."""
    spent = sum(row.seconds for row in rows)
    tokens_per_s = sum(row.tokens_per_s * row.seconds for row in rows) / spent
    weights = product_weights(encoder)
    return {
        "steps": len(rows),
        "step_s": statistics.median(row.seconds for row in rows),
        "tokens_per_s": tokens_per_s,
        "product_weights": weights,
        "matrix_tflops": 1e-12 * rate,
        "share_of_matrix_rate": 6 * weights * tokens_per_s / rate,
        "aim": AIM,
        "peak_gib": peak_memory() / 2**30,
        "last_loss": rows[-1].loss,
    }


def _where_time_goes(encoder: Encoder, settings: TrainSettings, view: TrainingView) -> Figures:
    """A profiled step: how much of its time the device computes, and what."""
    step = _step(encoder, settings, view)
    wall, spent = seconds(step, 1), profile(step)
    busy = sum(spent.values())
    kernels: dict[str, float] = defaultdict(float)
    for name, value in spent.items():
        kernels[name[:NAMED]] += value / busy
    return {
        "device_busy": busy / wall,
        "outside_products": outside_products(spent),
        "kernels": dict(sorted(kernels.items(), key=lambda kernel: -kernel[1])[:LARGEST]),
    }


def _step(encoder: Encoder, settings: TrainSettings, view: TrainingView) -> Callable[[], None]:
    optimiser, batches, steps = (
        make_optimiser(encoder, settings.schedule),
        BatchReader(view, settings, encoder.texts),
        count(),
    )

    def run() -> None:
        optimiser.zero_grad()
        add_gradients(encoder, encoder, batches.read(next(steps)), settings)
        optimise(encoder, optimiser, 1e-6, settings.schedule.clip_norm)

    return run
