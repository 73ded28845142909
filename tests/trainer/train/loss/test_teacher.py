"""A student learns a reranker's scores: losses worked by hand, finite gradients, exact resumption, clear refusals."""

import math
import shutil

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.engine.atomic_files import write_json
from foil.engine.errors import UsageError
from foil.trainer.model.checkpoint import weights
from foil.trainer.model.checksums import read_facts, sealed
from foil.trainer.model.pair_scorer import load_pair_scorer
from foil.trainer.model.published_model import fingerprint_of
from foil.trainer.model_settings import LateInteractionSettings, ModelSettings, RerankerSettings
from foil.trainer.settings import LossSettings, RetentionSettings, TeacherSettings, TrainSettings
from foil.trainer.train.data.collate import collate
from foil.trainer.train.loss.batch_loss import GradientStep, add_gradients
from foil.trainer.train.loss.teacher import TaughtList, Teacher, teacher_loss
from foil.trainer.train.run.fit import train
from foil.trainer.train.run.fit_reranker import train_reranker
from foil.trainer.train.run.monitor import Callbacks
from tests.support.paths import REPO
from tests.support.training import FULL, TEMPLATE, StoppedError, gradients_of, groups, load, settings_for

KEEP = RetentionSettings(frozen_embeddings=False, plain_weight=0.5)


@pytest.fixture(scope="module")
def reranker(bert, view, tmp_path_factory):
    settings = settings_for(bert, 4, reranker=RerankerSettings(), retention=RetentionSettings(frozen_embeddings=False))
    return train_reranker(settings, view, tmp_path_factory.mktemp("teacher")).model


def taught(reranker, loss, **changes):
    teacher = TeacherSettings(model=reranker, loss=loss, weight=0.5)
    return {"loss": LossSettings(teacher=teacher), "retention": KEEP, **changes}


def list_of(weight, relevant, teacher):
    places = torch.arange(len(teacher))
    return TaughtList(weight, torch.zeros_like(places), places, torch.tensor(relevant), torch.tensor(teacher))


def test_the_losses_are_those_worked_by_hand():
    lists = [list_of(0.75, [True, False, False], [2.0, 0.0, -1.0]), list_of(0.25, [False, True], [0.0, math.log(3)])]
    students = {id(lists[0]): torch.tensor([1.0, 0.5, 0.0]), id(lists[1]): torch.zeros(2)}
    # (1 - 0.5) - (2 - 0) = -1.5 and (1 - 0) - (2 + 1) = -2, squares 2.25 and 4; then (0 - log 3)^2
    by_hand = 0.75 * (2.25 + 4) / 2 + 0.25 * math.log(3) ** 2
    assert teacher_loss(lists, "margin_mse", lambda each: students[id(each)]).item() == pytest.approx(by_hand, rel=1e-6)
    # the second list: softmax of the teacher is 1/4 and 3/4, of the student 1/2 and 1/2
    kl = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
    assert teacher_loss(lists[1:], "kl", lambda each: students[id(each)]).item() == pytest.approx(0.25 * kl, rel=1e-6)
    assert teacher_loss(lists, "kl", lambda each: each.teacher + 5).item() == pytest.approx(0, abs=1e-6)
    assert teacher_loss(lists, "margin_mse", lambda each: each.teacher + 5).item() == pytest.approx(0, abs=1e-6)


def test_lists_are_what_was_judged_with_the_reranker_s_own_scores(bert, reranker, view):
    batch = collate(list(groups(3)), TEMPLATE)
    lists = Teacher(settings_for(bert, **taught(reranker, "kl")), view).lists(batch)
    scorer = load_pair_scorer(reranker, TEMPLATE, FULL)
    assert sum(each.weight for each in lists) == pytest.approx(1)
    relevant = set()
    for each in lists:
        assert each.relevant.any()
        assert not each.relevant.all()
        pairs = [(TEMPLATE.format_pair(*batch.pairs[row]), batch.passages[column])
                 for row, column in zip(each.pair, each.passages, strict=True)]  # fmt: skip
        assert np.allclose(each.teacher.numpy(), scorer.score(pairs).numpy(), atol=1e-5)
        relevant |= {*zip(each.pair[each.relevant].tolist(), each.passages[each.relevant].tolist(), strict=True)}
    assert relevant <= {tuple(row) for row in batch.anchors.tolist()}


