"""Weights between base and trained, and which of them to keep: sensitivity on one axis, its price on the other.

Every blend on the line base + share x (trained - base) is measured on the dev split; kept is the most sensitive one
(both_views) whose plain retrieval lost no more than allowed. Price: one encoding of the dev split a share.
Reference: Wortsman et al., Robust fine-tuning of zero-shot models (WiSE-FT), arXiv 2109.01903.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from engine.errors import UsageError
from trainer.model.checkpoint import blend, put_weights, weights
from trainer.model.encoder import Encoder
from trainer.settings import Measure, RetentionSettings


@dataclass(frozen=True, slots=True)
class Point:
    """One blend: its share of the trained weights, and its means on the dev split in points."""

    share: float
    means: dict[str, float]


def measure_blends(
    encoder: Encoder,
    base: Encoder,
    shares: Iterable[float],
    measure: Callable[[Encoder], dict[str, float]],
    known: Mapping[float, dict[str, float]],
) -> list[Point]:
    """The base (share 0) and the blends of these shares, by share; `known` has means that need no measuring.

    The encoder's weights are left as they were.
    """
    start, end = beginning(base, encoder), {name: value.clone() for name, value in weights(encoder).items()}
    points = []
    for share in sorted({0.0, *shares}):
        if share not in known:
            put_weights(encoder, blend(start, end, share))
        points.append(Point(share, known[share] if share in known else measure(encoder)))
    put_weights(encoder, end)
    return points


def beginning(base: Encoder, encoder: Encoder) -> dict[str, Tensor]:
    """Weights by the encoder's names that make it the base: the base's own, and no update where an adapter learnt."""
    known = weights(base)
    return {
        name: known.get(name, torch.zeros_like(value) if ".lora_B." in name else value)
        for name, value in weights(encoder).items()
    }


def choose(points: Sequence[Point], keep: RetentionSettings) -> float:
    """The share of the most sensitive blend that keeps plain retrieval; 0 where none does.

    >>> line = [(0.0, 10, 50), (0.5, 30, 49.5), (1.0, 40, 45)]
    >>> points = [Point(s, {"both_views": b, "plain_ndcg": p}) for s, b, p in line]
    >>> choose(points, RetentionSettings(plain_loss_allowed=1.0))
    0.5
    """
    return points[best_allowed([point.means for point in points], keep.plain_loss_allowed, "both_views")].share


def best_allowed(found: Sequence[Mapping[str, float]], plain_loss_allowed: float, measure: Measure) -> int:
    """Which of these means has most of `measure`, of those that lost no more plain nDCG against the first.

    The first is the base and always allowed; of equal ones the first is taken. Raises UsageError where the dev topics
    show no such measure.
    """
    missing = next((means for means in found if measure not in means), None)
    if missing is not None:
        raise UsageError(f"the dev topics show no {measure}, only {', '.join(missing) or 'nothing'}; nothing is chosen")
    plain = [means.get("plain_ndcg", 0.0) for means in found]
    allowed = [place for place, value in enumerate(plain) if place == 0 or value >= plain[0] - plain_loss_allowed]
    return max(allowed, key=lambda place: found[place][measure])


def draw(points: Sequence[Point], chosen: float, path: Path) -> None:
    """The trade-off as a PNG: plain nDCG gained (x) against both-views accuracy (y), a dot a blend, `chosen` red."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    base = points[0].means["plain_ndcg"]
    x = [point.means["plain_ndcg"] - base for point in points]
    y = [point.means["both_views"] for point in points]
    axes.plot(x, y, color="0.7", zorder=1)
    axes.scatter(x, y, c=["tab:red" if point.share == chosen else "tab:blue" for point in points], zorder=2)
    labels: dict[tuple[float, float], list[str]] = {}
    for point, place in zip(points, zip(x, y, strict=True), strict=True):
        labels.setdefault(place, []).append(f"{point.share:g}")
    for place, shares in labels.items():
        axes.annotate(", ".join(shares), place, textcoords="offset points", xytext=(6, 4))
    axes.margins(0.12)
    axes.set_xlabel("plain nDCG@10 against the base model (points, dev split)")
    axes.set_ylabel("both-views pair accuracy (%, dev split)")
    axes.set_title("Labels: share of the trained weights; red: published", fontsize="medium")
    figure.savefig(path, dpi=120)
