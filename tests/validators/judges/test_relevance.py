"""Promptriever's check: what it drops, replaces and rejects, and whose the labels are then."""

import json
from dataclasses import replace

from foil.engine.topic import Passage
from tests.support.topics.judged_topics import (
    ANSWER,
    ASKED,
    BARE,
    FAR,
    INF_IR,
    N1,
    N2,
    N3,
    N4,
    OBEYS,
    OFF_TOPIC,
    PLUS,
    SPARE,
    judged,
    promptriever,
    reasons,
    relevance,
    sound,
    topic,
    turned_round,
)


def test_labels_that_the_judge_confirms_become_its_own_unless_a_rule_or_the_corpus_made_them(tmp_path):
    after, verdicts, calls = judged(relevance(), promptriever(N1, N2), tmp_path)
    assert {v.outcome for v in verdicts} == {"pass"}
    assert sound(after)
    confirmed = [(j.judge, j.votes, j.relevance) for j in after.judgments if j.judge != "seed"]
    assert set(confirmed) == {("judge:honest", (1,), 1), ("judge:honest", (-1,), -1)}
    assert len(calls) == len(verdicts) == len(confirmed) == 5, "what the corpus says of the query is not asked"
    exact, _, _ = judged(relevance(), promptriever(N1, N2, who="rule"), tmp_path)
    assert {j.judge for j in exact.judgments} == {"rule", "seed"}
    assert all(v.relevance == j.relevance for v, j in zip(exact.judgments, after.judgments, strict=True))


def test_a_negative_that_obeys_and_one_off_topic_are_dropped(tmp_path):
    after, verdicts, _ = judged(relevance(), promptriever(OBEYS, N1, OFF_TOPIC), tmp_path)
    assert [(v.scope, v.reason) for v in verdicts if v.outcome == "edit"] == [
        (OBEYS.id, "negative_is_relevant"), (OFF_TOPIC.id, "negative_off_topic"),
    ]  # fmt: skip
    assert reasons(verdicts) == []
    assert {p.id for p in after.passages} == {PLUS.id, N1.id, FAR.id} == {j.passage_id for j in after.judgments}
    assert sound(after)
    [dropped] = [v for v in verdicts if v.reason == "negative_is_relevant"]
    assert json.loads(dropped.evidence)["text"] == OBEYS.text


def test_at_most_so_many_negatives_are_kept_and_the_rest_is_not_paid_for(tmp_path):
    after, verdicts, calls = judged(relevance(keep_negatives=2), promptriever(OBEYS, N1, N2, N3, N4), tmp_path)
    assert [p.id for p in after.passages if p.role == "instruction_negative"] == [N1.id, N2.id]
    assert reasons(verdicts, "edit") == ["negative_is_relevant", "surplus_negative", "surplus_negative"]
    assert len(calls) == 1 + 1 + 2 * 2


def test_a_topic_without_a_negative_that_stands_is_rejected(tmp_path):
    _, verdicts, _ = judged(relevance(), promptriever(OBEYS, OFF_TOPIC), tmp_path)
    assert reasons(verdicts) == ["no_negative_left"]


def test_a_topic_of_which_the_corpus_says_all_has_nothing_to_ask(tmp_path):
    given_by_the_corpus = topic((BARE, [(PLUS, 1), (FAR, -1)]))
    after, verdicts, calls = judged(relevance(), given_by_the_corpus, tmp_path)
    assert (after, [v.outcome for v in verdicts], calls) == (given_by_the_corpus, ["pass"], [])


LOST = Passage(f"{ANSWER} It was built long ago.", "seed_positive", source_id="d2")


def test_a_generated_positive_takes_the_place_of_a_seed_positive_that_no_longer_fits(tmp_path):
    after, verdicts, _ = judged(relevance(), promptriever(N1, plus=LOST, spare=SPARE), tmp_path)
    labels = {(j.intent_id, j.passage_id): j for j in after.judgments}
    turned = labels[ASKED.id, LOST.id]
    assert (turned.relevance, turned.judge, turned.votes) == (-1, "judge:honest", (-1,))
    assert labels[ASKED.id, SPARE.id].relevance == labels[BARE.id, LOST.id].relevance == 1
    assert [(v.scope, v.reason) for v in verdicts if v.outcome != "pass"] == [(LOST.id, "positive_lost")]
    assert sound(after)


def test_without_one_the_topic_is_rejected(tmp_path):
    _, verdicts, calls = judged(relevance(), promptriever(N1, plus=LOST), tmp_path)
    assert reasons(verdicts) == ["positive_lost"]
    assert len(calls) == 1
    unfit = replace(SPARE, text=f"{ANSWER} It is new.", id="")
    _, verdicts, _ = judged(relevance(), promptriever(N1, plus=LOST, spare=unfit), tmp_path)
    assert reasons(verdicts, "edit", "reject") == ["positive_lost", "positive_not_relevant", "positive_lost"]


def test_a_rules_label_is_never_turned_round(tmp_path):
    """A program has decided it: the judge that contradicts it is wrong, or the topic is."""
    one = promptriever(N1, plus=LOST, spare=SPARE, who="rule")
    after, verdicts, calls = judged(relevance(), one, tmp_path)
    assert (reasons(verdicts), len(calls)) == (["label_disputed"], 1)
    assert after.judgments == one.judgments


def test_a_seed_positive_that_is_relevant_where_it_must_not_be_rejects(tmp_path):
    _, verdicts, _ = judged(relevance(), turned_round(INF_IR, ASKED), tmp_path)
    assert reasons(verdicts) == ["label_disputed"]
