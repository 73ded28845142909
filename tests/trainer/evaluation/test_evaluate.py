"""The evaluation against examples worked by hand."""

import doctest
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.datasets_out.training.training_view import TopicGroup
from foil.engine.errors import UsageError
from foil.trainer.evaluation import blend
from foil.trainer.evaluation.blend import BlendPoint, choose_share, draw_curve
from foil.trainer.evaluation.evaluate import compare, compare_corpora, means, ranks_of, read_hits
from foil.trainer.evaluation.topic_measures import MEASURES, TopicScores, opposite_views, rank_changes
from foil.trainer.measures.judged import single_queries
from foil.trainer.measures.ranking.ndcg import NDCG
from foil.trainer.measures.ranks import order
from foil.trainer.measures.trec_files import read_qrels
from foil.trainer.settings import RetentionSettings


def group(relevance, intents=(("", "q"), ("I", "q"), ("I'", "q"), ("I", "other"))):
    relevance = np.array(relevance, dtype=np.int8)
    passages = tuple(("", f"p{number}") for number in range(relevance.shape[1]))
    keys = tuple((number,) for number in range(relevance.shape[1]))
    return TopicGroup("t", "s", intents[: len(relevance)], passages, keys, relevance)


VERIFIABLE = group([[1, 1, -1], [1, -1, 0], [-1, 1, 0], [-1, 0, 1]])


def test_opposite_views_are_two_instructions_of_one_query_that_judge_two_passages_the_other_way():
    assert opposite_views(VERIFIABLE) == [((1, 2), (0, 1))]
    assert opposite_views(group([[1, 1], [1, -1], [1, -1]])) == []
    assert opposite_views(group([[1, -1], [-1, 1]])) == []


def test_a_rank_change_is_asked_of_what_was_relevant_to_the_bare_query():
    ranks = np.array([[1, 2, 3], [1, 4, 2], [4, 1, 2], [1, 2, 3]])
    assert rank_changes(VERIFIABLE, ranks) == {-1: [0.5, 0.75], 1: [0.0, -0.5]}


def test_ranks_count_what_is_ahead_and_give_ties_to_the_first_column():
    matrix = np.array([[0.5, 0.9, 0.5, 0.1], [0.0, 0.0, 0.0, 0.0]], dtype=np.float32)
    assert ranks_of(matrix, np.array([2, 0, 3])).tolist() == [[3, 2, 4], [3, 1, 4]]


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5]), min_size=1, max_size=12), st.data())
def test_ranks_are_those_of_the_full_order(scores, data):
    own = np.array(data.draw(st.lists(st.integers(0, len(scores) - 1), min_size=1, max_size=4)))
    ids = [f"{len(scores) - column:03d}" for column in range(len(scores))]
    position = np.argsort(order(np.array(scores), ids))
    assert ranks_of(np.array([scores], dtype=np.float32), own)[0].tolist() == (position[own] + 1).tolist()


def test_each_corpus_is_compared_on_its_own_topics_and_what_is_no_topic_belongs_to_none():
    topics = [replace(VERIFIABLE, topic_id=f"t{n}", corpus="code" if n < 2 else "web") for n in range(5)]
    names = {"both_views": [f"t{n}" for n in range(5)], "plain_ndcg": [f"t{n}/0" for n in range(5)],
             "rerank_ndcg": ["t0 of another collection"]}  # fmt: skip
    base = {measure: dict.fromkeys(keys, 0.0) for measure, keys in names.items()}
    trained = {measure: {key: n / 10 for n, key in enumerate(keys)} for measure, keys in names.items()}
    found = compare_corpora(topics, base, trained, resamples=100)
    told = {name: [(row.measure, row.queries, round(row.trained)) for row in rows] for name, rows in found.items()}
    assert told == {
        "code": [("both_views", 2, 5), ("plain_ndcg", 2, 5)],
        "web": [("both_views", 3, 30), ("plain_ndcg", 3, 30)],
    }  # fmt: skip


