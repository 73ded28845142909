"""What tests of training share: settings of a short run, its encoder, and runs that stop on the way."""

import numpy as np
import torch

from foil.datasets_out.training.training_view import TopicGroup
from foil.trainer.model.checkpoint import weights
from foil.trainer.model.encoder import load_encoder
from foil.trainer.settings import EncodeSettings, RetentionSettings, ScheduleSettings, TrainSettings, ValidationSettings
from foil.trainer.text_templates import template_named
from foil.trainer.train.run.fit import Hooks, fit
from tests.support.trainer_world import topic

TEMPLATE = template_named("query_instruction")
FULL = EncodeSettings(max_tokens=64, precision="float32")
SHARES = {"heldout_share": 0.2, "dev_share": 0.2}


class StoppedError(Exception):
    """Ends a run where a test asks for it."""


def settings_for(base, steps=6, **changes):
    schedule = ScheduleSettings(
        steps=steps, topics_per_batch=6, learning_rate=1e-3, warmup_steps=2, window_partitions=2
    )
    retention = RetentionSettings(frozen_embeddings=False, pull_queries=0.2, pull_passages=0.1)
    settings = TrainSettings(base=base, encode=FULL, schedule=schedule, retention=retention, checkpoint_steps=2)
    return settings.model_copy(update=changes)


def settings_that_diverge(base):
    """Weights grow a hundred thousandfold a step, and are infinite after a few."""
    settings = settings_for(base, steps=60)
    schedule = settings.schedule.model_copy(update={"learning_rate": 100.0, "weight_decay": 1000.0})
    return settings.model_copy(update={"schedule": schedule})


def settings_with_dropout(base):
    """Dropout on, checkpoints after steps 4 and 6, measurements after 3 and 6."""
    model = settings_for(base).model.model_copy(update={"dropout": True})
    return settings_for(base, model=model, checkpoint_steps=4, validation=ValidationSettings(steps=3))


def load(path, settings=FULL, model=None):
    return load_encoder(path, TEMPLATE, settings, model)


def fitted(settings, view, folder, **how):
    encoder = load(settings.base)
    losses = fit(encoder, load(settings.base), settings, view, folder, hooks=Hooks(**how))
    return losses, {name: value.clone() for name, value in weights(encoder).items()}


def trainable(model):
    """The parameters that learn, by name: all, or LoRA's alone."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def gradients_of(model):
    """All gradients of a model in one vector."""
    return torch.cat([p.grad.reshape(-1).clone() for p in model.parameters() if p.grad is not None])


def groups(count):
    """The first topics of the trainer's world as a view reads them."""
    for number in range(count):
        world_topic = topic(number)
        relevance = [
            [judgment.relevance for judgment in world_topic.judgments if judgment.intent_id == intent.id]
            for intent in world_topic.intents
        ]
        yield TopicGroup(
            topic_id=world_topic.id, seed_id=world_topic.seed_id, keys=((number,),) * 3,
            intents=tuple((intent.instruction, intent.query) for intent in world_topic.intents),
            passages=tuple((passage.title, passage.text) for passage in world_topic.passages),
            relevance=np.array(relevance, dtype=np.int8),
        )  # fmt: skip
