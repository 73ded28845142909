"""Shared-prefix packing against padding, through one encoder: pairs of every instruction with every query."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.check import Figures, require_close
from benchmarks.gpu.sizes import Sizes
from benchmarks.gpu.timing import forget_peak, peak_memory, seconds
from benchmarks.gpu.world import load, save_model, settings_for, texts
from foil.trainer.model.encoder import CrossAttentionBatch, Encoder, MicroBatch
from foil.trainer.model.packing import PackedBatch
from foil.trainer.text_templates import QueryPair

ALLOWED = 1e-4
"""Of a number of a unit vector in float32."""


def check(sizes: Sizes, folder: Path) -> Iterator[Figures]:
    """A decoder of Qwen3-0.6B's shape; forward and backward in bfloat16, and the vectors in float32."""
    encoder = load(settings_for(save_model(sizes.shapes["decoder"], folder), sizes, template="instruction_query"))
    lengths = sizes.lengths
    queries = texts(sizes.packed_queries, lengths.query, 1)
    pairs = [(front, end) for front in texts(sizes.packed_instructions, 2 * lengths.instruction, 0) for end in queries]
    difference = _difference(encoder, pairs[: 2 * sizes.packed_queries])
    yield {"pairs": len(pairs), "largest_difference": difference}
    yield (padded := _measure("padded", _with(encoder, shared_prefix=False), pairs, sizes.repeats))
    yield (packed := _measure("packed", _with(encoder, shared_prefix=True), pairs, sizes.repeats))
    yield {f"ratio_{name}": padded[f"padded_{name}"] / packed[f"packed_{name}"] for name in ("tokens", "s")}
    require_close("vectors", difference, ALLOWED)


def _with(encoder: Encoder, **changes: Any) -> Encoder:
    """The same weights with other settings."""
    return Encoder(encoder.model, encoder.template, encoder.settings.model_copy(update=changes))


@torch.no_grad()
def _difference(encoder: Encoder, pairs: Sequence[QueryPair]) -> float:
    padded, packed = (
        _with(encoder, shared_prefix=shared, precision="float32").encode([], pairs) for shared in (False, True)
    )
    return float((padded - packed).abs().max())


def _measure(name: str, encoder: Encoder, pairs: Sequence[QueryPair], repeats: int) -> Figures:
    """Seconds forward and backward, peak memory, and the places of tokens that are computed, padding included."""
    batches = encoder.micro_batches([], pairs)

    def work() -> None:
        for batch in batches:
            torch.autograd.backward(encoder(batch).sum())

    forget_peak()
    spent = seconds(work, repeats)
    return {
        f"{name}_s": spent,
        f"{name}_tokens": sum(map(_places, batches)),
        f"{name}_peak_gib": peak_memory() / 2**30,
    }


def _places(batch: MicroBatch) -> int:
    assert not isinstance(batch, CrossAttentionBatch)
    return (batch.ids if isinstance(batch, PackedBatch) else batch.features["input_ids"]).numel()
