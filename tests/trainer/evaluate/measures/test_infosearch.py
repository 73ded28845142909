"""SICR, WISE and p-MRR against the functions that InfoSearch released, and against its equations."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery
from foil.trainer.evaluate.measures.catalog import measure_named
from foil.trainer.evaluate.measures.following.infosearch import (
    WISE,
    GoldChanges,
    GoldRanks,
    GoldScores,
    printed_sicr,
    released_sicr,
)
from foil.trainer.evaluate.measures.following.p_mrr import rank_change
from foil.trainer.evaluate.systems.model_free import Bm25
from foil.trainer.evaluate.systems.system import Bm25Settings
from tests.trainer.evaluate.measures.variants import Variant, list_with, variants_of

TRIPLE = variants_of("c", "original", "instructed", "reversed")


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def judged(positives):
    """A core query with N positives, of which `gold` is the only one under the instruction."""
    names = ["gold", *(f"positive{number}" for number in range(1, positives))]
    reverse = dict.fromkeys(names[1:], 1) or {"gold": 0}
    return {"c-original": dict.fromkeys(names, 1), "c-instructed": {"gold": 1}, "c-reversed": reverse}


def run_of(*ranks, length=120):
    return {query.id: list_with({"gold": rank}, length) for query, rank in zip(TRIPLE, ranks, strict=True)}


def value(name, ranks, positives):
    return measure_named(name).values(TRIPLE, judged(positives), run_of(*ranks))["c"]


def test_wise_is_the_papers_and_the_released_one_on_every_vector(shared_data):
    rows = rows_of(shared_data / "infosearch" / "wise_vectors.jsonl")
    assert len(rows) == 5324
    for row in rows:
        ranks = GoldRanks(row["ori"], row["ins"], row["rev"])
        assert WISE().value(ranks, row["n_positive"]) == pytest.approx(row["wise_paper"], abs=1e-12)
        assert WISE(released=True).value(ranks, row["n_positive"]) == pytest.approx(row["wise_code"], abs=1e-12)


def test_wise_of_whole_runs_is_that_of_the_vectors(shared_data):
    rows = rows_of(shared_data / "infosearch" / "wise_vectors.jsonl")
    differing = [row for row in rows if row["differs"]]
    for row in [*rows[::101], *differing]:
        ranks, positives = (row["ori"], row["ins"], row["rev"]), row["n_positive"]
        assert value("WISE", ranks, positives) == pytest.approx(row["wise_paper"], abs=1e-12)
        assert value("WISE(released)", ranks, positives) == pytest.approx(row["wise_code"], abs=1e-12)
    assert len(differing) == 23


def test_p_mrr_is_the_released_one_on_every_vector(shared_data):
    rows = rows_of(shared_data / "infosearch" / "pmrr_vectors.jsonl")
    assert len(rows) == 144
    for row in rows:
        assert rank_change(row["og_rank"], row["new_rank"]) == pytest.approx(row["pmrr"], abs=1e-12)


def test_sicr_is_the_papers_and_the_released_one_in_every_case(shared_data):
    cases = json.loads((shared_data / "infosearch" / "sicr_cases.json").read_text())
    assert len(cases) == 8
    for case in cases:
        golds = {}
        for gold in case["golds"]:
            ranks = GoldRanks(*(gold[f"{mode}_rank"] for mode in ("ori", "ins", "rev")))
            scores = GoldScores(*(gold[f"{mode}_score"] for mode in ("ori", "ins", "rev")))
            golds.setdefault(gold["qid"], []).append((ranks, scores))
        changes = {query: GoldChanges(*zip(*rows, strict=True), len(rows)) for query, rows in golds.items()}
        assert {query: released_sicr(found) for query, found in changes.items()} == case["per_query_code"], case["name"]
        if case["sicr_paper_eq1"] is not None:
            printed = [printed_sicr(found) for found in changes.values()]
            assert sum(printed) / len(printed) == case["sicr_paper_eq1"], case["name"]


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ((3, 1, 9), 1), ((4, 1, 9), 1), ((5, 1, 9), 0.9), ((3, 2, 9), 0.671751), ((5, 3, 8), 0.536525),
        ((4, 4, 9), 0.5), ((20, 1, 30), 0.782055), ((25, 1, 30), 0.01), ((2, 5, 9), -0.6), ((5, 8, 5), -0.375),
        ((5, 5, 2), 0), ((5, 3, 2), -0.6), ((4, 8, 2), -1), ((1, 1, 1), 0),
    ],
)  # fmt: skip
def test_wise_is_as_worked_by_hand(ranks, expected):
    assert value("WISE", ranks, 4) == value("WISE(K=20,N=4)", ranks, 1) == pytest.approx(expected, abs=5e-7)


def test_the_released_wise_wants_a_rank_before_n():
    assert value("WISE(released)", (4, 1, 9), 4) == pytest.approx(0.913397, abs=5e-7)


def test_wise_has_the_cells_of_the_papers_heat_map():
    cells = {
        (2, 1): 0.950,
        (3, 1): 0.929,
        (3, 2): 0.672,
        (5, 1): 0.900,
        (10, 4): 0.439,
        (20, 1): 0.782,
        (20, 19): 0.218,
    }
    for (original, instructed), expected in cells.items():
        assert value("WISE", (original, instructed, 99), 1) == pytest.approx(expected, abs=1e-3)


def test_ideal_wise_lifts_the_document_from_where_the_run_had_it():
    for rank, expected in [(1, 1), (4, 1), (5, 0.9), (20, 0.782055), (25, 0.01)]:
        assert value("ideal WISE", (rank, 90, 1), 4) == pytest.approx(expected, abs=5e-7)
    assert value("ideal WISE(released)", (4, 90, 1), 4) == pytest.approx(0.913397, abs=5e-7)


@pytest.mark.parametrize(
    ("ranks", "scores", "printed", "released"),
    [
        ((3, 1, 7), (0.6, 0.8, 0.4), 1, 1), ((3, 1, 7), (0.6, 0.55, 0.4), 0, 0), ((3, 3, 7), (0.6, 0.8, 0.4), 0, 0),
        ((1, 1, 4), (0.8, 0.85, 0.5), 0, 1), ((1, 1, 4), (0.8, 0.8, 0.5), 0, 1), ((3, 1, 3), (0.6, 0.8, 0.4), 0, 0),
    ],
)  # fmt: skip
def test_sicr_is_as_worked_by_hand_on_whole_runs(ranks, scores, printed, released):
    run = {}
    for query, rank, score in zip(TRIPLE, ranks, scores, strict=True):
        listed = list_with({"gold": rank}, 9)
        run[query.id] = {document: score + (place + rank) / 1000 for document, place in listed.items()}
    for name, expected in [("SICR", printed), ("SICR(released)", released)]:
        assert measure_named(name).values(TRIPLE, judged(3), run) == {"c": expected}


def test_a_document_that_was_not_retrieved_scores_least_and_zero_in_the_released_sicr():
    run = run_of(3, 1, 9, length=9)
    lifted = {query: {document: score + 5 for document, score in scores.items()} for query, scores in run.items()}
    below_zero = {query: {document: score - 50 for document, score in scores.items()} for query, scores in run.items()}
    for scores, released in [(lifted, 1.0), (below_zero, 0.0)]:
        scores["c-reversed"] = list_with({}, 9)
        assert measure_named("SICR").values(TRIPLE, judged(2), scores) == {"c": 1.0}
        assert measure_named("SICR(released)").values(TRIPLE, judged(2), scores) == {"c": released}


def test_each_instruction_is_compared_with_the_reverse_that_excludes_its_document():
    modes = ("original", "instructed", "reversed", "instructed", "reversed")
    queries = [Variant(f"c{place}", "c", mode) for place, mode in enumerate(modes)]
    qrels = {"c0": {"a": 1, "b": 1}, "c1": {"a": 1}, "c2": {"b": 1}, "c3": {"b": 1}, "c4": {"a": 1}}
    places = [{"a": 2, "b": 3}, {"a": 1, "b": 9}, {"a": 9, "b": 1}, {"a": 8, "b": 5}, {"a": 1, "b": 2}]
    run = {query.id: list_with(at, 9) for query, at in zip(queries, places, strict=True)}
    assert measure_named("SICR").values(queries, qrels, run) == {"c": 0.5}
    assert measure_named("WISE").values(queries, qrels, run) == {"c": pytest.approx((1 + -1) / 2)}


WORDS = st.lists(st.sampled_from(["ferry", "bread", "dawn", "noon", "oven", "not"]), min_size=1, max_size=5).map(
    " ".join
)


@given(st.lists(WORDS, min_size=2, max_size=6), WORDS, WORDS, WORDS)
def test_words_that_are_added_to_a_query_never_lower_a_score_of_bm25_so_its_sicr_is_0(texts, query, wanted, unwanted):
    documents = {name: ("", text) for name, text in zip(("gold", "positive1", "c", "d", "e", "f"), texts, strict=False)}
    queries = [
        EvaluationQuery("c-original", query, "", "c", "original"),
        EvaluationQuery("c-instructed", query, wanted, "c", "instructed"),
        EvaluationQuery("c-reversed", query, unwanted, "c", "reversed"),
    ]
    run = Bm25(Bm25Settings()).rank(Benchmark("ours", "", documents, tuple(queries), judged(2)), 10)
    assert measure_named("SICR").values(queries, judged(2), run) == {"c": 0.0}
