"""Weights between base and trained, and which of them to keep: sensitivity on one axis, its price on the other.

Every blend on the line base + share x (trained - base) is measured on the dev split; kept is the most sensitive one
(both_views) whose plain retrieval lost no more than allowed. Price: one encoding of the dev split a share.
Reference: Wortsman et al., Robust fine-tuning of zero-shot models (WiSE-FT), arXiv 2109.01903.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from datasets_out.training_view import Group
from trainer.checkpoint import blend, put_weights, weights
from trainer.encoder import Encoder
from trainer.evaluate import evaluate, means
from trainer.settings import EvaluateSettings, RetentionSettings


@dataclass(frozen=True, slots=True)
class Point:
    """One blend: its share of the trained weights, and its means on the dev split in points."""

    share: float
    means: dict[str, float]


def measure_blends(encoder: Encoder, base: Encoder, dev: Sequence[Group], keep: RetentionSettings) -> list[Point]:
    """The base (share 0) and every blend on the dev split, by share. The encoder's weights are left at the last one."""
    start, end = weights(base), {name: value.clone() for name, value in weights(encoder).items()}
    points = []
    for share in sorted({0.0, *keep.blends}):
        put_weights(encoder, blend(start, end, share))
        points.append(Point(share, means(evaluate(encoder, dev, EvaluateSettings()))))
    put_weights(encoder, end)
    return points


def choose(points: Sequence[Point], keep: RetentionSettings) -> float:
    """The share of the most sensitive blend that keeps plain retrieval; 0 where none does.

    >>> line = [(0.0, 10, 50), (0.5, 30, 49.5), (1.0, 40, 45)]
    >>> points = [Point(s, {"both_views": b, "plain_ndcg": p}) for s, b, p in line]
    >>> choose(points, RetentionSettings(plain_loss_allowed=1.0))
    0.5
    """
    floor = points[0].means["plain_ndcg"] - keep.plain_loss_allowed
    kept = [point for point in points if point.share == 0 or point.means["plain_ndcg"] >= floor]
    return max(kept, key=lambda point: point.means["both_views"]).share


def draw(points: Sequence[Point], chosen: float, path: Path) -> None:
    """The trade-off as a PNG: plain nDCG lost (x) against both-views pair accuracy (y), one dot a blend."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    base = points[0].means["plain_ndcg"]
    x = [point.means["plain_ndcg"] - base for point in points]
    y = [point.means["both_views"] for point in points]
    axes.plot(x, y, color="0.7", zorder=1)
    axes.scatter(x, y, c=["tab:red" if point.share == chosen else "tab:blue" for point in points], zorder=2)
    for point, across, up in zip(points, x, y, strict=True):
        axes.annotate(f"{point.share:g}", (across, up), textcoords="offset points", xytext=(6, 4))
    axes.set_xlabel("plain nDCG@10 against the base model (points, dev split)")
    axes.set_ylabel("both-views pair accuracy (%, dev split)")
    axes.set_title("What sensitivity costs; labels: share of the trained weights")
    figure.savefig(path, dpi=120)
