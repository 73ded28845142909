"""Fleiss's kappa as statsmodels computes it (`fleiss_kappa` of 0.15.0, whose numbers stand here), and its edges."""

import numpy as np
import pytest

from foil.validators.judges.agreement import fleiss_kappa, measure_agreement


def labels(rng, subjects, raters, share):
    """Labels of raters who are right four times of five, as they were given to statsmodels."""
    truth = rng.random((subjects, 1)) < share
    said = np.where(rng.random((subjects, raters)) < 0.8, truth, ~truth)
    return np.where(said, 1, -1).tolist()


def test_it_is_what_statsmodels_says():
    rng = np.random.default_rng(7)
    assert fleiss_kappa(labels(rng, 40, 3, 0.5)) == pytest.approx(0.07928388746803082, abs=1e-12)
    assert fleiss_kappa(labels(rng, 25, 5, 0.8)) == pytest.approx(0.3862233445566779, abs=1e-12)


def test_it_is_what_statsmodels_says_of_two_raters_and_near_cohens():
    pairs = [(1, 1)] * 20 + [(-1, -1)] * 15 + [(1, -1)] * 3 + [(-1, 1)] * 2
    assert fleiss_kappa(pairs) == pytest.approx(0.746031746031746, abs=1e-12)
    assert measure_agreement("a", "b", pairs).kappa == pytest.approx(0.746031746031746, abs=0.01)


def test_where_nothing_varies_there_is_no_kappa():
    assert fleiss_kappa([(1, 1, 1)] * 4) is None
    assert fleiss_kappa([(1, 1, 1), (-1, -1, -1)]) == 1.0


@pytest.mark.parametrize("rows", [[(1, 1), (1,)], [(1,), (1,)], []])
def test_unequal_or_single_raters_are_refused(rows):
    with pytest.raises(ValueError, match="same number of raters"):
        fleiss_kappa(rows)
