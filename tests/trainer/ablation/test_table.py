"""The table's arithmetic: worked by hand, and against scipy."""

import doctest

import numpy as np
import pytest
from scipy import stats

from engine.errors import UsageError
from trainer.ablation import table as table_module
from trainer.ablation.table import best_cell, cell_text, compare_cells
from trainer.measures.significance import bootstrap_interval

BASE = [{"q1": 0.0, "q2": 0.5, "q3": 1.0}, {"q1": 0.2, "q2": 0.5, "q3": 0.8}]
BETTER = [{"q1": 0.2, "q2": 0.7, "q3": 1.0}, {"q1": 0.4, "q2": 0.7, "q3": 1.0}]
WORSE = [{"q1": 0.0, "q2": 0.2, "q3": 0.7}, {"q1": 0.0, "q2": 0.2, "q3": 0.7}]


@pytest.fixture(scope="module")
def compared():
    return {row.cell: row for row in compare_cells({"baseline": BASE, "better": BETTER, "worse": WORSE}, 1000)}


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


def test_the_interval_and_the_p_value_are_over_queries_not_over_queries_times_seeds(compared):
    gains = np.array([20.0, 20.0, 10.0])
    assert (compared["better"].low, compared["better"].high) == pytest.approx(bootstrap_interval(gains, 1000))
    assert compared["better"].p == pytest.approx(stats.ttest_1samp(gains, 0).pvalue)
    assert compared["better"].p == pytest.approx(0.0377, abs=1e-4)  # t = 16.67 / (5.774 / sqrt 3) = 5, 2 degrees


def test_holm_corrects_over_the_cells(compared):
    """t of worse is -20 / (10 / sqrt 3) = -3.46, p = 0.0742; the smaller p is doubled, the larger stays above it."""
    assert compared["worse"].p == pytest.approx(0.0742, abs=1e-4)
    assert compared["better"].p_holm == pytest.approx(2 * compared["better"].p)
    assert compared["worse"].p_holm == pytest.approx(max(compared["better"].p_holm, compared["worse"].p))


def test_the_best_cell_has_the_highest_mean_and_the_first_wins_a_tie(compared):
    assert best_cell(list(compared.values())) == "better"
    assert best_cell(compare_cells({"baseline": BASE, "same": BASE}, 100)) == "baseline"


def test_a_cell_of_the_table_shows_all_of_it(compared):
    assert cell_text(compared["baseline"], "baseline") == "50.0 ± 0.0"
    assert cell_text(compared["better"], "baseline") == "66.7 ± 4.7  +16.7 [+10.0, +20.0], p 0.075"


def test_one_seed_has_no_spread_and_one_query_no_p():
    base, other = compare_cells({"baseline": [{"q": 0.5}], "other": [{"q": 0.75}]}, 100)
    assert (other.spread, other.p, other.p_holm, other.difference) == (None, None, None, 25)
    assert cell_text(other, base.cell) == "75.0  +25.0 [+25.0, +25.0]"


def test_cells_measured_on_other_queries_are_refused():
    with pytest.raises(UsageError, match="compare systems on the same queries"):
        compare_cells({"baseline": [{"a": 1.0}], "other": [{"b": 1.0}]}, 100)
    with pytest.raises(UsageError, match="runs of a cell were measured on different queries"):
        compare_cells({"baseline": [{"a": 1.0}, {"b": 1.0}]}, 100)
