"""The losses of a list: values by hand, what they are at their best, and that no order of the passages matters."""

import doctest
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers.cross_encoder.losses import ListNetLoss, RankNetLoss

from foil.trainer.model_settings import RerankerSettings
from foil.trainer.train.reranker import losses
from foil.trainer.train.reranker.losses import LOSSES, equal_scores_list_loss, list_loss

SCORES = torch.tensor([2.0, 1.0, 0.0, -1.0])
RELEVANT = torch.tensor([True, False, True, False])


def loss_of(name, scores=SCORES, relevant=RELEVANT, **changes):
    return list_loss(scores, relevant, RerankerSettings(loss=name, **changes)).item()


def test_the_examples_hold():
    assert doctest.testmod(losses).failed == 0


def test_values_by_hand():
    total = sum(math.exp(score) for score in (2, 1, 0, -1))
    shares = [math.exp(2) / total, 1 / total]
    assert loss_of("softmax") == pytest.approx(-sum(map(math.log, shares)) / 2 - math.log(2))
    pairs = [2 - 1, 2 + 1, 0 - 1, 0 + 1]
    assert loss_of("ranknet") == pytest.approx(sum(math.log(1 + math.exp(-d)) for d in pairs) / 4)
    assert loss_of("margin", margin=1.5) == pytest.approx(sum(max(0, 1.5 - d) for d in pairs) / 4)


@pytest.mark.parametrize(("name", "expected"), [("softmax", math.log(2)), ("ranknet", math.log(2)), ("margin", 1.0)])
def test_a_model_that_tells_nothing_apart_has_the_loss_of_equal_scores(name, expected):
    assert equal_scores_list_loss(RELEVANT, RerankerSettings(loss=name)) == pytest.approx(expected)
    assert loss_of(name, torch.full((4,), 7.0)) == pytest.approx(expected)


@given(st.sampled_from(sorted(LOSSES)), st.lists(st.tuples(st.floats(-5, 5), st.booleans()), min_size=2, max_size=9))
def test_a_loss_is_zero_at_best_and_does_not_depend_on_the_order(name, items):
    scores, relevant = (torch.tensor(values) for values in zip(*items, strict=True))
    if relevant.all() or not relevant.any():
        return
    value = loss_of(name, scores, relevant)
    assert value > -1e-5
    assert loss_of(name, scores.flip(0), relevant.flip(0)) == pytest.approx(value, abs=1e-5)
    assert loss_of(name, relevant * 50.0, relevant) == pytest.approx(0, abs=1e-5)
    assert loss_of(name, scores + 3, relevant) == pytest.approx(value, abs=1e-4)


@given(st.sampled_from(sorted(LOSSES)), st.integers(0, 99))
def test_the_gradient_lifts_what_is_relevant(name, seed):
    scores = torch.randn(4, generator=torch.Generator().manual_seed(seed)).mul(0.2).requires_grad_()
    list_loss(scores, RELEVANT, RerankerSettings(loss=name)).backward()
    assert scores.grad[RELEVANT].sum() < 0 < scores.grad[~RELEVANT].sum()


class FixedScores(torch.nn.Module):
    """What the losses of sentence-transformers ask of a cross-encoder, with scores that stand already."""

    num_labels, device = 1, torch.device("cpu")

    def preprocess(self, pairs, **_):
        return {"place": torch.tensor([int(document) for _, document in pairs])}

    def forward(self, features):
        return {"scores": SCORES[features["place"]].unsqueeze(1)}


def test_the_library_has_the_same_numbers():
    """ListNet there takes softmax(labels) as its target; labels of -inf and 0 make that uniform over the relevant."""
    inputs, mask = [["q"], [["0", "1", "2", "3"]]], RELEVANT
    target = [torch.where(mask, 0.0, -1e4)]
    assert loss_of("softmax") + math.log(2) == pytest.approx(ListNetLoss(FixedScores())(inputs, target).item())
    ranknet = RankNetLoss(FixedScores(), reduction_log="natural")(inputs, [mask.float()]).item()
    assert ranknet == pytest.approx(4 * loss_of("ranknet"), rel=1e-4) or ranknet == pytest.approx(
        loss_of("ranknet"), rel=1e-4
    )
