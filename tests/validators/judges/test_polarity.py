"""Dual-View's check: each view must find its own passage, in either order."""

from collections import Counter

from tests.support.models.corrupt_judge import First
from tests.support.topics.judged_topics import (
    ASKED,
    BARE,
    DUAL,
    N1,
    OBEYS,
    OFF_TOPIC,
    PLUS,
    TURNED,
    judged,
    polarity,
    promptriever,
    reasons,
    topic,
)


def test_both_views_must_find_their_own_passage(tmp_path):
    after, verdicts, calls = judged(polarity(both_answer=True), DUAL, tmp_path)
    assert after is DUAL
    assert [(v.scope, v.outcome) for v in verdicts] == [(s, "pass") for s in (ASKED.id, TURNED.id, PLUS.id, N1.id)]
    assert Counter(call.task for call in calls) == {"judges.polarity": 4, "judges.relevance": 2}


def test_a_pair_that_is_not_opposite_is_rejected(tmp_path):
    both = topic((BARE, [(PLUS, 1), (OBEYS, 1)]), (ASKED, [(PLUS, 1), (OBEYS, -1)]), (TURNED, [(PLUS, -1), (OBEYS, 1)]))
    assert reasons(judged(polarity(), both, tmp_path)[1]) == ["order_decides"]
    away = topic((ASKED, [(PLUS, 1), (OFF_TOPIC, -1)]), (TURNED, [(PLUS, -1), (OFF_TOPIC, 1)]))
    assert reasons(judged(polarity(), away, tmp_path)[1]) == ["no_passage_named"]
    wrong = topic((ASKED, [(N1, 1), (PLUS, -1)]), (TURNED, [(N1, -1), (PLUS, 1)]))
    assert reasons(judged(polarity(), wrong, tmp_path)[1]) == ["other_passage_named"]
    assert reasons(judged(polarity(), promptriever(N1), tmp_path)[1]) == ["no_dual_view"]
    assert reasons(judged(polarity(missing="skip"), promptriever(N1), tmp_path)[1], "pass") == ["no_dual_view"]


def test_a_judge_that_takes_what_is_first_never_passes_a_pair(tmp_path):
    _, verdicts, _ = judged(polarity(), DUAL, tmp_path, judge=First("first"))
    assert reasons(verdicts) == ["order_decides"]
