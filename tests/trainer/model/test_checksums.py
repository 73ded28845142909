"""Checksums of checkpoints and models: damage is seen before use."""

import shutil
from functools import partial

import pytest
import torch

from foil.engine.errors import CorruptDataError
from foil.trainer.model.checkpoint import load_weights, publish, save_weights
from foil.trainer.model.published_model import read_published_model
from foil.trainer.train.run.fit import train
from tests.support.damage import flip_bit
from tests.support.training import StoppedError, fitted, load, settings_for


@pytest.fixture(scope="module")
def stopped(bert, view, tmp_path_factory):
    """The checkpoints of steps 2 and 4 of a stopped run, and the weights that the whole run ends with."""
    folder = tmp_path_factory.mktemp("stopped")

    def stop(row):
        if row.step == 5:
            raise StoppedError

    with pytest.raises(StoppedError):
        fitted(settings_for(bert), view, folder / "checkpoints", on_step=stop)
    return folder / "checkpoints", fitted(settings_for(bert), view, folder / "whole")[1]


@pytest.fixture
def checkpoints(stopped, tmp_path):
    return shutil.copytree(stopped[0], tmp_path / "checkpoints")


@pytest.fixture
def resume(bert, view):
    return partial(fitted, settings_for(bert), view)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["weights.safetensors", "moments.safetensors", "state.json", "checksums.json"])
def test_a_run_falls_back_from_a_damaged_checkpoint_and_ends_the_same(resume, stopped, checkpoints, name, caplog):
    flip_bit(checkpoints / "step-00000004" / name, 0.9)
    steps = []
    _, weights = resume(checkpoints, on_step=lambda row: steps.append(row.step))
    assert steps == [3, 4, 5, 6]
    assert f"{checkpoints / 'step-00000004'} is damaged" in caplog.text
    assert all(torch.equal(weights[key], value) for key, value in stopped[1].items())
    assert resume(checkpoints)[0]  # the damaged one was replaced
    shutil.rmtree(checkpoints / "step-00000006")
    caplog.clear()
    resume(checkpoints)
    assert "damaged" not in caplog.text


def test_without_a_whole_checkpoint_nothing_is_trained(resume, checkpoints):
    for step in (2, 4):
        flip_bit(checkpoints / f"step-{step:08d}" / "weights.safetensors")
    with pytest.raises(CorruptDataError, match=f"or remove {checkpoints} to train"):
        resume(checkpoints)


def test_a_file_without_a_checksum_is_damage(resume, checkpoints, caplog):
    (checkpoints / "step-00000004" / "checksums.json").write_text("{}")
    resume(checkpoints)
    assert "no checksum for moments.safetensors" in caplog.text


def test_damaged_weights_of_a_measured_step_are_refused(bert, tmp_path):
    model, folder = load(bert), tmp_path / "checkpoints" / "dev" / "step-00000002"
    publish(folder, lambda draft: save_weights(model, draft))
    load_weights(folder, model)
    flip_bit(folder / "weights.safetensors")
    with pytest.raises(CorruptDataError, match=f"remove {tmp_path / 'checkpoints'} to train"):
        load_weights(folder, model)


def test_a_published_model_is_checked(bert, view, tmp_path):
    settings = settings_for(bert, steps=2)
    model = train(settings, view, tmp_path).model
    (model / "README.md").write_text("# Mine\n")  # a card may be edited
    read_published_model(tmp_path, settings, view.digest)
    whole = (model / "foil.json").read_text()
    (model / "foil.json").write_text(whole.replace('"blend": 1.0', '"blend": 0.5'))
    with pytest.raises(CorruptDataError, match=r"foil\.json has changed"):
        read_published_model(tmp_path, settings, view.digest)
    (model / "foil.json").write_text(whole)
    flip_bit(model / "model.safetensors")
    for use in (lambda: read_published_model(tmp_path, settings, view.digest), lambda: load(model)):
        with pytest.raises(CorruptDataError, match=f"model.safetensors has changed.*remove {model}"):
            use()