def test_a_topic_scores_as_worked_by_hand():
    scores = np.array([[0.9, 0.8, 0.1], [0.9, 0.2, 0.1], [0.6, 0.5, 0.1], [0.1, 0.2, 0.9]], dtype=np.float32)
    ranks = np.array([[1, 2, 9], [1, 4, 9], [2, 3, 9], [9, 8, 1]])
    topic = TopicScores(VERIFIABLE, scores, ranks, 10)
    found = {measure: dict(values_of(topic)) for measure, values_of in MEASURES.items()}
    assert found["both_views"] == {"t": 0.0}
    assert found["should_fall"]["t"] == pytest.approx((0.5 + 0.5) / 2)
    assert found["should_stay"]["t"] == pytest.approx((0.0 + 1 / 3) / 2)
    assert found["net"]["t"] == pytest.approx(0.5 - 1 / 6)
    assert found["plain_ndcg"] == {"t/0": 1.0}
    assert found["plain_rr"] == {"t/0": 1.0}
    assert found["instructed_ndcg"] == pytest.approx({"t/1": 1.0, "t/2": 0.5, "t/3": 1.0})


def test_a_comparison_is_paired_and_in_points():
    base = {"net": {"a": 0.1, "b": 0.9}, "both_views": {}}
    trained = {"net": {"b": 1.0, "a": 0.2}, "both_views": {}}
    (row,) = compare(base, trained, resamples=200)
    assert (row.measure, row.queries) == ("net", 2)
    assert (row.base, row.trained, row.difference) == pytest.approx((50, 60, 10))
    assert (row.low, row.high) == pytest.approx((10, 10))
    assert means(trained) == pytest.approx({"net": 60})


def test_an_interval_holds_the_true_difference_about_as_often_as_it_says():
    draw_curve = np.random.default_rng(0)
    inside = 0
    for seed in range(200):
        gains = draw_curve.normal(0.05, 0.2, size=60)
        base = {str(query): 0.0 for query in range(60)}
        rows = compare({"m": base}, {"m": dict(zip(base, gains, strict=True))}, resamples=400, seed=seed)
        inside += rows[0].low <= 5 <= rows[0].high
    assert 0.88 < inside / 200 < 0.99


def test_candidate_lists_read_as_queries_and_texts(tmp_path):
    path = tmp_path / "hits.json"
    hits = [{"qid": 7, "docid": "d1", "content": "one"}, {"qid": 7, "docid": "d2", "content": "two"}]
    path.write_text(json.dumps([{"query": "what", "hits": hits}]))
    assert read_hits(path) == ({"7": "what"}, {"7": {"d1": "one", "d2": "two"}})
    path.write_text(json.dumps([{"query": "what", "hits": [*hits, {"qid": 8, "docid": "d3", "content": "x"}]}]))
    with pytest.raises(UsageError, match=r"hits.json, list 0: expected .* with one qid"):
        read_hits(path)
    path.write_text(json.dumps([{"query": "what", "hits": [{"qid": 7, "docid": "d1"}]}]))
    with pytest.raises(UsageError, match=r"list 0: expected .*KeyError\('content'\)"):
        read_hits(path)


def test_bm25_scores_of_dl19_have_their_published_ndcg(shared_data):
    folder = shared_data / "msmarco"
    lists = json.loads((folder / "bm25_top100" / "retrieve_results_dl19.json").read_text())
    run = {str(one["hits"][0]["qid"]): {hit["docid"]: hit["score"] for hit in one["hits"]} for one in lists}
    qrels = read_qrels(folder / "qrels" / "qrels.dl19-passage.txt")
    found = NDCG(10).values(single_queries(qrels), qrels, run)
    assert len(found) == 43
    assert np.mean(list(found.values())) == pytest.approx(0.5058, abs=5e-4)


def test_the_example_of_the_choice_holds_and_the_base_is_kept_where_nothing_else_may_be():
    assert doctest.testmod(blend).failed == 0
    line = [(0.0, 10.0, 50.0), (0.5, 40.0, 48.0), (1.0, 60.0, 45.0)]
    points = [BlendPoint(share, {"both_views": both, "plain_ndcg": plain}) for share, both, plain in line]
    assert choose_share(points, RetentionSettings(plain_loss_allowed=1)) == 0
    assert choose_share(points, RetentionSettings(plain_loss_allowed=9)) == 1


def test_the_curve_is_drawn_as_png(tmp_path):
    line = [(0.0, 10.0, 50.0), (1.0, 60.0, 45.0)]
    draw_curve([BlendPoint(s, {"both_views": b, "plain_ndcg": p}) for s, b, p in line], 1.0, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes()[:4] == b"\x89PNG"
