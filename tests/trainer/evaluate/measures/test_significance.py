"""Tests of significance: against scipy, against published rules, and in corner cases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from foil.engine.errors import UsageError
from foil.trainer.evaluate.measures import significance
from foil.trainer.evaluate.measures.significance import bootstrap_interval, differences, holm, t_test, wilcoxon

DRAWN = np.random.default_rng(7)
BEFORE, AFTER = DRAWN.normal(0.4, 0.2, 40), DRAWN.normal(0.48, 0.2, 40)


def test_the_tests_are_the_paired_ones_of_scipy():
    assert t_test(AFTER - BEFORE) == pytest.approx(stats.ttest_rel(AFTER, BEFORE).pvalue)
    assert wilcoxon(AFTER - BEFORE) == pytest.approx(stats.wilcoxon(AFTER, BEFORE).pvalue)


def test_the_interval_holds_the_mean_and_narrows_with_less_confidence():
    low, high = bootstrap_interval(AFTER - BEFORE)
    inner_low, inner_high = bootstrap_interval(AFTER - BEFORE, confidence=0.5)
    assert low < inner_low < np.mean(AFTER - BEFORE) < inner_high < high
    assert bootstrap_interval(AFTER - BEFORE) == (low, high) != bootstrap_interval(AFTER - BEFORE, seed=1)


def test_the_interval_is_near_that_of_the_normal_distribution():
    gains = AFTER - BEFORE
    half = 1.96 * gains.std() / np.sqrt(len(gains))
    assert bootstrap_interval(gains) == pytest.approx((gains.mean() - half, gains.mean() + half), abs=0.01)


def test_draws_in_blocks_are_those_of_one_block(monkeypatch):
    at_once = bootstrap_interval(AFTER - BEFORE, resamples=500)
    monkeypatch.setattr(significance, "_DRAWS_AT_ONCE", 41)
    assert bootstrap_interval(AFTER - BEFORE, resamples=500) == at_once


def test_equal_systems_differ_by_chance_and_a_constant_gain_does_not():
    assert t_test(np.zeros(5)) == wilcoxon(np.zeros(5)) == 1.0
    assert t_test(np.full(5, 0.25)) == 0.0
    assert bootstrap_interval(np.full(5, 0.25)) == (0.25, 0.25)


def test_too_few_queries_are_refused():
    with pytest.raises(UsageError, match="1 queries have both values, and 2 are needed"):
        t_test(np.array([1.0]))
    with pytest.raises(UsageError, match="0 queries have both values"):
        bootstrap_interval(np.array([]))


def test_systems_measured_on_other_queries_are_refused():
    with pytest.raises(UsageError, match="2 queries have a value of one system only, such as 'b'"):
        differences({"a": 1.0, "b": 1.0}, {"a": 1.0, "c": 1.0})


@given(st.dictionaries(st.text("abc"), st.floats(0, 1), min_size=1))
def test_holm_is_between_the_raw_and_the_bonferroni_value_and_keeps_the_order(p_values):
    adjusted = holm(p_values)
    assert list(adjusted) == list(p_values)
    least = min(p_values, key=p_values.get)
    assert adjusted[least] == min(1, len(p_values) * p_values[least])
    assert all(p_values[name] <= adjusted[name] <= 1 for name in p_values)
    by_raw = [adjusted[name] for name in sorted(p_values, key=p_values.get)]
    assert by_raw == sorted(by_raw)


def test_holm_is_as_worked_by_hand():
    expected = {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == pytest.approx(expected)


def test_an_interval_holds_the_true_difference_about_as_often_as_it_says():
    drawn, inside = np.random.default_rng(0), 0
    for seed in range(200):
        low, high = bootstrap_interval(drawn.normal(0.05, 0.2, size=60), resamples=400, seed=seed)
        inside += low <= 0.05 <= high
    assert 0.88 < inside / 200 < 0.99
