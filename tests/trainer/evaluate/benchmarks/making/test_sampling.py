"""Samples keep what is judged, cover what is asked, and follow from their seed; tau is that of scipy's definition."""

import doctest
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.trainer.evaluate.benchmarks.making import sampling, topics
from foil.trainer.evaluate.benchmarks.making.sampling import (
    core_queries,
    kendall_tau,
    mean_scores,
    nearest_to_centres,
    sample_documents,
    sample_queries,
)
from foil.trainer.evaluate.benchmarks.making.topics import benchmark_of
from foil.trainer.evaluate.systems.model_free import Bm25
from foil.trainer.evaluate.systems.system import Bm25Settings
from tests.support.trainer_world import topic


@pytest.fixture(scope="module")
def world():
    return benchmark_of("ours", map(topic, range(30)))


@pytest.fixture(scope="module")
def run(world):
    return Bm25(Bm25Settings()).rank(world, 20)


def test_the_examples_hold():
    assert [doctest.testmod(module).failed for module in (sampling, topics)] == [0, 0]


def test_each_group_of_queries_gives_the_one_in_its_middle(world):
    """Ten groups of three queries, told apart by one axis each; the second of each group lies in its middle."""
    vectors = np.repeat(np.eye(10) * 50, 3, axis=0) + np.tile([[-1.0], [0.1], [1.0]], (10, 10))
    small = sample_queries(world, vectors, 10, seed=0)
    assert [query.core for query in small.queries] == [f"topic-{n:03d}-0" for n in range(1, 30, 3) for _ in range(3)]
    assert small.documents == world.documents
    assert small.qrels.keys() == {query.id for query in small.queries}
    assert sample_queries(world, vectors, 30, seed=0) is world


@given(st.integers(1, 12), st.integers(0, 5), st.integers(1, 40))
def test_as_many_queries_as_clusters_come_back_the_same_by_seed(clusters, seed, count):
    vectors = np.random.default_rng(count).normal(size=(count, 4))
    found = nearest_to_centres(vectors, clusters, seed)
    assert found == nearest_to_centres(vectors, clusters, seed) == sorted(set(found))
    assert len(found) == min(clusters, count)


def test_equal_vectors_are_one_cluster():
    assert nearest_to_centres(np.ones((5, 3)), 4, seed=0) == [0]


def test_variants_are_sampled_by_the_query_of_the_first_of_them(world):
    first = replace(world.queries[0], query="the core itself")
    assert core_queries(replace(world, queries=(first, *world.queries[1:])))[first.core] == "the core itself"


def test_judged_documents_come_first_then_the_pool_by_rank_then_others(world, run):
    asked = replace(world, queries=world.queries[:2], qrels={q.id: world.qrels[q.id] for q in world.queries[:2]})
    judged = set(world.qrels[world.queries[0].id])
    assert set(sample_documents(asked, [run], 1, 100, 0).documents) == judged
    best = {name: [d for d in sorted(run[name], key=run[name].get, reverse=True) if d not in judged]
            for name in (query.id for query in asked.queries)}  # fmt: skip
    pooled = set(sample_documents(asked, [run], 12, 100, 0).documents)
    assert len(pooled) == 12
    for found in best.values():
        assert pooled > judged | set(found[:2])
    shallow = [set(sample_documents(asked, [run], 40, 10, seed).documents) for seed in (0, 0, 1)]
    assert (shallow[0] == shallow[1], shallow[0] != shallow[2], [*map(len, shallow)]) == (True, True, [40, 40, 40])


def test_candidates_stay(world, run):
    lists = {query.id: tuple(world.documents)[-4:] for query in world.queries[:1]}
    asked = replace(world, queries=world.queries[:1], qrels={}, candidates=lists)
    small = sample_documents(asked, [run], 2, 100, 0)
    assert (set(small.documents), small.candidates) == (set(lists[world.queries[0].id]), lists)


def test_tau_counts_pairs_of_systems_and_has_no_value_where_all_tie():
    full = dict(zip("abcd", (0.1, 0.2, 0.3, 0.4), strict=True))
    swapped = full | {"a": 0.2, "b": 0.1}
    assert kendall_tau(full, swapped) == pytest.approx((5 - 1) / 6)
    assert kendall_tau(full, {name: -value for name, value in full.items()}) == -1.0
    assert kendall_tau({"a": 1.0}, {"a": 1.0}) is None


def test_scores_are_means_over_judged_queries(world, run):
    perfect = {query: {d: float(g) for d, g in grades.items()} for query, grades in world.qrels.items()}
    scores = mean_scores(world, {"perfect": perfect, "bm25": run, "none": {}})
    assert (scores["perfect"], scores["none"]) == (1.0, 0.0)
    assert 0 < scores["bm25"] < 1
