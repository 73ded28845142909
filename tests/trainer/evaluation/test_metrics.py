"""The metrics against trec_eval itself, and against examples worked by hand."""

import doctest
import math

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import SeedFormatError, UsageError
from trainer.evaluation import metrics_instruction, metrics_ranking
from trainer.evaluation.metrics_instruction import both_views, rank_change
from trainer.evaluation.metrics_ranking import average_precision, evaluate_run, ndcg, order, read_qrels, reciprocal_rank

MEASURES = {"ndcg_cut.10", "recip_rank", "map"}
docids = st.text("abc123", min_size=1, max_size=3)
qrels_of_one = st.dictionaries(docids, st.integers(-1, 3), min_size=1, max_size=12)
run_of_one = st.dictionaries(docids, st.sampled_from([0.0, 0.5, 0.5 + 1e-9, 1.0, -2.0]), min_size=1, max_size=12)


def oracle(qrels, run):
    found = pytrec_eval.RelevanceEvaluator(qrels, MEASURES).evaluate(run)
    return {q: {"ndcg": m["ndcg_cut_10"], "rr": m["recip_rank"], "ap": m["map"]} for q, m in found.items()}


@pytest.mark.parametrize("module", [metrics_ranking, metrics_instruction])
def test_the_examples_in_the_docstrings_hold(module):
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(module).attempted > 1


@given(qrels_of_one, run_of_one)
def test_every_run_scores_as_in_trec_eval(judged, scores):
    ours, theirs = evaluate_run({"q": judged}, {"q": scores})["q"], oracle({"q": judged}, {"q": scores})["q"]
    assert ours == pytest.approx(theirs, abs=1e-6)


def read_run(path):
    run = {}
    for line in path.read_text().splitlines():
        query, _, docid, _, score, *_ = line.split()
        run.setdefault(query, {})[docid] = float(score)
    return run


@pytest.mark.parametrize("name", ["results.test", "results.trunc"])
def test_the_reference_vectors_of_trec_eval_score_as_in_trec_eval(shared_data, name):
    folder = shared_data / "trec_eval"
    qrels, run = read_qrels(folder / "qrels.test"), read_run(folder / name)
    ours = evaluate_run({q: qrels[q] for q in run}, run)
    for query, scores in oracle(qrels, run).items():
        assert ours[query] == pytest.approx(scores, abs=1e-6)


def test_the_published_averages_of_trec_eval_come_out(shared_data):
    folder = shared_data / "trec_eval"
    run = read_run(folder / "results.test")
    scores = evaluate_run({q: j for q, j in read_qrels(folder / "qrels.test").items() if q in run}, run).values()
    means = {name: round(float(np.mean([s[name] for s in scores])), 4) for name in ("ap", "rr", "ndcg")}
    assert means == {"ap": 0.1785, "rr": 0.4064, "ndcg": 0.3016}


def test_a_query_missing_from_the_run_scores_zero_and_counts():
    assert evaluate_run({"q1": {"a": 1}, "q2": {"a": 1}}, {"q1": {"a": 1.0}}) == {
        "q1": {"ndcg": 1.0, "rr": 1.0, "ap": 1.0},
        "q2": {"ndcg": 0.0, "rr": 0.0, "ap": 0.0},
    }


def test_ties_go_to_the_last_docid_whatever_the_order_of_insertion():
    for ids in (["a", "b", "c"], ["c", "a", "b"]):
        assert [ids[i] for i in order(np.ones(3), ids)] == ["c", "b", "a"]


def test_a_nan_score_is_refused():
    with pytest.raises(UsageError, match="score of 'b' is NaN"):
        order(np.array([1.0, math.nan]), ["a", "b"])


def test_ndcg_never_passes_one_and_empty_rankings_score_zero():
    assert ndcg(np.array([3.0, 2.0, 1.0]), np.array([1.0, 2.0, 3.0]), 10) == 1.0
    assert ndcg(np.array([]), np.array([1.0]), 10) == reciprocal_rank(np.array([])) == 0.0
    assert average_precision(np.array([1.0]), relevant=0) == 0.0


def test_a_bad_line_of_qrels_names_file_line_and_format(tmp_path):
    path = tmp_path / "qrels.txt"
    path.write_text("19335 Q0 1017759 0\n19335 Q0 1017759\n")
    with pytest.raises(SeedFormatError, match=r"qrels.txt:2: expected `query iteration docid relevance`"):
        read_qrels(path)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(4, 4, 0), (4, 1, -0.75), (1, 4, 0.75), (10, 5, -0.5), (100, 50, -0.5), (1, 1000, 0.999), (2, 1, -0.5)],
)
def test_rank_change_matches_the_worked_examples(before, after, expected):
    assert rank_change(before, after) == pytest.approx(expected)


@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_rank_change_is_bounded_and_swaps_sign_with_its_ranks(before, after):
    assert -1 < rank_change(before, after) < 1
    assert rank_change(before, after) == pytest.approx(-rank_change(after, before))


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=2))
def test_a_model_that_ignores_the_instruction_never_passes_both_views(scores):
    assert not both_views(np.array([scores, scores]))
