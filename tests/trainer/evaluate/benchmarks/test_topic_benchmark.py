"""A run's own topics as a benchmark: its queries, judgments and measures against examples worked by hand."""

from dataclasses import replace

import numpy as np
import pytest

from foil.datasets_out.training.training_view import TopicGroup
from foil.engine.errors import TrainingDivergedError
from foil.trainer.evaluate.comparison.scores import score
from foil.trainer.evaluate.comparison.topics import benchmark_of_topics
from foil.trainer.evaluate.comparison.weights import EncoderSystem
from foil.trainer.evaluate.measures.catalog import measure_all, measure_named
from foil.trainer.settings import TOPIC_MEASURES
from tests.support.training import TEMPLATE, groups, load

INTENTS = (("", "q"), ("I", "q"), ("I'", "q"), ("I", "other"))


def group(relevance, intents=INTENTS, passages="xyz"):
    relevance = np.array(relevance, dtype=np.int8)
    texts = tuple(("", text) for text in passages[: relevance.shape[1]])
    return TopicGroup("t", "s", intents[: len(relevance)], texts, ((0,),) * len(texts), relevance, corpus="web")


VERIFIABLE = group([[1, 1, -1], [1, -1, 0], [-1, 1, 0], [-1, 0, 1]])


def values_of(benchmark, scores, others=()):
    """The values of a run; `scores` are [queries, documents], the documents in the order of their texts."""
    names = sorted(benchmark.documents, key=lambda name: benchmark.documents[name][1])
    run = {
        query.id: dict(zip(names, row, strict=True))
        | {f"9{place}": score for place, score in enumerate(others[number] if others else ())}
        for number, (query, row) in enumerate(zip(benchmark.queries, scores, strict=True))
    }
    return measure_all(map(measure_named, benchmark.measures), benchmark.queries, benchmark.qrels, run)


def test_intents_are_queries_and_what_nobody_judged_is_not_in_the_judgments():
    benchmark = benchmark_of_topics("mine", [VERIFIABLE], TEMPLATE)
    assert [(q.id, q.core, q.mode, q.instruction, q.domain) for q in benchmark.queries] == [
        ("t/0", "t", "original", "", "web"), ("t/1", "t", "instructed", "I", "web"),
        ("t/2", "t", "instructed", "I'", "web"), ("t/3", "t#1", "instructed", "I", "web"),
    ]  # fmt: skip
    x, y, z = sorted(benchmark.documents, key=lambda name: benchmark.documents[name][1])
    assert benchmark.qrels == {
        "t/0": {x: 1, y: 1, z: 0}, "t/1": {x: 1, y: 0}, "t/2": {x: 0, y: 1}, "t/3": {x: 0, z: 1}
    }  # fmt: skip
    assert benchmark.measures == TOPIC_MEASURES


def test_a_topic_scores_as_worked_by_hand():
    benchmark = benchmark_of_topics("mine", [VERIFIABLE], TEMPLATE)
    scores = [[0.9, 0.8, 0.1], [0.9, 0.2, 0.1], [0.6, 0.5, 0.1], [0.1, 0.2, 0.9]]
    others = [[0.0], [0.4, 0.3], [0.55, 0.7], [0.0]]  # ranks of x and y: 1 2, 1 4, 2 4
    found = values_of(benchmark, scores, others)
    assert found["both_views"] == {"t": 0.0}
    assert found["should_fall"] == pytest.approx({"t": (0.5 + 0.5) / 2})
    assert found["should_stay"] == pytest.approx({"t": (0.0 - 0.0 + 0.5) / 2})
    assert found["net"] == pytest.approx({"t": 0.5 - 0.25})
    assert found["plain_ndcg"] == found["plain_rr"] == {"t/0": 1.0}
    assert found["instructed_ndcg"] == pytest.approx({"t/1": 1.0, "t/2": 1 / np.log2(5), "t/3": 1.0})


def test_opposite_views_need_two_instructions_that_judge_two_passages_the_other_way():
    wins = [[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]]
    opposite, alike, bare = [[1, 1], [1, -1], [-1, 1]], [[1, 1], [1, -1], [1, -1]], [[1, -1], [-1, 1]]
    shown = [
        values_of(benchmark_of_topics("mine", [group(each)], TEMPLATE), wins[: len(each)])["both_views"]
        for each in (opposite, alike, bare, [[1, 1], [1, 0], [-1, 1]])
    ]
    assert shown == [{"t": 1.0}, {}, {}, {}]


def test_an_intent_that_nothing_answers_has_no_ndcg_and_still_makes_passages_fall():
    found = values_of(benchmark_of_topics("mine", [group([[1, 1], [-1, -1]])], TEMPLATE), [[2.0, 1.0], [1.0, 2.0]])
    assert found["instructed_ndcg"] == {}
    assert found["should_fall"] == {"t": (0.5 - 0.5) / 2}


def test_equal_texts_are_one_document_and_relevant_where_any_is():
    benchmark = benchmark_of_topics("mine", [group([[-1, 1]], passages=["A  text", "a text"])], TEMPLATE)
    assert [*benchmark.qrels["t/0"].values()] == [1]
    assert len(benchmark.documents) == 1


def test_other_words_in_place_of_instructions_change_no_core_or_mode():
    pairs = [[("", "q")] * 4]
    benchmark = benchmark_of_topics("mine", [VERIFIABLE], TEMPLATE, pairs=pairs)
    assert {query.instruction for query in benchmark.queries} == {""}
    given = benchmark_of_topics("mine", [VERIFIABLE], TEMPLATE)
    assert [replace(query, instruction="") for query in given.queries] == list(benchmark.queries)


def test_candidates_are_the_passages_of_a_topic_and_of_the_next_four():
    topics = list(groups(7))
    benchmark = benchmark_of_topics("mine", topics, TEMPLATE, candidates=True)
    texts = {benchmark.documents[name][1] for name in benchmark.candidates["topic-005/1"]}
    assert texts == {text for number in (5, 6, 0, 1, 2) for _, text in topics[number].passages}
    assert not benchmark_of_topics("mine", topics, TEMPLATE).candidates


def test_every_document_is_ranked_whatever_the_depth_and_no_number_is_none(bert):
    benchmark, encoder = benchmark_of_topics("mine", list(groups(4)), TEMPLATE), load(bert)
    run = EncoderSystem("model", encoder).rank(benchmark, 1)
    assert {len(run[query.id]) for query in benchmark.queries} == {len(benchmark.documents)}
    [scores] = score([benchmark], [EncoderSystem("model", encoder)], (), 1)
    assert all(len(scores.values["model"][measure]) == 4 for measure in ("both_views", "net", "plain_ndcg"))
    encoder.encode = lambda passages, pairs: load(bert).encode(passages, pairs) * float("nan")
    with pytest.raises(TrainingDivergedError, match="not finite numbers"):
        EncoderSystem("model", encoder).rank(benchmark, 1)
