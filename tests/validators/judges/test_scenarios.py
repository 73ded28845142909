"""InF-IR's check: a topic stands when every scenario names its passage."""

import json
import re
from dataclasses import replace

import pytest

from foil.engine.errors import UsageError
from foil.engine.topic import Passage
from foil.prompts.constraints.constraint import Constraint, dump_constraints
from foil.prompts.judge_answers import LABELS
from foil.validators.judges.scenarios import RandomPassages
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


def test_random_passages_of_a_collection_are_shown_beside_and_follow_from_the_topic(tmp_path):
    lines = [json.dumps({"id": n, "title": f"T{n}", "text": f"Barge number {n} carries sand."}) for n in range(200)]
    (tmp_path / "corpus.jsonl").write_text("\n".join([*lines, json.dumps({"text": FAR.text})]))
    asked = []
    for name in ("t", "t", "another"):
        model = Script('{"most_relevant": "none"}')
        one = replace(INF_IR, id=name)
        judged(scenarios(passages=tmp_path / "corpus.jsonl", random=3), one, tmp_path, judge=model)
        asked.append(sorted(re.findall(r"T\d+\s+Barge number \d+", model.sent[0].messages[-1].content)))
    first, again, other = asked
    assert len(first) == len(set(first)) == 3
    assert first == again != other


def test_passages_are_drawn_over_the_whole_file_and_never_one_of_the_topic(tmp_path):
    path = tmp_path / "collection.tsv"
    path.write_text("".join(f"{n}\tpassage {n:03}\n" for n in range(50)))
    pool = RandomPassages(path)
    known = [Passage("passage 007", "distractor")]
    drawn = [passage.text for n in range(400) for passage in pool.draw(1, str(n), known)]
    assert len(drawn) > 390
    assert set(drawn) == {f"passage {n:03}" for n in range(50)} - {"passage 007"}
    digest = pool.digest
    path.write_text(path.read_text().replace("passage 031", "passage O31"))
    assert RandomPassages(path).digest != digest
    assert RandomPassages(path).draw(60, "more than there are") != []


@pytest.mark.parametrize(("name", "text"), [("a.jsonl", "{}\n"), ("a.jsonl", "no json\n"), ("missing.jsonl", None)])
def test_a_collection_that_holds_no_passage_is_refused(tmp_path, name, text):
    if text:
        (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=re.escape(name)):
        RandomPassages(tmp_path / name).draw(1, "key")


def test_the_collection_is_part_of_the_fingerprint_and_its_place_is_not(tmp_path):
    prints = []
    for name, text in (("a.txt", "one\ntwo\n"), ("b.txt", "one\ntwo\n"), ("c.txt", "one\nsix\n")):
        (tmp_path / name).write_text(text)
        prints.append(scenarios(passages=tmp_path / name).fingerprint)
    assert prints[0] == prints[1] != prints[2]
