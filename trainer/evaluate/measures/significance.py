"""Is the difference between two systems more than chance? Paired, query by query.

    bootstrap_interval    bounds of the mean difference, without assumptions on its distribution
    t_test                Student's paired test; for means over many queries
    wilcoxon              the signed-rank test; looks at the order of the differences alone
    crossed_estimate      of models that were trained several times: queries and training runs are both chance
    holm                  p-values that stay true where several comparisons are made

References: Smucker, Allan and Carterette, A comparison of statistical significance tests for information retrieval
evaluation, CIKM 2007; Efron, Bootstrap methods, Annals of Statistics 7, 1979; Holm, Scandinavian Journal of Statistics
6, 1979; Dorfman, Berbaum and Metz, Investigative Radiology 27, 1992 (readers and cases, here training runs and
queries); Satterthwaite, Biometrics Bulletin 2, 1946.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from foil.engine.errors import UsageError

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


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean difference with the bounds that hold the true one, and the two-sided p-value that it is 0.

    Of a single query nothing but the mean is known: the bounds are the mean, and p is None.
    """

    mean: float
    low: float
    high: float
    p: float | None


def crossed_estimate(gains: Floats, confidence: float = 0.95) -> Estimate:
    """Paired differences, [training runs, queries], where other runs and other queries would have given others.

    Two random factors: the variances of the mean over queries and over runs are added, which counts what belongs to
    neither twice (degrees of freedom by Satterthwaite). Three runs that differ more than chance of queries explains
    say less than they seem to: then 8 % of the intervals miss. Of one run it is Student's paired test.

    >>> crossed_estimate(np.array([[1.0, 2.0, 3.0]])).p == t_test(np.array([1.0, 2.0, 3.0]))
    True
    """
    runs, queries = gains.shape
    mean, of_runs, of_queries = float(gains.mean()), gains.mean(1), gains.mean(0)
    if queries < 2:
        return Estimate(mean, mean, mean, None)
    parts = [(of_queries.var(ddof=1) / queries, queries - 1)]
    parts += [(of_runs.var(ddof=1) / runs, runs - 1)] if runs > 1 else []
    variance = sum(part for part, _ in parts)
    if not variance:
        return Estimate(mean, mean, mean, 0.0 if mean else 1.0)
    freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts)
    reach = float(stats.t.ppf((1 + confidence) / 2, freedom) * np.sqrt(variance))
    return Estimate(mean, mean - reach, mean + reach, float(2 * stats.t.sf(abs(mean) / np.sqrt(variance), freedom)))


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
