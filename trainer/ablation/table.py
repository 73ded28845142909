"""The numbers of an ablation's table: cells against the baseline on one measure, over seeds and queries.

The difference of a query is the mean over seeds of (cell - baseline). Its bootstrap interval and its t-test resample
queries: seeds of one query are not independent, so they do not count as more queries. How much seeds matter is the
spread: the standard deviation (n - 1) of their means. Holm's correction is over all cells that are compared with the
baseline on that measure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from engine.errors import UsageError
from trainer.measures.significance import bootstrap_interval, differences, holm, t_test

Values = Mapping[str, float]
"""Query, or core of queries -> value, such that their plain mean is the result."""


@dataclass(frozen=True, slots=True)
class CellResult:
    """One cell on one measure, in points (x 100), of `count` queries.

    `seed_means` are the means of its runs, `spread` their standard deviation (None of one seed). `low` and `high` bound
    the difference to the baseline with 95 % confidence; `p` is that of the paired t-test (None below two queries),
    `p_holm` the corrected one. The baseline has difference 0 and no p.
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


def compare_cells(values: Mapping[str, Sequence[Values]], resamples: int) -> list[CellResult]:
    """All cells on one measure; `values` are cell -> seed -> query -> value in [-1, 1], the baseline's first.

    Raises UsageError where cells were not measured on the same queries.
    """
    averages = {cell: mean_over_seeds(of_seeds) for cell, of_seeds in values.items()}
    baseline, *others = averages
    gains = {cell: 100 * differences(averages[baseline], averages[cell]) for cell in others}
    p_values = {cell: t_test(gain) for cell, gain in gains.items() if len(gain) > 1}
    corrected = holm(p_values)
    found = []
    for cell, of_seeds in values.items():
        means = tuple(100 * fmean(seed.values()) for seed in of_seeds)
        gain = gains.get(cell)
        low, high = (0.0, 0.0) if gain is None or not gain.any() else bootstrap_interval(gain, resamples)
        difference = 0.0 if gain is None else float(gain.mean())
        spread = stdev(means) if len(means) > 1 else None
        result = (cell, len(averages[cell]), means, fmean(means), spread, difference, low, high)
        found.append(CellResult(*result, p_values.get(cell), corrected.get(cell)))
    return found


def mean_over_seeds(of_seeds: Sequence[Values]) -> dict[str, float]:
    """The mean over seeds of every query; UsageError where a seed was measured on others.

    >>> mean_over_seeds([{"a": 0.0, "b": 1.0}, {"a": 0.5, "b": 1.0}])
    {'a': 0.25, 'b': 1.0}
    """
    if any(values.keys() != of_seeds[0].keys() for values in of_seeds):
        raise UsageError("the runs of a cell were measured on different queries; evaluate them anew in another `out`")
    return {query: fmean(values[query] for values in of_seeds) for query in of_seeds[0]}


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
