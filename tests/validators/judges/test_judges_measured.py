"""Judges measured against truth, in small: votes, shuffle, swap and fences do what benchmarks/judges.py says."""

import asyncio
import runpy
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from foil.validators.judges.agreement import measure_agreement
from foil.validators.judges.panel import JudgePanel
from foil.validators.judges.polarity import JudgePolarity, JudgePolaritySettings
from foil.validators.judges.relevance import JudgeRelevance, JudgeRelevanceSettings
from foil.validators.judges.scenarios import JudgeScenarios, JudgeScenariosSettings
from tests.support.models.corrupt_judge import (
    FAULTS,
    First,
    Flips,
    Gullible,
    Honest,
    is_true,
    measure_acceptance,
    mix_faults,
    with_attack,
    with_fault,
    without_fences,
)
from tests.support.paths import REPO
from tests.support.topics.judged_topics import animal_seeds
from tests.support.topics.zoo import topic_of

BENCHMARK = REPO / "benchmarks" / "judges.py"


@cache
def sound_topics():
    return [
        topic
        for topic in map(topic_of, animal_seeds(320))
        if {"poisoned_query", "seed_negative"} <= {i.role for i in topic.intents} | {p.role for p in topic.passages}
        and is_true(topic)
    ]


@cache
def mixed_topics():
    return mix_faults(sound_topics(), 0.3)


def put(kind, judge, folder: Path, topics=None, **options):
    settings = {JudgeScenarios: JudgeScenariosSettings, JudgeRelevance: JudgeRelevanceSettings}
    validator = kind(settings.get(kind, JudgePolaritySettings)(canaries={"share": 0}, **options))
    return asyncio.run(measure_acceptance(validator, topics or mixed_topics(), judge, Path(mkdtemp(dir=folder))))


def test_there_is_enough_to_measure_and_every_fault_is_one():
    sound, topics = sound_topics(), mixed_topics()
    assert len(sound) > 100
    assert 0.15 < sum(not is_true(topic) for topic in topics) / len(topics) < 0.35
    for fault in FAULTS:
        assert sum(not is_true(with_fault(topic, fault)) for topic in sound) > 0.8 * len(sound), fault


@pytest.mark.slow
@pytest.mark.parametrize("kind", [JudgeScenarios, JudgeRelevance, JudgePolarity])
def test_an_honest_judge_accepts_what_is_true_and_nothing_else(tmp_path, kind):
    found = put(kind, Honest("honest"), tmp_path)
    assert found.recall == 1.0
    assert found.precision == 1.0
    assert found.fooled == 0.0


@pytest.mark.long
@pytest.mark.parametrize(("kind", "gain"), [(JudgeScenarios, 0.15), (JudgeRelevance, 0.3), (JudgePolarity, 0.12)])
def test_votes_win_back_what_a_judge_with_flips_loses(tmp_path, kind, gain: float):
    one, three, five = (put(kind, Flips("flips", 0.1), tmp_path, votes=votes) for votes in (1, 3, 5))
    assert one.recall < three.recall < five.recall
    assert one.recall + gain < five.recall
    assert five.recall > 0.8
    assert min(one.precision, three.precision, five.precision) > 0.93
    assert one.calls < three.calls < 3.3 * one.calls / max(one.recall, 0.3)


@pytest.mark.long
@pytest.mark.slow
def test_three_scenarios_find_what_one_cannot(tmp_path):
    one = put(JudgeScenarios, Flips("flips", 0.1), tmp_path, votes=3, roles=("instructed",))
    three = put(JudgeScenarios, Flips("flips", 0.1), tmp_path, votes=3)
    assert one.precision < 0.9
    assert one.fooled > 0.3
    assert three.precision > 0.97
    assert three.fooled < 0.05


@pytest.mark.long
@pytest.mark.slow
def test_shuffle_and_swap_take_the_reward_from_a_judge_that_takes_the_first(tmp_path, monkeypatch):
    shuffled = put(JudgeScenarios, First("first"), tmp_path, roles=("instructed",))
    swapped = put(JudgePolarity, First("first"), tmp_path)
    monkeypatch.setattr("foil.validators.judges.panel.shuffle_passages", lambda passages, *_: list(passages))
    monkeypatch.setattr(JudgePanel, "compare_pair", lambda self, i, ps, slot: self.compare_once(i, tuple(ps), slot))
    in_order = put(JudgeScenarios, First("first"), tmp_path, roles=("instructed",))
    one_way = put(JudgePolarity, First("first"), tmp_path)
    assert (in_order.recall, one_way.recall) == (1.0, 1.0)
    assert one_way.fooled > 0.5
    assert shuffled.recall < 0.45
    assert shuffled.fooled < in_order.fooled / 1.5
    assert (swapped.accepted, swapped.fooled) == (0, 0.0)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("kind", [JudgeScenarios, JudgeRelevance, JudgePolarity])
def test_only_fences_with_a_code_keep_commands_from_a_gullible_judge(tmp_path, monkeypatch, kind):
    hostile = [with_attack(topic) for topic in mixed_topics()[:60]]
    judge = Gullible("gullible")
    fenced = put(kind, judge, tmp_path, hostile)
    assert judge.obeyed == 0
    assert fenced == put(kind, Honest("honest"), tmp_path, hostile)
    assert fenced.recall == 1.0
    monkeypatch.setattr("foil.validators.judges.panel.inert", lambda text, _: text)
    for name, what in (("nonce", lambda *_: "data"), ("load", without_fences)):
        monkeypatch.setattr(f"foil.validators.judges.panel.{name}", what)
        judge = Gullible("gullible")
        assert put(kind, judge, tmp_path, hostile).recall < 0.1
        assert judge.obeyed > 0.1 * len(judge.requests)


@pytest.mark.slow
def test_kappa_on_labelled_solutions_rises_with_votes(shared_data: Path):
    """GSM8K's model solutions, right and wrong."""
    bench = runpy.run_path(str(BENCHMARK), run_name="benchmark")
    rows = asyncio.run(bench["kappa_table"](shared_data / "gsm8k" / "example_model_solutions.jsonl", 60))
    kappa = {(row["judge"], row["votes"]): row["kappa"] for row in rows}
    assert kappa["honest", 1] > 0.95
    assert kappa["10 % flips", 1] < kappa["10 % flips", 3] <= kappa["10 % flips", 5]
    assert kappa["10 % flips", 1] < kappa["three that flip 10 %", 1]
    assert kappa["always takes the first", 5] == 0.0
    assert measure_agreement("a", "b", [(1, 1), (-1, -1)]).kappa == 1.0
