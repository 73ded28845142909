"""InF-IR's check: a topic stands when every scenario names its passage."""

import json
from dataclasses import replace

import pytest

from engine.topic import Passage
from prompts.constraints.constraint import Constraint, dump_constraints
from prompts.judge_answers import LABELS
from tests.support.topics.judged_topics import (
    ANSWER,
    ASKED,
    BARE,
    DUAL,
    ELSEWHERE,
    FAR,
    INF_IR,
    N1,
    OTHER_QUERY,
    PLUS,
    POISONED,
    TURNED,
    Script,
    judged,
    reasons,
    scenarios,
    topic,
    turned_round,
)


def test_a_topic_stands_when_every_scenario_names_its_passage(tmp_path):
    after, verdicts, calls = judged(scenarios(), INF_IR, tmp_path)
    assert after is INF_IR
    assert [(v.scope, v.outcome, v.score) for v in verdicts] == [
        (i.id, "pass", 1.0) for i in (ASKED, POISONED, OTHER_QUERY)
    ]
    facts = json.loads(verdicts[0].evidence)
    assert (facts["intent"], set(facts["shown"])) == (ASKED.id, {PLUS.id, N1.id, ELSEWHERE.id, FAR.id})
    assert facts["votes"] == [["judge", PLUS.id]]
    assert [call.task for call in calls] == ["judges.scenario"] * 3


@pytest.mark.parametrize(("which", "asked"), [(ASKED, 1), (POISONED, 2), (OTHER_QUERY, 3)])
def test_one_wrong_scenario_rejects_and_the_rest_is_not_paid_for(tmp_path, which, asked: int):
    _, verdicts, calls = judged(scenarios(), turned_round(INF_IR, which), tmp_path)
    assert reasons(verdicts) == ["other_passage_named"]
    assert verdicts[-1].scope == which.id
    assert len(verdicts) == len(calls) == asked


def test_a_judge_that_names_none_rejects(tmp_path):
    empty = replace(INF_IR, intents=(BARE, replace(ASKED, attributes={**TURNED.attributes, "constraints":
                    dump_constraints([Constraint("mentions", "whales")])}), POISONED, OTHER_QUERY))  # fmt: skip
    assert reasons(judged(scenarios(), empty, tmp_path)[1]) == ["no_passage_named"]


def test_a_topic_that_lacks_a_scenario_is_rejected_or_judged_by_the_others(tmp_path):
    assert reasons(judged(scenarios(), DUAL, tmp_path)[1]) == ["no_scenario"]
    _, verdicts, calls = judged(scenarios(missing="skip"), DUAL, tmp_path)
    assert [v.scope for v in verdicts] == [ASKED.id]
    assert len(calls) == 1
    bare = topic((BARE, [(PLUS, 1), (FAR, -1)]))
    assert reasons(judged(scenarios(missing="skip"), bare, tmp_path)[1]) == ["no_scenario"]


def test_the_passage_of_which_one_is_an_edit_is_no_distractor(tmp_path):
    parent = replace(FAR, text="Coral of the Red Sea grows in shallow water, they say.", id="")
    edit = replace(ELSEWHERE, edited_from=parent.id)
    one = topic(
        (BARE, [(PLUS, 1), (N1, 1), (parent, -1), (FAR, -1)]),
        (ASKED, [(PLUS, 1), (N1, -1)]),
        (POISONED, [(PLUS, -1), (N1, 1)]),
        (OTHER_QUERY, [(PLUS, -1), (edit, 1)]),
    )
    _, verdicts, _ = judged(scenarios(distractors=5), one, tmp_path)
    assert reasons(verdicts) == []
    assert parent.id not in json.loads(verdicts[0].evidence)["shown"]
    assert FAR.id in json.loads(verdicts[0].evidence)["shown"]


def test_of_more_passages_than_labels_the_wanted_one_is_shown_and_no_vote_counts_on_the_others(tmp_path):
    crowd = [Passage(f"{ANSWER} It burns gas from bottle {n}.", "instruction_negative") for n in range(3 * len(LABELS))]
    one = topic((BARE, [(PLUS, 1), (FAR, -1)]), (ASKED, [*((p, -1) for p in crowd), (PLUS, 1)]))
    model = Script('{"most_relevant": "none"}')
    _, verdicts, _ = judged(scenarios(missing="skip"), one, tmp_path, judge=model)
    listed = json.loads(verdicts[0].evidence)["shown"]
    text = model.sent[0].messages[-1].content
    assert len(listed) == len(LABELS)
    assert PLUS.id in listed
    assert {p.id for p in one.passages if p.text in text} == set(listed)
