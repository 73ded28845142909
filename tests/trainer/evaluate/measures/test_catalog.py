"""Names of measures, and the examples in the docstrings."""

import doctest
import importlib
import pkgutil

import pytest

import foil.trainer.evaluate.measures
from foil.engine.errors import UsageError
from foil.trainer.evaluate.measures.catalog import MEASURES, measure_named

MODULES = [
    module.name
    for module in pkgutil.walk_packages(foil.trainer.evaluate.measures.__path__, "foil.trainer.evaluate.measures.")
]
NAMES = (
    "nDCG@10", "nDCG", "AP", "AP@1000", "RR", "RR@10", "R@100", "P@5", "p-MRR", "p-MRR(original->instructed)", "SICR",
    "SICR(released)", "WISE(K=20)", "WISE(K=5,N=3)", "WISE(released)", "WISE(released,K=10,N=2)", "ideal WISE(K=20)",
    "ideal WISE(released)", "Robustness@10",
    "Robustness@10(instructed)", "both views",
)  # fmt: skip


def test_every_name_gives_the_measure_that_prints_as_it():
    assert [measure_named(name).name for name in NAMES] == list(NAMES)


def test_every_spelling_of_the_catalog_is_read():
    names = [spelling.replace("before", "original").replace("after", "changed") for spelling in MEASURES]
    names = [name.replace("(mode)", "(reversed)") for name in names]
    assert [measure_named(name.replace("@k", "@7")).name for name in names]


def test_wise_has_the_papers_k_where_none_is_named():
    assert measure_named("WISE") == measure_named("WISE(K=20)")
    assert measure_named("WISE(K=5, N=3)") == measure_named("WISE(K=5,N=3)")


@pytest.mark.parametrize(
    "name",
    ["ndcg@10", "nDCG@0", "nDCG@", "R", "P", "WISE()", "WISE(K=20,)", "WISE(N=3,K=5)", "WISE(K=0)", "SICR(K=20)",
     "p-MRR(original)", "p-MRR(og->changed)", "Robustness", "Robustness@10(ins)", "nDCG@10 ",
     "nDCG@9999999999", "nDCG@१", ""],
)  # fmt: skip
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    with pytest.raises(UsageError, match=r"there is no measure .*known are nDCG@k, .*both views"):
        measure_named(name)


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_in_the_docstrings_hold(module):
    assert doctest.testmod(importlib.import_module(module)).failed == 0
