"""Losses over one list: a query with its instruction, and passages of which some are relevant.

softmax   cross-entropy between uniform mass over the relevant passages and the softmax of all scores, less the mass's
          entropy log(relevant), so that it can reach zero (ListNet's top-one loss; Cao et al., Learning to Rank: From
          Pairwise Approach to Listwise Approach, ICML 2007, section 4.3)
ranknet   mean of log(1 + exp(-d)) over all pairs of a relevant and an irrelevant passage, d the difference of their
          scores (Burges et al., Learning to Rank using Gradient Descent, ICML 2005, eq. 3 with a target of 1)
margin    mean of max(0, margin - d) over the same pairs (Ranking SVM; Joachims, KDD 2002)
"""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

from foil.trainer.model_settings import RankingLoss, RerankerSettings


def list_loss(scores: Tensor, relevant: Tensor, settings: RerankerSettings) -> Tensor:
    """The loss of one list; `scores` and `relevant` (bool) are [passages], with some of both kinds.

    >>> round(list_loss(torch.zeros(4), torch.tensor([True, False, False, False]), RerankerSettings()).item(), 4)
    1.3863
    """
    return LOSSES[settings.loss](scores, relevant, settings)


def _softmax(scores: Tensor, relevant: Tensor, _: RerankerSettings) -> Tensor:
    return scores.logsumexp(0) - scores[relevant].mean() - math.log(int(relevant.sum()))


def _ranknet(scores: Tensor, relevant: Tensor, _: RerankerSettings) -> Tensor:
    return functional.softplus(-_differences(scores, relevant)).mean()


def _margin(scores: Tensor, relevant: Tensor, settings: RerankerSettings) -> Tensor:
    return functional.relu(settings.margin - _differences(scores, relevant)).mean()


def _differences(scores: Tensor, relevant: Tensor) -> Tensor:
    """How far every relevant passage is above every irrelevant one, [relevant, irrelevant]."""
    return scores[relevant].unsqueeze(1) - scores[~relevant].unsqueeze(0)


LOSSES: Mapping[RankingLoss, Callable[[Tensor, Tensor, RerankerSettings], Tensor]] = {
    "softmax": _softmax,
    "ranknet": _ranknet,
    "margin": _margin,
}


def equal_scores_list_loss(relevant: Tensor, settings: RerankerSettings) -> float:
    """The loss of a list whose passages all score the same."""
    return list_loss(torch.zeros(len(relevant)), relevant, settings).item()
