"""Canaries: known answers among the real questions, and a judge that fails them ends the run without changing a row."""

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from foil.engine.errors import JudgeUnreliableError
from foil.engine.topic import Topic
from foil.prompts.constraints.constraint import all_hold, constraints_of
from foil.prompts.passages.answer_evidence import answers, evidence_of
from foil.validators.judges.canaries import (
    FALSE_ALARM,
    CanaryMonitor,
    CanarySettings,
    is_significantly_worse,
    make_canary,
)
from foil.validators.judges.polarity import JudgePolarity, JudgePolaritySettings
from foil.validators.judges.relevance import JudgeRelevance, JudgeRelevanceSettings
from foil.validators.judges.scenarios import JudgeScenarios, JudgeScenariosSettings
from tests.support.models.corrupt_judge import First, Flips, Honest, is_relevant
from tests.support.small_parts import topics
from tests.support.topics.judged_topics import (
    N1,
    N2,
    OFF_TOPIC,
    PLUS,
    SPARE,
    Script,
    animal_seeds,
    finish,
    judged,
    promptriever,
    unproven,
)
from tests.support.topics.zoo import topic_of

KINDS = (
    (JudgeScenarios, JudgeScenariosSettings, {"missing": "skip"}),
    (JudgeRelevance, JudgeRelevanceSettings, {}),
    (JudgePolarity, JudgePolaritySettings, {}),
)


@pytest.fixture(scope="module")
def many() -> list[Topic]:
    return [topic_of(one) for one in animal_seeds(120)]


@pytest.mark.parametrize("passages", [1, 2, 3])
def test_a_canary_has_one_right_answer_that_a_program_decides(many, passages: int):
    made = [canary for topic in many if (canary := make_canary(topic, "x", passages, 8000))]
    assert len(made) > 0.8 * len(many)
    for canary in made:
        constraints, evidence = constraints_of(canary.intent), evidence_of(canary.intent)
        relevant = [answers(evidence, p) and all_hold(constraints, p) for p in canary.passages]
        assert relevant == [not canary.none_relevant, *[False] * (len(canary.passages) - 1)]
        assert constraints[0].value.lower() in canary.intent.instruction.lower()
        assert constraints[0].value.lower() not in canary.intent.query.lower()
        assert len(canary.passages) <= passages
    denied = sum(canary.none_relevant for canary in made) / len(made)
    assert 0.3 < denied < 0.7 if passages == 1 else denied == 0


def test_a_canary_follows_from_topic_and_purpose_and_is_absent_where_nothing_tells_passages_apart(many):
    assert make_canary(many[0], "x", 3, 8000) == make_canary(many[0], "x", 3, 8000)
    assert len({make_canary(many[0], str(n), 1, 8000).intent.instruction for n in range(20)}) > 5
    assert make_canary(Topic("t", "s", "c", "r", "q"), "x", 1, 8000) is None
    assert make_canary(many[0], "x", 1, 1) is None


def heroes(topic: Topic) -> set[str]:
    """The passages that canaries over the topic take for answering its query."""
    made = (make_canary(topic, str(n), 1, 8000) for n in range(40))
    return {canary.passages[0].id for canary in made if canary}


def test_a_canary_is_about_a_passage_that_surely_answers_the_query():
    written = promptriever(N1, N2, OFF_TOPIC, spare=SPARE)
    assert heroes(unproven(written)) == {PLUS.id}, "what is said of generated passages is what the judge is to find out"
    assert heroes(written) == {PLUS.id, N1.id, N2.id, SPARE.id}, "evidence proves these"
    edited = replace(PLUS, edited_from="of-another")
    assert heroes(unproven(promptriever(N1, N2, plus=edited))) == set()
    generated = replace(PLUS, role="generated_positive")
    assert heroes(unproven(promptriever(N1, N2, plus=generated))) == set()


def judged_all(validator, topics: list[Topic], folder: Path, judge):
    """Verdicts over all topics, with their calls."""
    results = [judged(validator, topic, folder, judge=judge) for topic in topics]
    return [v for _, verdicts, _ in results for v in verdicts], [call for *_, calls in results for call in calls]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "settings", "options"), KINDS, ids=lambda one: getattr(one, "name", None))
def test_so_many_calls_are_canaries_and_an_honest_judge_is_right(many, tmp_path, kind, settings, options):
    share = 0.1
    validator = kind(settings(canaries={"share": share}, **options))
    verdicts, calls = judged_all(validator, many, tmp_path, Honest("honest"))
    said = Counter(v.reason for v in verdicts if v.reason.startswith("canary"))
    assert set(said) == {"canary_right"}
    of_all = said.total() * (2 if kind is JudgePolarity else 1)
    due = share * (len(calls) - of_all)
    assert abs(said.total() - due) < 4 * math.sqrt(due)
    assert all((v.outcome, v.scope) == ("pass", "topic") for v in verdicts if v.reason.startswith("canary"))
    evidence = json.loads(next(v.evidence for v in verdicts if v.reason == "canary_right"))
    assert evidence["instruction"]


