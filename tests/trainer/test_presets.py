"""Presets are whole, give way to what a job says, and train encoders and decoders alike."""

import doctest

import pytest
import torch

from foil.trainer import presets
from foil.trainer.presets import PRESETS
from foil.trainer.settings import ScheduleSettings, TrainSettings
from foil.trainer.train.run.fit import train
from tests.support.models.tiny_backbones import save_backbone


def test_what_a_job_says_wins_over_its_preset():
    assert doctest.testmod(presets).failed == 0
    settings = TrainSettings.model_validate({"preset": "promptriever", "loss": {"temperature": 0.05}})
    assert (settings.loss.temperature, settings.loss.blocks, settings.distractors) == (0.05, ("P",), 15)
    assert settings.model.lora
    assert settings.model.lora.rank == 32
    again = TrainSettings.model_validate(settings.model_dump(mode="json"))
    assert again == settings
    with pytest.raises(ValueError, match="preset"):
        TrainSettings.model_validate({"preset": "nobody"})


def test_the_literal_preset_is_the_printed_loss():
    settings = TrainSettings.model_validate({"preset": "inf_embed_literal"})
    loss = settings.loss
    assert not settings.bare_queries
    assert (loss.temperature, loss.duplicates, loss.positive_counted, loss.blocks) == (
        1.0, "kept", "each_block", ("P", "I"),
    )  # fmt: skip


def test_epochs_become_steps_over_the_topics_there_are():
    plan = ScheduleSettings(epochs=2, topics_per_batch=8)
    assert plan.with_steps_for(41).steps == 10
    assert plan.with_steps_for(3).steps == 1
    assert plan.model_copy(update={"topics": 16}).with_steps_for(41).steps == 4
    assert ScheduleSettings(steps=7).with_steps_for(41).steps == 7


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("family", ["bert", "qwen3"])
def test_every_preset_trains_an_encoder_and_a_decoder(preset, family, view, tmp_path):
    torch.manual_seed(0)
    base = save_backbone(tmp_path, family, max_position_embeddings=256)
    chosen = {
        "preset": preset, "base": base, "validation": {"topics": 0},
        "encode": {"max_tokens": 64, "query_tokens": 64}, "schedule": {"epochs": 1, "topics_per_batch": 16},
    }  # fmt: skip
    trained = train(TrainSettings.model_validate(chosen), view, tmp_path / "run")
    assert len(trained.facts["losses"]) == len(view.partitions("train")) // 16
    assert all(loss > 0 for loss in trained.facts["losses"])
