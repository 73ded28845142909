"""The ranking measures against trec_eval's own reference files, and against trec_eval on random runs."""

import re

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from foil.trainer.evaluate.measures.catalog import measure_all, measure_named
from foil.trainer.evaluate.measures.judged import missing_queries, single_queries
from foil.trainer.evaluate.measures.ranks import ranked
from foil.trainer.evaluate.measures.trec_files import read_qrels, read_run

OURS = {
    r"map": "AP",
    r"recip_rank": "RR",
    r"ndcg": "nDCG",
    r"P_(\d+)": "P@{}",
    r"recall_(\d+)": "R@{}",
    r"ndcg_cut_(\d+)": "nDCG@{}",
    r"map_cut_(\d+)": "AP@{}",
}
ORACLE = {"map", "map_cut.3", "recip_rank", "ndcg_cut.4,1000", "P.3", "recall.3"}
"""Without trec_eval's `ndcg`, which never ends on a query with negative judgments alone."""
OURS_OF_ORACLE = {
    "map": "AP",
    "map_cut_3": "AP@3",
    "recip_rank": "RR",
    "ndcg_cut_1000": "nDCG",
    "ndcg_cut_4": "nDCG@4",
    "P_3": "P@3",
    "recall_3": "R@3",
}


def our_name(theirs):
    matches = ((re.fullmatch(pattern, theirs), name) for pattern, name in OURS.items())
    return next((name.format(*match.groups()) for match, name in matches if match), None)


def published(path):
    """Our name, query, value as printed: every line of a reference file that is of a measure we have."""
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    return [(our_name(name.strip()), query, value) for name, query, value in rows if our_name(name.strip())]


def assert_as_published(path, qrels, run, queries):
    rows = published(path)
    found = {}
    for name in {name for name, _, _ in rows}:
        found[name] = measure_named(name).values(single_queries(queries), qrels, run)
        found[name]["all"] = sum(found[name].values()) / len(found[name])
    assert [(name, query, f"{found[name][query]:.4f}") for name, query, _ in rows] == rows
    return len(rows)


@pytest.mark.parametrize(
    ("file", "values"), [("out.test", 11), ("out.test.a", 39), ("out.test.aq", 156), ("out.test.meas_params", 32)]
)
def test_every_published_value_comes_out_digit_for_digit(shared_data, file, values):
    folder = shared_data / "trec_eval"
    qrels, run = read_qrels(folder / "qrels.test"), read_run(folder / "results.test")
    assert assert_as_published(folder / file, qrels, run, [query for query in qrels if query in run]) == values


@pytest.mark.parametrize(("file", "most"), [("out.test.aqc", None), ("out.test.aqcM", 100)])
def test_a_query_missing_from_the_run_counts_as_trec_eval_counts_it(shared_data, file, most):
    folder = shared_data / "trec_eval"
    qrels, whole = read_qrels(folder / "qrels.test"), read_run(folder / "results.trunc")
    run = {query: {document: whole[query][document] for document in ranked(whole, query)[:most]} for query in whole}
    assert missing_queries(single_queries(qrels), qrels, run) == ["302"]
    assert assert_as_published(folder / file, qrels, run, qrels) == 156


def test_graded_judgments_come_out_digit_for_digit(shared_data):
    folder = shared_data / "trec_eval"
    graded, run = read_qrels(folder / "qrels.rel_level"), read_run(folder / "results.test")
    binary = {query: {d: int(r >= 2) for d, r in judged.items()} for query, judged in graded.items()}
    rows = published(folder / "out.test.aql")
    for name, query, value in rows:
        qrels = graded if name.startswith("nDCG") else binary
        found = measure_named(name).values(single_queries(qrels), qrels, run)
        found["all"] = sum(found.values()) / len(found)
        assert (name, f"{found[query]:.4f}") == (name, value)
    assert len(rows) == 156


docids = st.text("abcé123", min_size=1, max_size=3)
qrels_of_one = st.dictionaries(docids, st.integers(-1, 3), min_size=1, max_size=12)
run_of_one = st.dictionaries(docids, st.sampled_from([0.0, 0.5, 0.5 + 1e-9, 1.0, -2.0, 1e300]), min_size=1, max_size=12)


@given(qrels_of_one, run_of_one)
def test_every_run_scores_as_in_trec_eval(judged, scores):
    qrels, run = {"q": judged}, {"q": scores}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, ORACLE)
    ours = measure_all(map(measure_named, OURS_OF_ORACLE.values()), single_queries(qrels), qrels, run)
    expected = {OURS_OF_ORACLE[name]: value for name, value in theirs.evaluate(run)["q"].items()}
    assert {name: values["q"] for name, values in ours.items()} == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.integers(0, 9), min_size=40, max_size=40), st.sets(st.integers(0, 39), min_size=1))
def test_long_lists_with_many_ties_score_as_in_trec_eval(scores, relevant):
    qrels = {"q": {f"d{number}": 1 for number in relevant}}
    run = {"q": {f"d{number}": float(score) for number, score in enumerate(scores)}}
    [theirs] = pytrec_eval.RelevanceEvaluator(qrels, {"map", "ndcg"}).evaluate(run).values()
    ours = measure_all(map(measure_named, ("AP", "nDCG")), single_queries(qrels), qrels, run)
    assert [ours["AP"]["q"], ours["nDCG"]["q"]] == pytest.approx([theirs["map"], theirs["ndcg"]], abs=1e-9)
