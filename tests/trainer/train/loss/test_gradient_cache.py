"""The gradient cache gives the gradients of the whole graph, for every loss, with dropout, and forgets no one."""

import pytest
import torch

from foil.trainer.model.encoder import Encoder
from foil.trainer.model_settings import ModelSettings
from foil.trainer.settings import LossSettings, RetentionSettings, TrainSettings
from foil.trainer.train.data.collate import collate, make_contrast_pairs
from foil.trainer.train.loss.batch_loss import GradientStep, add_gradients
from foil.trainer.train.loss.gradient_cache import backward
from tests.support.training import FULL, TEMPLATE, gradients_of, groups, load


@pytest.fixture(scope="module")
def encoder_and_base(bert):
    return load(bert, model=ModelSettings(dropout=True)), load(bert)


def gradients(encoder_and_base, batch, settings, dropout, seed=3):
    encoder, base = (Encoder(one.model, TEMPLATE, settings.encode) for one in encoder_and_base)
    encoder.train(dropout)
    base.eval()
    encoder.zero_grad()
    return add_gradients(encoder, base, batch, settings, GradientStep(seed)), gradients_of(encoder)


LOSSES = [
    LossSettings(blocks=blocks, combine=combine, instructions="batch")
    for combine, several in (("sum", 1), ("multivariate", 2))
    for blocks in (("P",), ("I",), ("IQ",), ("P", "I"), ("P", "IQ"), ("I", "IQ"), ("P", "I", "IQ"))
    if len(blocks) >= several
]


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.combine}-{'-'.join(loss.blocks)}")
def test_cached_gradients_are_those_of_the_whole_graph(encoder_and_base, loss):
    own = list(groups(6))
    keep = RetentionSettings(pull_queries=0.5, pull_passages=0.5)
    plain = TrainSettings(
        encode=FULL.model_copy(update={"micro_batch_tokens": 48}),
        loss=loss,
        retention=keep,
        model=ModelSettings(matryoshka=(8,)),
    )
    batch = collate(own, TEMPLATE, make_contrast_pairs(own, own, loss, 0))
    whole_loss, whole = gradients(encoder_and_base, batch, plain, dropout=True)
    cached_loss, cached = gradients(
        encoder_and_base, batch, plain.model_copy(update={"gradient_cache": True}), dropout=True
    )
    assert cached_loss == whole_loss
    assert (cached - whole).norm() <= 1e-6 * whole.norm()


def test_dropout_follows_the_seed_and_leaves_other_random_numbers_alone(encoder_and_base):
    own = list(groups(4))
    batch, settings = collate(own, TEMPLATE), TrainSettings(encode=FULL, gradient_cache=True)
    torch.manual_seed(1)
    first = gradients(encoder_and_base, batch, settings, dropout=True)[0]
    drawn = torch.rand(1)
    assert gradients(encoder_and_base, batch, settings, dropout=True)[0] == first
    assert gradients(encoder_and_base, batch, settings, dropout=True, seed=4)[0] != first
    assert (
        gradients(encoder_and_base, batch, settings, dropout=False)[0]
        == gradients(encoder_and_base, batch, settings, dropout=False, seed=9)[0]
    )
    torch.manual_seed(1)
    assert torch.rand(1) == drawn


def test_gradients_of_several_losses_add_up(encoder_and_base):
    encoder = encoder_and_base[0].eval()
    encoder.zero_grad()
    work = encoder.micro_batches(["one", "another"], [("that", "this")])
    for _ in range(2):
        backward(encoder, work, lambda vectors: vectors[0] @ vectors[2], cached=True, seeds=range(len(work)))
    twice = [p.grad.clone() for p in encoder.parameters() if p.grad is not None]
    encoder.zero_grad()
    backward(encoder, work, lambda vectors: vectors[0] @ vectors[2], cached=False, seeds=range(len(work)))
    once = [p.grad for p in encoder.parameters() if p.grad is not None]
    assert all(torch.allclose(a, 2 * b, atol=1e-6) for a, b in zip(twice, once, strict=True))
