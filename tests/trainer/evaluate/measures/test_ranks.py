"""Ranks, and the ranking measures worked by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.engine.errors import UsageError
from foil.trainer.evaluate.measures.catalog import measure_named
from foil.trainer.evaluate.measures.judged import missing_queries, single_queries
from foil.trainer.evaluate.measures.ranks import order, ranked, ranks_of, scores_of

RUN = {"q": {"a": 1.0, "b": 1.0, "c": 1.0}}


def value(name, judged, scores):
    qrels = {"q": judged}
    return measure_named(name).values(single_queries(qrels), qrels, {"q": scores})["q"]


def test_ties_go_to_the_last_docid_whatever_the_order_of_insertion():
    for ids in (["a", "b", "c"], ["c", "a", "b"]):
        assert [ids[i] for i in order(np.ones(3), ids)] == ["c", "b", "a"]
        assert ranks_of({"q": dict.fromkeys(ids, 1.0)}, "q", ["a", "b", "c"]).tolist() == [3, 2, 1]


def test_a_document_that_was_not_retrieved_ranks_after_all_and_scores_least():
    assert (
        ranks_of(RUN, "q", ["z"]).tolist()
        == ranks_of({"q": {"a": -math.inf, "b": 0, "c": 1}}, "q", ["z"]).tolist()
        == [4]
    )
    assert scores_of(RUN, "q", ["a", "z"]).tolist() == [1.0, -math.inf]
    assert ranks_of({}, "q", ["z"]).tolist() == [1]


@given(
    st.dictionaries(st.text("abc", min_size=1), st.sampled_from([0.0, 1e-9, 1.0, 1.0 + 1e-9, -math.inf]), min_size=1)
)
def test_each_rank_is_the_place_in_the_full_order(scores):
    places = {document: place for place, document in enumerate(ranked({"q": scores}, "q"), start=1)}
    assert ranks_of({"q": scores}, "q", list(scores)).tolist() == [places[document] for document in scores]


@pytest.mark.parametrize("name", ["nDCG@10", "AP", "RR", "R@5", "P@5"])
def test_a_nan_score_is_refused(name):
    with pytest.raises(UsageError, match="query 'q': the score of 'b' is NaN"):
        value(name, {"a": 1}, {"a": 1.0, "b": math.nan})


def test_a_nan_score_has_no_order():
    with pytest.raises(UsageError, match="score of 'b' is NaN"):
        order(np.array([1.0, math.nan]), ["a", "b"])


def test_the_examples_worked_by_hand():
    five = {"a": 5.0, "b": 4.0, "c": 3.0, "d": 2.0, "e": 1.0}
    assert value("nDCG@5", {"b": 2, "c": 1}, five) == pytest.approx(0.669672, abs=5e-7)
    assert value("RR", {"a": 1}, RUN["q"]) == pytest.approx(1 / 3)
    assert value("nDCG@5", {"a": 1}, RUN["q"]) == 0.5
    assert value("nDCG", {"a": -1, "b": 2}, {"a": 2.0, "b": 1.0}) == pytest.approx(0.630930, abs=5e-7)
    assert value("AP", {"a": -1, "b": 2}, {"a": 2.0, "b": 1.0}) == 0.5


def test_average_precision_and_recall_count_all_relevant_documents_also_under_a_cutoff():
    judged = {"a": 1, "b": 1, "z": 1}
    assert value("AP@1", judged, {"a": 2.0, "b": 1.0}) == pytest.approx(1 / 3)
    assert value("R@1", judged, {"a": 2.0, "b": 1.0}) == pytest.approx(1 / 3)
    assert value("P@10", judged, {"a": 2.0, "b": 1.0}) == pytest.approx(0.2)


def test_a_query_missing_from_the_run_counts_zero_and_is_named_and_one_without_judgments_has_no_value():
    qrels, run = {"q1": {"a": 1}, "q2": {"a": 1}, "q3": {}}, {"q1": {"a": 1.0}, "q4": {"a": 1.0}}
    for name in ("nDCG@10", "AP", "RR", "R@5", "nDCG"):
        assert measure_named(name).values(single_queries({**qrels, "q4": {}}), qrels, run) == {"q1": 1.0, "q2": 0.0}
    assert missing_queries(single_queries(qrels), qrels, run) == ["q2"]


def test_a_query_without_relevant_documents_is_zero():
    assert [value(name, {"a": 0}, {"a": 1.0}) for name in ("nDCG@10", "AP", "RR", "R@5", "P@5")] == [0.0] * 5