def test_without_a_share_there_is_none(many, tmp_path):
    validator = JudgeRelevance(JudgeRelevanceSettings(canaries={"share": 0}))
    verdicts, _ = judged_all(validator, many[:10], tmp_path, Flips("flips", 1.0))
    assert not any("canary" in v.reason for v in verdicts)


def test_a_canary_looks_like_a_real_question(tmp_path):
    model = Script('{"relevant": true}')
    validator = JudgeRelevance(JudgeRelevanceSettings(canaries={"share": 0.5, "threshold": 0.01}))
    judged_all(validator, [promptriever(N1, N2)], tmp_path, model)
    assert len({request.messages[0].content for request in model.sent}) == 1
    assert {request.task for request in model.sent} == {"judges.relevance"}
    assert all(request.params == model.sent[0].params for request in model.sent)


def test_a_canary_shows_as_many_passages_as_a_real_question(tmp_path):
    validator = JudgeScenarios(
        JudgeScenariosSettings(missing="skip", canaries={"share": 0.5, "threshold": 0.01}, votes=3)
    )
    one = promptriever(N1, N2, SPARE)
    verdicts, _ = judged_all(validator, [one], tmp_path, Script('{"most_relevant": "none"}'))
    shown = {v.reason.startswith("canary"): len(json.loads(v.evidence)["shown"]) for v in verdicts}
    assert shown == {False: 5, True: 5}


def test_a_canary_over_all_passages_is_right_for_its_hero_alone(many):
    """The oracle agrees with it: all the demands hold of the hero alone."""
    made = []
    for topic in many:
        if "hippo" in topic.query:
            continue  # its negatives speak of hippos too
        if canary := make_canary(topic, "x", len(topic.passages), 8000):
            made.append(canary)
            assert len(canary.passages) == len(topic.passages)
            assert [is_relevant(canary.intent, p) for p in canary.passages] == [
                True,
                *[False] * (len(topic.passages) - 1),
            ]
    assert all(constraints_of(canary.intent) for canary in made)
    assert made


def test_a_judge_as_good_as_the_threshold_is_hardly_ever_stopped():
    stopped = 0
    for number in range(400):
        rng, right = Random(number), 0
        for asked in range(1, 1500):
            right += rng.random() < 0.75
            if is_significantly_worse(right, asked, 0.75):
                stopped += 1
                break
    assert stopped <= 400 * FALSE_ALARM


@pytest.mark.parametrize(("accuracy", "within"), [(0.0, 15), (0.33, 50), (0.5, 150), (0.6, 400)])
def test_a_bad_judge_is_found_soon(accuracy: float, within: int):
    found = 0
    for number in range(100):
        rng, right = Random(number), 0
        for asked in range(1, within + 1):
            right += rng.random() < accuracy
            if is_significantly_worse(right, asked, 0.75):
                found += 1
                break
    assert found >= 95


def test_many_answers_are_decided_too():
    assert is_significantly_worse(0, 10**6, 0.75)
    assert not is_significantly_worse(10**6, 10**6, 0.75)
    assert not is_significantly_worse(750_000, 10**6, 0.75)


def test_the_monitor_waits_for_enough_and_counts_each_judge_alone():
    monitor = CanaryMonitor(CanarySettings(at_least=30), "judge_x")
    for _ in range(29):
        monitor.record_answer("judge", right=False)
        monitor.record_answer("judge2", right=True)
    with pytest.raises(JudgeUnreliableError, match=r"'judge' of judge_x answered 0 of 30 canaries rightly.*: no JSON"):
        monitor.record_answer("judge", right=False, problem="no JSON")
    monitor.record_answer("judge2", right=True)


def test_an_unreliable_judge_stops_the_run_with_code_5_and_changes_no_row(tmp_path):
    """Until the stop, and after it under a judge's watch that is lifted, the rows are those of an unwatched run."""
    stopped = finish(tmp_path / "run", First("first"), share=0.5)
    assert (stopped.exit_code, stopped.complete) == (5, False)
    assert "answered" in stopped.stopped
    assert "name a better model" in stopped.stopped
    before = topics(tmp_path / "run")
    assert 0 <= len(before) < 80
    unwatched = finish(tmp_path / "lenient", First("first"), share=0.5, threshold=0.001)
    assert (unwatched.exit_code, unwatched.complete) == (0, True)
    rows = topics(tmp_path / "lenient")
    assert before == rows[: len(before)]
    assert finish(tmp_path / "run", First("first"), share=0.5, threshold=0.001).complete
    assert topics(tmp_path / "run") == rows


def test_a_good_judge_finishes(tmp_path):
    done = finish(tmp_path / "run", Flips("flips", 0.05), share=0.5)
    assert (done.exit_code, done.complete) == (0, True)
