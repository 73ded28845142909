"""The gradient cache over a batch of thousands of topics: its memory and time, and the gradients of the whole graph."""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.gpu.check import Figures, require_close
from benchmarks.gpu.sizes import Sizes
from benchmarks.gpu.timing import forget_peak, peak_memory, seconds
from benchmarks.gpu.world import batch_of, load, save_model, settings_for, view_of
from foil.trainer.model.encoder import Encoder
from foil.trainer.settings import TrainSettings
from foil.trainer.train.data.collate import Batch, find_negatives
from foil.trainer.train.loss.batch_loss import add_gradients

ALLOWED = 1e-2
"""Relative norm of the difference of two gradients in bfloat16."""


def check(sizes: Sizes, folder: Path) -> Iterator[Figures]:
    """An encoder of BERT base's shape; `negatives` is the part of a step that the CPU computes before the loss."""
    whole = settings_for(save_model(sizes.shapes["base"], folder / "model"), sizes)
    cached = whole.model_copy(update={"gradient_cache": True})
    encoder = load(whole)
    groups = view_of(sizes.cache_topics, sizes.lengths, folder).read_all("train")
    few, many = (batch_of(groups[:count], whole) for count in (sizes.whole_topics, sizes.cache_topics))
    gradients = _gradients(encoder, few, whole), _gradients(encoder, few, cached)
    difference = float((gradients[0] - gradients[1]).norm() / gradients[0].norm())
    yield {"few_topics": sizes.whole_topics, "many_topics": len(groups), "gradient_difference": difference}
    del gradients
    yield _measure("whole_few", encoder, few, whole, 1)
    yield _measure("cached_few", encoder, few, cached, 1)
    yield _measure("cached_many", encoder, many, cached, 0)
    yield {"negatives_many_s": seconds(lambda: find_negatives(many.anchors, many.keys, cached.loss), 0)}
    require_close("gradients", difference, ALLOWED)


def _gradients(encoder: Encoder, batch: Batch, settings: TrainSettings) -> Tensor:
    """All gradients of a batch in one vector."""
    encoder.zero_grad()
    add_gradients(encoder, encoder, batch, settings)
    return torch.cat([weight.grad.flatten() for weight in encoder.parameters() if weight.grad is not None])


def _measure(name: str, encoder: Encoder, batch: Batch, settings: TrainSettings, times: int) -> Figures:
    """Seconds, peak memory and speed of the gradients of a batch."""
    forget_peak()
    encoder.zero_grad()
    before = encoder.tokens
    spent = seconds(lambda: add_gradients(encoder, encoder, batch, settings), times)
    tokens = (encoder.tokens - before) / (1 + bool(times))
    return {f"{name}_s": spent, f"{name}_peak_gib": peak_memory() / 2**30, f"{name}_tokens_per_s": tokens / spent}
