"""The gradient cache gives the gradients of the whole graph, for every loss, with dropout, and forgets no one."""

import pytest
import torch

from datasets_out.training.training_view import TopicGroup
from tests.support.trainer_world import tiny_bert, topic
from tests.trainer.loss.test_losses import TEMPLATE
from tests.trainer.run.test_fit import FULL, load
from trainer.data.collate import collate, made_pairs
from trainer.loss.batch_loss import step
from trainer.loss.gradient_cache import backward
from trainer.model.encoder import Encoder
from trainer.model_settings import ModelSettings
from trainer.settings import LossSettings, RetentionSettings, TrainSettings


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tiny_bert(tmp_path_factory.mktemp("bert"))
    return load(folder, model=ModelSettings(dropout=True)), load(folder)


def groups(count):
    for number in range(count):
        made = topic(number)
        relevance = [[j.relevance for j in made.judgments if j.intent_id == intent.id] for intent in made.intents]
        yield TopicGroup(
            topic_id=made.id, seed_id=made.seed_id, keys=((number,),) * 3,
            intents=tuple((intent.instruction, intent.query) for intent in made.intents),
            passages=tuple((passage.title, passage.text) for passage in made.passages),
            relevance=torch.tensor(relevance, dtype=torch.int8).numpy(),
        )  # fmt: skip


def gradients(tiny, batch, settings, dropout, seed=3):
    encoder, base = (Encoder(one.model, TEMPLATE, settings.encode) for one in tiny)
    encoder.train(dropout)
    base.eval()
    encoder.zero_grad()
    loss = step(encoder, base, batch, settings, seed)
    found = [p.grad.reshape(-1).clone() for p in encoder.parameters() if p.grad is not None]
    return loss, torch.cat(found)


LOSSES = [
    LossSettings(blocks=blocks, combine=combine, instructions="batch")
    for combine, several in (("sum", 1), ("multivariate", 2))
    for blocks in (("P",), ("I",), ("IQ",), ("P", "I"), ("P", "IQ"), ("I", "IQ"), ("P", "I", "IQ"))
    if len(blocks) >= several
]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.combine}-{'-'.join(loss.blocks)}")
def test_cached_gradients_are_those_of_the_whole_graph(tiny, loss):
    own = list(groups(6))
    keep = RetentionSettings(pull_queries=0.5, pull_passages=0.5)
    plain = TrainSettings(
        encode=FULL.model_copy(update={"micro_batch_tokens": 48}),
        loss=loss,
        retention=keep,
        model=ModelSettings(matryoshka=(8,)),
    )
    batch = collate(own, TEMPLATE, made_pairs(own, own, loss, 0))
    whole_loss, whole = gradients(tiny, batch, plain, dropout=True)
    cached_loss, cached = gradients(tiny, batch, plain.model_copy(update={"gradient_cache": True}), dropout=True)
    assert cached_loss == whole_loss
    assert (cached - whole).norm() <= 1e-6 * whole.norm()


def test_dropout_follows_the_seed_and_leaves_other_random_numbers_alone(tiny):
    own = list(groups(4))
    batch, settings = collate(own, TEMPLATE), TrainSettings(encode=FULL, gradient_cache=True)
    torch.manual_seed(1)
    first = gradients(tiny, batch, settings, dropout=True)[0]
    drawn = torch.rand(1)
    assert gradients(tiny, batch, settings, dropout=True)[0] == first
    assert gradients(tiny, batch, settings, dropout=True, seed=4)[0] != first
    assert (
        gradients(tiny, batch, settings, dropout=False)[0] == gradients(tiny, batch, settings, dropout=False, seed=9)[0]
    )
    torch.manual_seed(1)
    assert torch.rand(1) == drawn


def test_gradients_of_several_losses_add_up(tiny):
    encoder = tiny[0].eval()
    encoder.zero_grad()
    work = encoder.micro_batches(["one", "another"], [("that", "this")])
    for _ in range(2):
        backward(encoder, work, lambda vectors: vectors[0] @ vectors[2], cached=True, seeds=range(len(work)))
    twice = [p.grad.clone() for p in encoder.parameters() if p.grad is not None]
    encoder.zero_grad()
    backward(encoder, work, lambda vectors: vectors[0] @ vectors[2], cached=False, seeds=range(len(work)))
    once = [p.grad for p in encoder.parameters() if p.grad is not None]
    assert all(torch.allclose(a, 2 * b, atol=1e-6) for a, b in zip(twice, once, strict=True))