@pytest.mark.parametrize("loss", ["kl", "margin_mse"])
@pytest.mark.parametrize("late", [False, True])
def test_the_teacher_s_part_is_added_and_its_gradient_is_finite(bert, reranker, view, loss, late):
    model = ModelSettings(late_interaction=LateInteractionSettings(dimensions=16)) if late else ModelSettings()
    settings = TrainSettings(encode=FULL, model=model, **taught(reranker, loss))
    batch, found = collate(list(groups(4)), TEMPLATE), []
    lists = Teacher(settings, view).lists(batch)
    for cached, step in ((False, lists), (True, lists), (False, ())):
        encoder = load(bert, FULL.model_copy(update={"micro_batch_tokens": 64}), model).train()
        how = settings.model_copy(update={"gradient_cache": cached})
        result = add_gradients(encoder, load(bert, model=model), batch, how, GradientStep(taught=step))
        found.append((result, gradients_of(encoder)))
    (with_teacher, gradient), (cached, same), (alone, other) = found
    assert gradient.isfinite().all()
    assert with_teacher.loss > alone.loss
    assert cached.loss == pytest.approx(with_teacher.loss, rel=1e-6)
    assert (gradient - same).norm() <= 1e-5 * gradient.norm()
    assert (gradient - other).norm() > 1e-3 * gradient.norm()


def test_a_stopped_student_ends_with_the_very_same_weights(bert, view, reranker, tmp_path):
    settings = settings_for(bert, **taught(reranker, "margin_mse"))

    def stop(row):
        if row.step == 3:
            raise StoppedError

    whole = train(settings, view, tmp_path / "whole")
    with pytest.raises(StoppedError):
        train(settings, view, tmp_path / "stopped", callbacks=Callbacks(on_step=stop))
    resumed = train(settings, view, tmp_path / "stopped")
    assert resumed.facts["losses"] == whole.facts["losses"]
    ours, theirs = weights(load(whole.model)), weights(load(resumed.model))
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def test_a_teacher_that_is_none_is_refused(bert, view, reranker, tmp_path):
    model = train(settings_for(bert, 1), view, tmp_path / "embedder").model
    with pytest.raises(UsageError, match="is no reranker; train one with"):
        train(settings_for(bert, **taught(model, "kl")), view, tmp_path / "student")
    with pytest.raises(UsageError, match="holds no model"):
        train(settings_for(bert, **taught(tmp_path / "nowhere", "kl")), view, tmp_path / "student")
    with pytest.raises(ValidationError, match="leave out `workers`"):
        TrainSettings(loss={"teacher": {"model": "m"}}, workers=2)


def test_a_teacher_is_known_by_its_model_and_not_by_its_folder(bert, view, reranker, tmp_path):
    moved = shutil.copytree(reranker, tmp_path / "moved")
    here, there = (settings_for(bert, **taught(folder, "kl")) for folder in (reranker, moved))
    assert fingerprint_of(here, "d") == fingerprint_of(there, "d") != fingerprint_of(settings_for(bert), "d")
    train(here, view, tmp_path / "out")
    train(there, view, tmp_path / "out")
    facts = read_facts(moved)
    body = {name: value for name, value in facts.items() if name != "sha256"}
    write_json(moved / "foil.json", sealed({**body, "command": "trained anew"}))
    with pytest.raises(UsageError, match="was trained with another teacher"):
        train(there, view, tmp_path / "out")


def test_the_example_learns_a_step(bert, reranker, world, tmp_path):
    overrides = [
        f"train.data=[{{run: {world}}}]", f"train.loss.teacher.model={reranker}", f"train.base={bert}",
        "train.schedule.steps=1", "train.schedule.topics_per_batch=4", "train.retention.plain_topics=2",
    ]  # fmt: skip
    options = [*(f"--set={override}" for override in overrides), "--out", str(tmp_path / "out")]
    assert run_command(app, ["train", str(REPO / "examples/jobs/distilled.yaml"), *options]) == 0
    assert read_facts(tmp_path / "out/model")["settings"]["loss"]["teacher"]["loss"] == "kl"
