"""Blends of the base weights and the trained ones, and the choice between them by two measures.

Each blend base + share x (trained - base) is measured on the dev split. The one with most of `validation.measure` is
kept, of those whose plain retrieval lost no more than allowed. Price: one encoding of the dev split for each share.
Reference: Wortsman et al., Robust fine-tuning of zero-shot models (WiSE-FT), arXiv 2109.01903.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from foil.engine.errors import UsageError
from foil.trainer.model.checkpoint import blend_weights, put_weights, weights
from foil.trainer.model.encoder import Encoder
from foil.trainer.settings import Measure, RetentionSettings


@dataclass(frozen=True, slots=True)
class BlendPoint:
    """One blend: its share of the trained weights, and its means on the dev split in points."""

    share: float
    means: dict[str, float]


def measure_blends(
    encoder: Encoder,
    base: Encoder,
    shares: Iterable[float],
    measure: Callable[[Encoder], dict[str, float]],
    known_means: Mapping[float, dict[str, float]],
) -> list[BlendPoint]:
    """The base (share 0) and the blends of these shares, by share; `known_means` were measured before.

    The encoder's weights are left as they were.
    """
    start, end = base_weights(base, encoder), {name: value.clone() for name, value in weights(encoder).items()}
    points = []
    for share in sorted({0.0, *shares}):
        if share not in known_means:
            put_weights(encoder, blend_weights(start, end, share))
        points.append(BlendPoint(share, known_means[share] if share in known_means else measure(encoder)))
    put_weights(encoder, end)
    return points


def base_weights(base: Encoder, encoder: Encoder) -> dict[str, Tensor]:
    """The base's weights under the encoder's names; a LoRA update is zero."""
    base_values = weights(base)
    return {
        name: base_values.get(name, torch.zeros_like(value) if ".lora_B." in name else value)
        for name, value in weights(encoder).items()
    }


def choose_share(points: Sequence[BlendPoint], retention: RetentionSettings, measure: Measure = "both_views") -> float:
    """The share of the blend with most of `measure` that keeps plain retrieval; 0 where none does.

    >>> line = [(0.0, 10, 50), (0.5, 30, 49.5), (1.0, 40, 45)]
    >>> points = [BlendPoint(s, {"both_views": b, "plain_ndcg": p}) for s, b, p in line]
    >>> choose_share(points, RetentionSettings(plain_loss_allowed=1.0))
    0.5
    """
    return points[best_allowed([point.means for point in points], retention.plain_loss_allowed, measure)].share


KEPT = ("plain_ndcg", "outside")
"""What a choice may lose little of: plain retrieval on dev topics, and the tasks of others where they are measured."""


def best_allowed(candidates: Sequence[Mapping[str, float]], loss_allowed: float, measure: Measure) -> int:
    """The index of the means with most of `measure`, of those that lost at most so much of what is kept.

    The first is the base and is always allowed; of equal means the first is taken. Raises UsageError where the dev
    topics show no such measure.

    >>> line = [{"both_views": 10, "outside": 40}, {"both_views": 30, "outside": 38}, {"both_views": 20, "outside": 41}]
    >>> best_allowed(line, 1.0, "both_views")
    2
    """
    incomplete = next((means for means in candidates if measure not in means), None)
    if incomplete is not None:
        raise UsageError(
            f"the dev topics show no {measure}, only {', '.join(incomplete) or 'nothing'}; nothing is chosen"
        )
    base = candidates[0]
    allowed = [
        index
        for index, means in enumerate(candidates)
        if index == 0 or all(means[name] >= base[name] - loss_allowed for name in KEPT if name in base)
    ]
    return max(allowed, key=lambda index: candidates[index][measure])


def draw_curve(points: Sequence[BlendPoint], chosen: float, path: Path) -> None:
    """The trade-off as a PNG: plain nDCG gained (x) against both-views accuracy (y), a dot a blend, `chosen` red."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    base = points[0].means["plain_ndcg"]
    x = [point.means["plain_ndcg"] - base for point in points]
    y = [point.means["both_views"] for point in points]
    axes.plot(x, y, color="0.7", zorder=1)
    axes.scatter(x, y, c=["tab:red" if point.share == chosen else "tab:blue" for point in points], zorder=2)
    labels: dict[tuple[float, float], list[str]] = {}
    for point, position in zip(points, zip(x, y, strict=True), strict=True):
        labels.setdefault(position, []).append(f"{point.share:g}")
    for position, shares in labels.items():
        axes.annotate(", ".join(shares), position, textcoords="offset points", xytext=(6, 4))
    axes.margins(0.12)
    axes.set_xlabel("plain nDCG@10 against the base model (points, dev split)")
    axes.set_ylabel("both-views pair accuracy (%, dev split)")
    axes.set_title("Labels: share of the trained weights; red: published", fontsize="medium")
    figure.savefig(path, dpi=120)
