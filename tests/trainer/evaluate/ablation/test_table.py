"""The table's arithmetic: worked by hand, and against scipy."""

import doctest

import numpy as np
import pytest
from scipy import stats

from foil.engine.errors import UsageError
from foil.trainer.evaluate.ablation import table as table_module
from foil.trainer.evaluate.ablation.table import best_cell, cell_text, compare_cells
from foil.trainer.evaluate.measures.significance import crossed_estimate, t_test

BASE = [{"q1": 0.0, "q2": 0.5, "q3": 1.0}, {"q1": 0.2, "q2": 0.5, "q3": 0.8}]
BETTER = [{"q1": 0.2, "q2": 0.7, "q3": 1.0}, {"q1": 0.4, "q2": 0.7, "q3": 1.0}]
WORSE = [{"q1": 0.0, "q2": 0.2, "q3": 0.7}, {"q1": 0.0, "q2": 0.2, "q3": 0.7}]


@pytest.fixture(scope="module")
def compared():
    return {row.cell: row for row in compare_cells({"baseline": BASE, "better": BETTER, "worse": WORSE})}


def test_the_example_holds():
    assert doctest.testmod(table_module).failed == 0


def test_means_spreads_and_differences_are_as_worked_by_hand(compared):
    """Means of seeds: baseline 50, 50; better 63.33, 70; worse 30, 30. Differences by query: (20, 20, 10), ..."""
    base, better, worse = compared.values()
    assert (base.mean, base.spread, base.difference, base.p, base.p_holm) == (pytest.approx(50), 0, 0, None, None)
    assert better.seed_means == pytest.approx((63.3333, 70), abs=1e-3)
    assert better.mean == pytest.approx(66.6667, abs=1e-3)
    assert better.spread == pytest.approx(6.6667 / np.sqrt(2), abs=1e-3)
    assert better.difference == pytest.approx(50 / 3)
    assert worse.difference == pytest.approx(-(10 + 30 + 20) / 3)
    assert (base.count, better.count) == (3, 3)


def test_the_interval_and_the_p_value_are_of_two_random_factors(compared):
    """Gains of better: (20, 20, 0) and (20, 20, 20); means of queries 20, 20, 10, of seeds 13.33 and 20.

    Variances of the mean: 33.3 / 3 over queries (2 degrees), 22.2 / 2 over seeds (1 degree), 22.2 in all on 4 / 1.5
    degrees.
    """
    better, error, freedom = compared["better"], np.sqrt(200 / 9), 4 / 1.5
    assert better.p == pytest.approx(2 * stats.t.sf(50 / 3 / error, freedom)) == pytest.approx(0.0464, abs=1e-4)
    reach = stats.t.ppf(0.975, freedom) * error
    assert (better.low, better.high) == pytest.approx((50 / 3 - reach, 50 / 3 + reach))


def test_one_seed_is_students_test_and_differing_seeds_widen_the_interval():
    gains = np.array([5.0, 6, 7, 8])
    alone = crossed_estimate(gains[None])
    t = stats.ttest_1samp(gains, 0)
    assert alone.p == pytest.approx(t.pvalue)
    assert (alone.low, alone.high) == pytest.approx(t.confidence_interval())
    for apart in (1, 5):
        wider = crossed_estimate(np.stack([gains - apart, gains + apart]))
        assert (wider.mean, wider.low < alone.low, wider.p > alone.p) == (6.5, True, True)


def test_training_noise_alone_is_seldom_taken_for_a_gain():
    """3 seeds of a cell that is no better, 70 queries, spreads as measured of WISE (lab/2026-11-26-training.md)."""
    generator = np.random.default_rng(0)
    shape = (1000, 3, 70)
    seeds, queries, rest = (generator.normal(size=size) for size in ((1000, 3, 1), (1000, 1, 70), shape))
    gains = 2.7 * seeds + 2 * queries + 16 * rest
    found = [crossed_estimate(gain) for gain in gains]
    assert 0.03 < np.mean([estimate.p < 0.05 for estimate in found]) < 0.07
    assert np.mean([estimate.low <= 0 <= estimate.high for estimate in found]) > 0.93
    assert np.mean([t_test(gain.mean(0)) < 0.05 for gain in gains]) > 0.2


def test_holm_corrects_over_the_cells(compared):
    better, worse = compared["better"], compared["worse"]
    assert better.p < worse.p
    assert better.p_holm == pytest.approx(2 * better.p)
    assert worse.p_holm == pytest.approx(max(better.p_holm, worse.p))


def test_the_best_cell_has_the_highest_mean_and_the_first_wins_a_tie(compared):
    assert best_cell(list(compared.values())) == "better"
    assert best_cell(compare_cells({"baseline": BASE, "same": BASE})) == "baseline"


def test_a_cell_of_the_table_shows_all_of_it(compared):
    assert cell_text(compared["baseline"], "baseline") == "50.0 ± 0.0"
    assert cell_text(compared["better"], "baseline") == "66.7 ± 4.7  +16.7 [+0.5, +32.8], p 0.093"


def test_one_seed_has_no_spread_and_one_query_no_p():
    base, other = compare_cells({"baseline": [{"q": 0.5}], "other": [{"q": 0.75}]})
    assert (other.spread, other.p, other.p_holm, other.difference) == (None, None, None, 25)
    assert cell_text(other, base.cell) == "75.0  +25.0 [+25.0, +25.0]"


def test_cells_measured_on_other_queries_are_refused():
    with pytest.raises(UsageError, match="runs were measured on different queries"):
        compare_cells({"baseline": [{"a": 1.0}], "other": [{"b": 1.0}]})
    with pytest.raises(UsageError, match="runs were measured on different queries"):
        compare_cells({"baseline": [{"a": 1.0}, {"b": 1.0}]})
