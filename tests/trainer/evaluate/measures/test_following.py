"""p-MRR, Robustness and both views: worked examples, mteb's numbers, and what holds for every benchmark."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.engine.errors import UsageError
from foil.trainer.evaluate.measures.catalog import measure_all, measure_named
from foil.trainer.evaluate.measures.following.both_views import both_views
from foil.trainer.evaluate.measures.following.p_mrr import rank_change
from tests.support.paths import REPO
from tests.trainer.evaluate.measures.variants import Variant, list_with, variants_of

MTEB = [json.loads(line) for line in (REPO / "tests" / "golden" / "mteb" / "measures.jsonl").read_text().splitlines()]
PAIRED = ("p-MRR", "SICR", "SICR(released)", "WISE", "WISE(released)", "ideal WISE", "Robustness@3", "both views")
RANKING = ("nDCG@3", "nDCG", "AP", "RR", "R@2", "P@2")
MODES = ("original", "instructed", "reversed", "changed")
QUERIES = [query for core in ("c1", "c2") for query in variants_of(core, *MODES)]
DOCUMENTS = [f"d{number}" for number in range(7)]

qrels_of_all = st.fixed_dictionaries(
    {query.id: st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-1, 2), max_size=7) for query in QUERIES}
)


def runs(scores):
    lists = st.dictionaries(st.sampled_from(DOCUMENTS), scores, max_size=7)
    return st.fixed_dictionaries({query.id: lists for query in QUERIES})


run_with_ties = runs(st.integers(-3, 3).map(float))
orders = st.permutations(DOCUMENTS).map(lambda order: {d: float(-place) for place, d in enumerate(order)})
run_without_ties = st.fixed_dictionaries({query.id: orders for query in QUERIES})


def measured(qrels, run, names=(*PAIRED, *RANKING)):
    return measure_all(map(measure_named, names), QUERIES, qrels, run)


@pytest.mark.parametrize("topics", [row["p_mrr"] for row in MTEB if "p_mrr" in row])
def test_p_mrr_is_that_of_mteb(topics):
    modes = {"og": "original", "changed": "changed"}
    queries = [Variant(query, query.partition("-")[0], modes[query.partition("-")[2]]) for query in topics["qrels"]]
    found = measure_named("p-MRR").values(queries, topics["qrels"], topics["run"])
    assert found == pytest.approx(topics["p_mrr_of_core"], abs=1e-12)
    assert np.mean(list(found.values())) == pytest.approx(topics["p_mrr"], abs=1e-12)
    originals = [query for query in queries if query.mode == "original"]
    for theirs, ours in [("ndcg_at_5", "nDCG@5"), ("map_at_10", "AP@10")]:
        values = measure_named(ours).values(originals, topics["qrels"], topics["run"])
        assert round(float(np.mean(list(values.values()))), 5) == topics["og"][theirs]


@pytest.mark.parametrize("topics", [row["robustness"] for row in MTEB if "robustness" in row])
def test_robustness_is_that_of_mteb(topics):
    queries = [Variant(query, query.partition("_")[0], "variant") for query in topics["qrels"]]
    found = measure_named("Robustness@10").values(queries, topics["qrels"], topics["run"])
    assert np.mean(list(found.values())) == pytest.approx(topics["robustness_at_10"], abs=1e-12)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(4, 4, 0), (4, 1, -0.75), (1, 4, 0.75), (10, 5, -0.5), (100, 50, -0.5), (1, 1000, 0.999), (2, 1, -0.5)],
)
def test_p_mrr_is_as_worked_by_hand(before, after, expected):
    queries, qrels = variants_of("c", "original", "changed"), {"c-original": {"d": 1}, "c-changed": {"d": 0}}
    run = {"c-original": list_with({"d": before}, 1000), "c-changed": list_with({"d": after}, 1000)}
    assert measure_named("p-MRR").values(queries, qrels, run) == {"c": pytest.approx(expected)}


def test_p_mrr_of_a_document_that_is_gone_counts_the_length_of_its_own_list():
    queries, qrels = variants_of("c", "original", "changed"), {"c-original": {"d": 1}, "c-changed": {"e": 1}}
    run = {"c-original": list_with({"d": 3}, 50), "c-changed": list_with({}, 100)}
    assert measure_named("p-MRR").values(queries, qrels, run)["c"] == pytest.approx(0.970297, abs=5e-7)


def test_p_mrr_is_a_mean_of_queries_not_of_documents():
    queries = [*variants_of("a", "original", "changed"), *variants_of("b", "original", "changed")]
    qrels = {"a-original": {"x": 1, "y": 1}, "a-changed": {"x": 0}, "b-original": {"x": 1}, "b-changed": {"x": 0}}
    run = {
        "a-original": list_with({"x": 1, "y": 4}, 4),
        "a-changed": list_with({"x": 4, "y": 1}, 4),
        "b-original": list_with({"x": 1}, 2),
        "b-changed": list_with({"x": 2}, 2),
    }
    assert measure_named("p-MRR").values(queries, qrels, run) == {"a": 0.0, "b": 0.5}


def test_p_mrr_steps_to_changed_queries_else_to_instructed_ones_or_between_the_modes_named():
    qrels = {f"c-{mode}": {"d": int(mode == "original")} for mode in MODES}
    run = {f"c-{mode}": list_with({"d": rank}, 9) for mode, rank in zip(MODES, (1, 2, 4, 8), strict=True)}
    for name, modes, expected in [
        ("p-MRR", MODES, 7 / 8),
        ("p-MRR", MODES[:3], 1 / 2),
        ("p-MRR(original->reversed)", MODES, 3 / 4),
    ]:
        assert measure_named(name).values(variants_of("c", *modes), qrels, run) == {"c": pytest.approx(expected)}
    assert measure_named("p-MRR(instructed->changed)").values(variants_of("c", *MODES), qrels, run) == {}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_tied_lists_in_any_order_of_insertion_do_not_move(order):
    documents = [f"d{place}" for place in order]
    qrels = {"c-original": {"d0": 1, "d1": 1}, "c-changed": {"d0": 0, "d2": 1}}
    run = {"c-original": dict.fromkeys(["d0", "d1", "d2"], 0.5), "c-changed": dict.fromkeys(documents, 0.5)}
    assert measure_named("p-MRR").values(variants_of("c", "original", "changed"), qrels, run) == {"c": 0.0}


def test_robustness_is_the_worst_variant_of_each_core():
    queries = [*variants_of("a", "original", "instructed", "reversed"), *variants_of("b", "variant")]
    qrels = {query.id: {"d": 1} for query in queries}
    run = {query.id: list_with({"d": rank}, 9) for query, rank in zip(queries, (1, 3, 2, 1), strict=True)}
    assert measure_named("Robustness@10").values(queries, qrels, run) == {"a": 0.5, "b": 1.0}
    del run["a-original"]
    assert measure_named("Robustness@10").values(queries, qrels, run) == {"a": 0.0, "b": 1.0}


def test_robustness_of_a_mode_is_the_worst_variant_of_that_mode_alone():
    """One core with two instructions and their reverses, as InfoSearch has them; nDCG of rank r is 1 / log2(r + 1)."""
    modes = ("original", "instructed", "instructed", "reversed", "reversed")
    queries = [Variant(f"q{number}", "c", mode) for number, mode in enumerate(modes)]
    qrels = {query.id: {"d": 1} for query in queries}
    run = {query.id: list_with({"d": rank}, 20) for query, rank in zip(queries, (15, 1, 3, 2, 7), strict=True)}
    for mode, expected in [("original", 1 / 4), ("instructed", 1 / 2), ("reversed", 1 / 3)]:
        assert measure_named(f"Robustness@20({mode})").values(queries, qrels, run) == {"c": pytest.approx(expected)}
    assert measure_named("Robustness@20").values(queries, qrels, run) == {"c": pytest.approx(1 / 4)}
    assert measure_named("Robustness@20(changed)").values(queries, qrels, run) == {}


def test_both_views_counts_pairs_of_documents_that_two_opposite_instructions_rank_their_way():
    queries = variants_of("c", "original", "instructed", "reversed")
    qrels = {"c-original": {"x": 1, "y": 1, "z": 1}, "c-instructed": {"x": 1}, "c-reversed": {"y": 1, "z": 1}}
    run = {
        "c-original": {"x": 1.0, "y": 1.0, "z": 1.0},
        "c-instructed": {"x": 0.9, "y": 0.5, "z": 0.5},
        "c-reversed": {"x": 0.6, "y": 0.7, "z": 0.6},
    }
    assert measure_named("both views").values(queries, qrels, run) == {"c": 0.5}
    assert measure_named("both views").values(queries[:2], qrels, run) == {}


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=2))
def test_a_model_that_ignores_the_instruction_never_passes_both_views(scores):
    assert not both_views(np.array([scores, scores]))


@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_a_rank_change_is_bounded_and_swaps_sign_with_its_ranks(before, after):
    assert -1 < rank_change(before, after) < 1
    assert rank_change(before, after) == pytest.approx(-rank_change(after, before))


@given(qrels_of_all, run_with_ties)
def test_every_value_is_in_bounds(qrels, run):
    found = measured(qrels, run)
    assert all(-1 <= value <= 1 for values in found.values() for value in values.values())
    assert all(value >= 0 for name in RANKING for value in found[name].values())
    assert found["WISE(K=20)"].keys() == found["ideal WISE(K=20)"].keys()
    for core, value in found["WISE(K=20)"].items():
        assert value <= found["ideal WISE(K=20)"][core] or not all(run[f"{core}-{mode}"] for mode in MODES)


@given(qrels_of_all, run_with_ties, st.sampled_from([math.exp, math.atan, lambda score: 3 * score - 8]))
def test_scores_that_rise_in_the_same_order_change_nothing(qrels, run, rising):
    risen = {query: {document: rising(score) for document, score in scores.items()} for query, scores in run.items()}
    names = [name for name in (*PAIRED, *RANKING) if name != "SICR(released)"]
    assert measured(qrels, risen, names) == measured(qrels, run, names)


@given(qrels_of_all, run_without_ties, st.permutations(DOCUMENTS))
def test_other_names_of_documents_change_nothing_without_ties(qrels, run, names):
    renamed = dict(zip(DOCUMENTS, names, strict=True))

    def rename(rows):
        return {query: {renamed[document]: value for document, value in row.items()} for query, row in rows.items()}

    found, expected = measured(rename(qrels), rename(run)), measured(qrels, run)
    assert found.keys() == expected.keys()
    assert all(found[name] == pytest.approx(expected[name], abs=1e-12) for name in found)


@given(qrels_of_all, st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-3, 3).map(float), min_size=1))
def test_a_system_that_ignores_instructions_follows_none(qrels, scores):
    found = measured(qrels, {query.id: scores for query in QUERIES}, PAIRED)
    for name in ("p-MRR", "SICR", "SICR(released)", "WISE(K=20)", "WISE(released)", "both views"):
        assert set(found[name].values()) <= {0.0}


@given(qrels_of_all, run_with_ties)
def test_p_mrr_swaps_sign_with_its_runs(qrels, run):
    step = measure_named("p-MRR(original->changed)")
    other = {"original": "changed", "changed": "original"}
    turned = {query.id: run[f"{query.core}-{other.get(query.mode, query.mode)}"] for query in QUERIES}
    there, back = (step.values(QUERIES, qrels, scores) for scores in (run, turned))
    assert there == pytest.approx({core: -value for core, value in back.items()}, abs=1e-12)


@pytest.mark.parametrize("name", PAIRED)
def test_a_missing_query_counts_zero_and_a_nan_is_refused(name):
    qrels = {"c-original": {"x": 1, "y": 1}, "c-instructed": {"x": 1}, "c-reversed": {"y": 1}}
    queries, run = variants_of("c", "original", "instructed", "reversed"), {q: {"x": 1.0, "y": 2.0} for q in qrels}
    lacking = {query: scores for query, scores in run.items() if query != "c-instructed"}
    assert measure_named(name).values(queries, qrels, lacking) == {"c": 0.0}
    with pytest.raises(UsageError, match="the score of 'y' is NaN"):
        measure_named(name).values(queries, qrels, {query: {"x": 1.0, "y": math.nan} for query in qrels})


@pytest.mark.parametrize("name", PAIRED)
def test_without_a_pair_there_is_no_value(name):
    alone = variants_of("c", "original")
    assert measure_named(name).values([], {}, {}) == measure_named(name).values(alone, {"c-original": {}}, {}) == {}
    if not name.startswith("Robustness"):
        assert measure_named(name).values(alone, {"c-original": {"x": 1}}, {"c-original": {"x": 1.0}}) == {}
