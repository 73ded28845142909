"""Canaries: known answers among the real questions, and a judge that fails them ends the run without changing a row."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import pytest

from datasets_out.commits.log import CommitLog
from engine.errors import JudgeUnreliableError
from engine.flow.limits import Limits, RuntimeSettings
from engine.protocols import Parts
from engine.topic import Topic
from prompts.constraints.constraint import all_hold, constraints_of
from prompts.parse import parse_reply
from prompts.passages.answer_evidence import answers, evidence_of
from prompts.recipes.catalog import RECIPES
from prompts.recipes.verifiable import Verifiable, VerifiableSettings
from prompts.rule_writer.judge import is_relevant
from prompts.rule_writer.model import RuleWriter
from tests.prompts.recipes.test_verifiable import HIPPO, ZEBRA, seed, topic_of
from tests.support.models.corrupt_judge import First, Flips, Honest, asker
from tests.support.sample_seeds import RuleAsk
from tests.support.small_parts import opened, run_parts, topics
from tests.validators.judges.test_judges import N1, N2, OFF_TOPIC, PLUS, SPARE, Script, promptriever
from validators.judges.canaries import FALSE_ALARM, CanarySettings, Tally, canary_of, surely_worse
from validators.judges.polarity import JudgePolarity, JudgePolaritySettings
from validators.judges.relevance import JudgeRelevance, JudgeRelevanceSettings
from validators.judges.scenarios import JudgeScenarios, JudgeScenariosSettings

ANIMALS = ("rhino", "hippo", "zebra", "otter", "stork", "gecko", "bison", "camel", "eland", "lemur")
PLACES = ("Kenya", "Namibia", "Botswana", "Uganda", "Malawi", "Angola", "Zambia", "Gabon", "Ghana", "Benin")


def zoo(count: int) -> list:
    """Seeds that differ: an animal, a place, a year, and what else is known of it."""
    made = []
    for number in range(count):
        animal, place = ANIMALS[number % 10], PLACES[number // 10 % 10]
        year, herds = 1800 + number % 200, 20 + number
        positive = (
            f"The {animal} of {place} is an animal of the plains. A keeper counted {herds} of them in {year}. "
            f"Lions hunt its young, for example. Rangers from {PLACES[(number + 3) % 10]} guard the herds by night. "
            f"It may sleep for {2 + number % 9} hours because the days are hot."
        )
        made.append(
            seed(
                f"s{number}", positives=(positive,), negatives=(HIPPO, ZEBRA), query=f"what is the {animal} of {place}"
            )
        )
    return made


KINDS = (
    (JudgeScenarios, JudgeScenariosSettings, {"missing": "skip"}),
    (JudgeRelevance, JudgeRelevanceSettings, {}),
    (JudgePolarity, JudgePolaritySettings, {}),
)


@pytest.fixture(scope="module")
def many() -> list[Topic]:
    return [topic_of(one) for one in zoo(120)]


@pytest.mark.parametrize("passages", [1, 2, 3])
def test_a_canary_has_one_right_answer_that_a_program_decides(many, passages: int):
    made = [canary for topic in many if (canary := canary_of(topic, "x", passages, 8000))]
    assert len(made) > 0.8 * len(many)
    for canary in made:
        constraints, evidence = constraints_of(canary.intent), evidence_of(canary.intent)
        relevant = [answers(evidence, p) and all_hold(constraints, p) for p in canary.passages]
        assert relevant == [not canary.denied, *[False] * (len(canary.passages) - 1)]
        assert constraints[0].value.lower() in canary.intent.instruction.lower()
        assert constraints[0].value.lower() not in canary.intent.query.lower()
        assert len(canary.passages) <= passages
    denied = sum(canary.denied for canary in made) / len(made)
    assert 0.3 < denied < 0.7 if passages == 1 else denied == 0


def test_a_canary_follows_from_topic_and_purpose_and_is_absent_where_nothing_tells_passages_apart(many):
    assert canary_of(many[0], "x", 3, 8000) == canary_of(many[0], "x", 3, 8000)
    assert len({canary_of(many[0], str(n), 1, 8000).intent.instruction for n in range(20)}) > 5
    assert canary_of(Topic("t", "s", "c", "r", "q"), "x", 1, 8000) is None
    assert canary_of(many[0], "x", 1, 1) is None


def heroes(topic: Topic) -> set[str]:
    """The passages that canaries over the topic take for answering its query."""
    made = (canary_of(topic, str(n), 1, 8000) for n in range(40))
    return {canary.passages[0].id for canary in made if canary}


def unproven(topic: Topic) -> Topic:
    """The topic as a hosted writer leaves it: nobody knows what answers its query."""
    return replace(topic, intents=tuple(replace(intent, attributes={}) for intent in topic.intents))


def test_a_canary_is_about_a_passage_that_surely_answers_the_query():
    written = promptriever(N1, N2, OFF_TOPIC, spare=SPARE)
    assert heroes(unproven(written)) == {PLUS.id}, "what is said of generated passages is what the judge is to find out"
    assert heroes(written) == {PLUS.id, N1.id, N2.id, SPARE.id}, "evidence proves these"
    edited = replace(PLUS, edited_from="of-another")
    assert heroes(unproven(promptriever(N1, N2, plus=edited))) == set()
    generated = replace(PLUS, role="generated_positive")
    assert heroes(unproven(promptriever(N1, N2, plus=generated))) == set()


def judged(validator, topics: list[Topic], folder: Path, judge):
    """Verdicts over all topics, with their calls."""
    verdicts, calls = [], []
    for topic in topics:
        ask = asker(Path(mkdtemp(dir=folder)), judge=judge)
        verdicts += asyncio.run(validator(topic, ask))[1]
        calls += ask.calls
    return verdicts, calls


@pytest.mark.parametrize(("kind", "settings", "options"), KINDS, ids=lambda one: getattr(one, "name", None))
def test_so_many_calls_are_canaries_and_an_honest_judge_is_right(many, tmp_path, kind, settings, options):
    share = 0.1
    validator = kind(settings(canaries={"share": share}, **options))
    verdicts, calls = judged(validator, many, tmp_path, Honest("honest"))
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
    verdicts, _ = judged(validator, many[:10], tmp_path, Flips("flips", 1.0))
    assert not any("canary" in v.reason for v in verdicts)


def test_a_canary_looks_like_a_real_question(tmp_path):
    model = Script('{"relevant": true}')
    validator = JudgeRelevance(JudgeRelevanceSettings(canaries={"share": 0.5, "threshold": 0.01}))
    judged(validator, [promptriever(N1, N2)], tmp_path, model)
    assert len({request.messages[0].content for request in model.sent}) == 1
    assert {request.task for request in model.sent} == {"judges.relevance"}
    assert all(request.params == model.sent[0].params for request in model.sent)


def test_a_canary_shows_as_many_passages_as_a_real_question(tmp_path):
    validator = JudgeScenarios(
        JudgeScenariosSettings(missing="skip", canaries={"share": 0.5, "threshold": 0.01}, votes=3)
    )
    one = promptriever(N1, N2, SPARE)
    verdicts, _ = judged(validator, [one], tmp_path, Script('{"most_relevant": "none"}'))
    shown = {v.reason.startswith("canary"): len(json.loads(v.evidence)["shown"]) for v in verdicts}
    assert shown == {False: 5, True: 5}


def test_a_topic_of_infir_has_a_canary_of_all_that_is_shown_where_no_single_word_tells_its_passage():
    """The oracle agrees with it: all the demands hold of the hero alone."""
    settings, recipe = RECIPES["infir"]
    made = []
    for one in zoo(20):
        [topic] = asyncio.run(recipe(settings.model_validate({"kind": "infir"}))(one, RuleAsk()))
        if canary := canary_of(topic, "x", len(topic.passages), 8000):
            made.append(canary)
            assert len(canary.passages) == len(topic.passages)
            assert [is_relevant(canary.intent, p) for p in canary.passages] == [
                True,
                *[False] * (len(topic.passages) - 1),
            ]
    assert max(len(constraints_of(canary.intent)) for canary in made) > 1


# --- the decision ---


def test_a_judge_as_good_as_the_threshold_is_hardly_ever_stopped():
    stopped = 0
    for number in range(400):
        rng, right = Random(number), 0
        for asked in range(1, 1500):
            right += rng.random() < 0.75
            if surely_worse(right, asked, 0.75):
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
            if surely_worse(right, asked, 0.75):
                found += 1
                break
    assert found >= 95


def test_a_long_tally_is_decided_too():
    assert surely_worse(0, 10**6, 0.75)
    assert not surely_worse(10**6, 10**6, 0.75)
    assert not surely_worse(750_000, 10**6, 0.75)


def test_a_tally_waits_for_enough_and_counts_each_judge_alone():
    tally = Tally(CanarySettings(at_least=30), "judge_x")
    for _ in range(29):
        tally.count("judge", right=False)
        tally.count("judge2", right=True)
    with pytest.raises(JudgeUnreliableError, match=r"'judge' of judge_x answered 0 of 30 canaries rightly.*: no JSON"):
        tally.count("judge", right=False, problem="no JSON")
    tally.count("judge2", right=True)


# --- a whole run ---


def parts(out: Path, judge, **canaries) -> Parts:
    validator = JudgePolarity(JudgePolaritySettings(canaries=canaries))
    return Parts(
        Verifiable(VerifiableSettings()), (validator,), {"writer": RuleWriter(), "judge": judge}, parse_reply,
        CommitLog(out), str(out),
    )  # fmt: skip


class Seeds:
    """The zoo as a corpus."""

    skipped = 0

    def __iter__(self):
        return iter(zoo(80))


def finish(out: Path, judge, **canaries):
    limits, runtime = Limits(partition_seeds=10), RuntimeSettings(window=4)
    return run_parts(Seeds(), lambda: parts(opened(out), judge, **canaries), limits, runtime)


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
