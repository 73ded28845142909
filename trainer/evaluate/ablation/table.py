"""The numbers of an ablation's table: cells against the baseline on one measure, over seeds and queries.

A difference is (cell - baseline) of one seed and query. Its interval and its p-value hold for other queries and for
other seeds (`significance.crossed_estimate`): with few seeds they are wide, and one seed says nothing of others. The
spread is the standard deviation (n - 1) of the means of seeds. Holm's correction is over all cells that are compared
with the baseline on that measure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

from foil.engine.errors import UsageError
from foil.trainer.evaluate.measures.significance import Estimate, Floats, crossed_estimate, holm

Values = Mapping[str, float]
"""Query, or core of queries -> value, such that their plain mean is the result."""


@dataclass(frozen=True, slots=True)
class CellResult:
    """One cell on one measure, in points (x 100), of `count` queries.

    `seed_means` are the means of its runs, `spread` their standard deviation (None of one seed). `low` and `high` bound
    the difference to the baseline with 95 % confidence; `p` is that of no difference, `p_holm` the corrected one (None
    below two queries). The baseline has difference 0 and no p.
    """

    cell: str
    count: int
    seed_means: tuple[float, ...]
    mean: float
    spread: float | None
    difference: float
    low: float
    high: float
    p: float | None
    p_holm: float | None


def compare_cells(values: Mapping[str, Sequence[Values]]) -> list[CellResult]:
    """All cells on one measure; `values` are cell -> seed -> query -> value in [-1, 1], the baseline's first.

    Raises UsageError where runs were not measured on the same queries.
    """
    baseline, *varied = values
    queries = sorted(values[baseline][0])
    points = {cell: 100 * _rows(of_seeds, queries) for cell, of_seeds in values.items()}
    estimates = {cell: crossed_estimate(points[cell] - points[baseline]) for cell in varied}
    corrected = holm({cell: estimate.p for cell, estimate in estimates.items() if estimate.p is not None})
    return [_result(cell, rows, estimates.get(cell), corrected.get(cell)) for cell, rows in points.items()]


def _rows(of_seeds: Sequence[Values], queries: Sequence[str]) -> Floats:
    """[seeds, queries]"""
    if any(sorted(values) != queries for values in of_seeds):
        raise UsageError("the runs were measured on different queries; evaluate them anew in another `out`")
    return np.array([[values[query] for query in queries] for values in of_seeds])


def _result(cell: str, points: Floats, estimate: Estimate | None, p_holm: float | None) -> CellResult:
    means = tuple(points.mean(1).tolist())
    spread = stdev(means) if len(means) > 1 else None
    mean, low, high, p = (estimate.mean, estimate.low, estimate.high, estimate.p) if estimate else (0.0, 0.0, 0.0, None)
    return CellResult(cell, points.shape[1], means, fmean(means), spread, mean, low, high, p, p_holm)


def best_cell(results: Sequence[CellResult]) -> str:
    """The cell with the highest mean; of equal ones the first."""
    return max(results, key=lambda result: result.mean).cell


def cell_text(result: CellResult, baseline: str) -> str:
    """A result as a table has it: mean, spread, difference with its interval, corrected p."""
    spread = "" if result.spread is None else f" ± {result.spread:.1f}"
    if result.cell == baseline:
        return f"{result.mean:.1f}{spread}"
    p = "" if result.p_holm is None else f", p {result.p_holm:.3f}"
    return f"{result.mean:.1f}{spread}  {result.difference:+.1f} [{result.low:+.1f}, {result.high:+.1f}]{p}"
