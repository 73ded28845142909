"""A student learns what a judge said: log odds and losses worked by hand, hard labels elsewhere, exact resumption."""

import logging
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.datasets_out.commits.snapshot import load_snapshot
from foil.datasets_out.training.judge_scores import JUDGE, UNREADABLE, log_odds, probabilities_of
from foil.datasets_out.training.sources import TopicSource
from foil.datasets_out.training.training_view import SplitSettings, TrainingView
from foil.engine.errors import UsageError
from foil.trainer.model.checkpoint import weights
from foil.trainer.model.checksums import read_facts
from foil.trainer.model.published_model import fingerprint_of
from foil.trainer.settings import LossSettings, RetentionSettings, TrainSettings
from foil.trainer.train.data.collate import collate
from foil.trainer.train.loss.batch_loss import GradientStep, add_gradients
from foil.trainer.train.loss.teacher import Teacher, teacher_loss
from foil.trainer.train.run.fit import train
from foil.trainer.train.run.monitor import Callbacks
from foil.validators.judges.demands import JudgeDemands
from foil.validators.judges.votes import UNREADABLE as UNREADABLE_VOTE
from tests.support.paths import REPO
from tests.support.trainer_world import commit, judged_topic, topic
from tests.support.training import FULL, SHARES, TEMPLATE, StoppedError, gradients_of, load, settings_for

CHANCES = (0.9, 0.2, 0.05)


def taught(loss="kl", **more):
    keep = RetentionSettings(frozen_embeddings=False, plain_weight=0.5)
    return {"loss": LossSettings(teacher={"judge": JUDGE, "loss": loss, "weight": 0.5, **more}), "retention": keep}


