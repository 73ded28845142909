"""Is the difference between two systems more than chance? Paired, query by query.

    bootstrap_interval    bounds of the mean difference, without assumptions on its distribution
    t_test                Student's paired test; for means over many queries
    wilcoxon              the signed-rank test; looks at the order of the differences alone
    holm                  p-values that stay true where several comparisons are made

References: Smucker, Allan and Carterette, A comparison of statistical significance tests for information retrieval
evaluation, CIKM 2007; Efron, Bootstrap methods, Annals of Statistics 7, 1979; Holm, Scandinavian Journal of Statistics
6, 1979.
"""

import warnings
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from engine.errors import UsageError

Floats = NDArray[np.floating]
_DRAWS_AT_ONCE = 1 << 22


def differences(before: Mapping[str, float], after: Mapping[str, float]) -> Floats:
    """after - before, by query, [queries]; UsageError if the two systems were not measured on the same queries.

    >>> differences({"a": 0.25, "b": 0.5}, {"b": 1.0, "a": 0.25}).tolist()
    [0.0, 0.5]
    """
    unpaired = sorted(before.keys() ^ after.keys())
    if unpaired:
        raise UsageError(
            f"{len(unpaired)} queries have a value of one system only, such as {unpaired[0]!r}; "
            "compare systems on the same queries"
        )
    return np.array([after[query] - value for query, value in before.items()], dtype=np.float64)


def bootstrap_interval(
    gains: Floats, resamples: int = 10_000, confidence: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Bounds of the mean of paired differences, [queries], that hold the true one with this confidence (percentiles).

    Price: `resamples` x queries draws, of which at most 4 million are in memory. UsageError without queries.
    """
    _require(gains, 1)
    generator = np.random.default_rng(seed)
    rows = max(1, _DRAWS_AT_ONCE // len(gains))
    sizes = [min(rows, resamples - start) for start in range(0, resamples, rows)]
    means = [gains[generator.integers(len(gains), size=(size, len(gains)))].mean(1) for size in sizes]
    tail = 50 * (1 - confidence)
    low, high = np.percentile(np.concatenate(means), [tail, 100 - tail]).tolist()
    return low, high


def t_test(gains: Floats) -> float:
    """The two-sided p-value of Student's paired t-test that the mean difference is 0; UsageError below two queries.

    >>> round(t_test(np.array([1.0, 2.0, 3.0])), 4)
    0.0742
    """
    return _p_value(gains, lambda values: stats.ttest_1samp(values, 0.0).pvalue)


def wilcoxon(gains: Floats) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test (queries without a difference left out).

    >>> wilcoxon(np.array([1.0, 2.0, 3.0, 0.0]))
    0.25
    """
    return _p_value(gains, lambda values: stats.wilcoxon(values[values != 0]).pvalue)


def _p_value(gains: Floats, test: Callable[[Floats], float]) -> float:
    _require(gains, 2)
    if not gains.any():
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return float(test(gains))


def _require(gains: Floats, queries: int) -> None:
    if len(gains) < queries:
        raise UsageError(f"{len(gains)} queries have both values, and {queries} are needed; give more judged queries")


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """p-values of several comparisons, such that one below alpha is wrong with probability alpha over all of them.

    >>> holm({"a": 0.04, "b": 0.01, "c": 0.03})
    {'a': 0.06, 'b': 0.03, 'c': 0.06}
    """
    adjusted, least = {}, 0.0
    for rank, name in enumerate(sorted(p_values, key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[name]))
        adjusted[name] = least
    return {name: adjusted[name] for name in p_values}