def view_of(folder, topics, **how):
    source = TopicSource(load_snapshot(commit(folder, topics), None))
    return TrainingView([source], SplitSettings(**SHARES), judged=True, **how)


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Sixty topics, of which every fourth was not judged, and every fourth of the others could not be read."""
    chances = {0: None, 1: (None, None, None)}
    topics = [topic(n) if n % 4 == 0 else judged_topic(n, chances.get(n % 4, CHANCES)) for n in range(60)]
    return view_of(tmp_path_factory.mktemp("judged") / "run", topics)


def test_names_are_those_that_the_judge_writes():
    assert (JudgeDemands.name, UNREADABLE_VOTE) == (JUDGE, UNREADABLE)


def test_a_cell_has_the_last_verdict_that_was_read():
    own = judged_topic(1, (0.9, None, 0.05))
    first, *_ = own.verdicts
    found = probabilities_of([*own.verdicts, replace(first, score=0.8), replace(first, validator="judge_relevance")])
    intents, passages = [i.id for i in own.intents], [p.id for p in own.passages]
    assert found == {
        (intents[1], passages[0]): 0.8, (intents[1], passages[2]): 0.05, (intents[2], passages[1]): 0.9,
        (intents[2], passages[2]): 0.05,
    }  # fmt: skip


def test_log_odds_are_clipped_and_keep_what_is_unknown():
    by_hand = [math.log(0.99 / 0.01), math.log(0.9 / 0.1), 0.0, math.log(0.2 / 0.8), -math.log(0.99 / 0.01)]
    assert log_odds([1.0, 0.9, 0.5, 0.2, 0.0]) == pytest.approx(by_hand, rel=1e-12)
    assert np.isnan(log_odds([math.nan])).all()


def test_the_losses_of_a_judged_topic_are_those_worked_by_hand(bert, judged):
    [group] = [each for each in judged.read_all("train") if each.is_scored][:1]
    lists = Teacher(settings_for(bert, **taught()), judged).lists(collate([group], TEMPLATE))
    assert [each.weight for each in lists] == [0.5, 0.5]  # the bare query was not judged, so there is no list of it
    assert [each.relevant.tolist() for each in lists] == [[True, False, False], [False, True, False]]
    assert [each.teacher.dtype for each in lists] == [torch.float64] * 2
    student = torch.tensor([1.0, 0.5, -0.25], dtype=torch.float64)
    odds = [0.9 / 0.1, 0.2 / 0.8, 0.05 / 0.95]
    assert lists[0].teacher.tolist() == pytest.approx([math.log(each) for each in odds], rel=1e-12)
    share = [each / sum(odds) for each in odds]
    total = sum(map(math.exp, student.tolist()))

    def kl(targets):
        logs = [math.log(p) - math.log(math.exp(s) / total) for p, s in zip(targets, student.tolist(), strict=True)]
        return sum(p * each for p, each in zip(targets, logs, strict=True))

    expected = 0.5 * kl(share) + 0.5 * kl([share[1], share[0], share[2]])
    assert teacher_loss(lists, "kl", lambda _: student).item() == pytest.approx(expected, rel=1e-12)
    t = [math.log(each) for each in odds]
    first = [((1.0 - 0.5) - (t[0] - t[1])) ** 2, ((1.0 + 0.25) - (t[0] - t[2])) ** 2]
    second = [((0.5 - 1.0) - (t[0] - t[1])) ** 2, ((0.5 + 0.25) - (t[0] - t[2])) ** 2]
    expected = 0.5 * sum(first) / 2 + 0.5 * sum(second) / 2
    assert teacher_loss(lists, "margin_mse", lambda _: student).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("loss", ["kl", "margin_mse"])
def test_the_judge_s_part_is_added_and_its_gradient_is_that_of_small_steps(judged, loss):
    [group] = [each for each in judged.read_all("train") if each.is_scored][:1]
    lists = Teacher(TrainSettings(**taught(loss)), judged).lists(collate([group], TEMPLATE))
    student = torch.tensor([0.3, -0.7, 0.2], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda logits: teacher_loss(lists, loss, lambda _: logits), student)


@pytest.mark.parametrize("loss", ["kl", "margin_mse"])
def test_a_batch_learns_of_the_judge_what_it_scored_and_of_labels_the_rest(bert, judged, loss):
    settings = TrainSettings(encode=FULL, **taught(loss))
    scored, other = ([g for g in judged.read_all("train") if g.is_scored is yes][:3] for yes in (True, False))
    results = {}
    for name, groups in (("both", scored + other), ("other", other)):
        batch = collate(groups, TEMPLATE)
        lists = Teacher(settings, judged).lists(batch)
        results[name, len(lists)] = []
        for cached, step in ((False, lists), (True, lists), (False, ())):
            encoder = load(bert, FULL.model_copy(update={"micro_batch_tokens": 64})).train()
            how = settings.model_copy(update={"gradient_cache": cached})
            results[name, len(lists)].append(
                (add_gradients(encoder, load(bert), batch, how, GradientStep(taught=step)).loss, gradients_of(encoder))
            )
    (taught_loss, gradient), (cached_loss, same), (alone, labels) = results["both", 6]
    assert gradient.isfinite().all()
    assert (taught_loss > alone, (gradient - labels).norm() > 1e-3 * gradient.norm()) == (True, True)
    assert cached_loss == pytest.approx(taught_loss, rel=1e-6)
    assert (gradient - same).norm() <= 1e-5 * gradient.norm()
    (taught_loss, gradient), _, (alone, labels) = results["other", 0]
    assert taught_loss == alone
    assert torch.equal(gradient, labels)


def test_a_stopped_student_of_a_judge_ends_with_the_very_same_weights(bert, judged, tmp_path):
    settings = settings_for(bert, **taught("margin_mse"))

    def stop(row):
        if row.step == 3:
            raise StoppedError

    whole = train(settings, judged, tmp_path / "whole")
    with pytest.raises(StoppedError):
        train(settings, judged, tmp_path / "stopped", callbacks=Callbacks(on_step=stop))
    resumed = train(settings, judged, tmp_path / "stopped")
    assert resumed.facts["losses"] == whole.facts["losses"]
    ours, theirs = weights(load(whole.model)), weights(load(resumed.model))
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())
    kept, scored = (whole.facts["data"]["train"][name] for name in ("topics_kept", "topics_scored"))
    assert 0 < scored < kept
    card = (whole.model / "README.md").read_text()
    assert f"0.5 x margin_mse to P(relevant) by judge_demands, of {scored} of {kept} topics" in card


def test_topics_without_scores_are_counted_and_a_run_without_any_is_refused(bert, judged, view, tmp_path, caplog):
    facts = judged.facts["train"]
    with caplog.at_level(logging.WARNING):
        Teacher(settings_for(bert, **taught()), judged)
    scored, kept = facts["topics_scored"], facts["topics_kept"]
    assert (
        f"scored {scored} of {kept} training topics; the other {kept - scored} are learnt by their labels"
        in caplog.text
    )
    with pytest.raises(UsageError, match=f"gave none of the {view.facts['train']['topics_kept']} training topics of "):
        train(settings_for(bert, **taught()), view, tmp_path / "student")


def test_a_teacher_is_one_of_the_two_and_the_short_form_is_the_long_one(bert):
    assert LossSettings(teacher="judge") == LossSettings(teacher={"judge": "judge_demands"})
    for given, words in (
        ({"loss": {"teacher": {}}}, "name one of the two"),
        ({"loss": {"teacher": {"judge": JUDGE, "model": "m"}}}, "name one of the two"),
        ({"loss": {"teacher": "reranker"}}, "teacher"),
        ({"loss": {"teacher": "judge"}, "workers": 2}, "leave out `workers`"),
        ({"loss": {"teacher": "judge"}, "instructions": "swap"}, "instructions is 'swap'; leave out one of the two"),
    ):
        with pytest.raises(ValidationError, match=words):
            TrainSettings(**given)
    judge, plain = (settings_for(bert, **more) for more in (taught(), {}))
    assert fingerprint_of(judge, "d") != fingerprint_of(plain, "d")


def test_the_command_trains_a_student_of_the_run_s_judge(bert, tmp_path, capsys):
    run = commit(tmp_path / "run", [judged_topic(n) for n in range(40)])
    overrides = [
        f"train.data=[{{run: {run}}}]", "train.loss.teacher=judge", f"train.base={bert}", "train.schedule.steps=1",
        "train.schedule.topics_per_batch=4", "train.retention.plain_topics=2", "train.validation.topics=0",
    ]  # fmt: skip
    options = [*(f"--set={override}" for override in overrides), "--out", str(tmp_path / "out")]
    assert run_command(app, ["train", str(REPO / "examples/jobs/distilled.yaml"), *options]) == 0
    facts = read_facts(tmp_path / "out/model")
    assert facts["settings"]["loss"]["teacher"] == {"model": None, "judge": JUDGE, "loss": "kl", "weight": 1.0}
    scored = facts["data"]["train"]["topics_scored"]
    assert scored == facts["data"]["train"]["topics_kept"]
    assert f"{scored} topics scored" in "".join(capsys.readouterr())
