"""The gradient of a batch of lists, with the activations of one micro-batch of whole lists at a time.

The loss is the weighted mean over lists: 1 for a list under an instruction, `retention.plain_weight` for a bare query.
It is a sum over lists, so micro-batches add up to its exact gradient.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from foil.trainer.model.pair_scorer import PairScorer
from foil.trainer.model_settings import RerankerSettings
from foil.trainer.train.loss.batch_loss import BatchLoss
from foil.trainer.train.loss.gradient_cache import random_numbers
from foil.trainer.train.reranker.losses import equal_scores_list_loss, list_loss
from foil.trainer.train.reranker.ranking_lists import RankingList

TokenRows = list[dict[str, list[int]]]


def add_list_gradients(
    scorer: PairScorer, lists: Sequence[RankingList], settings: RerankerSettings, plain_weight: float, seed: int
) -> BatchLoss:
    """Adds the gradient of the lists' loss to the parameters, and returns the loss; `seed` is of dropout."""
    weights = np.array([plain_weight if each.is_bare else 1.0 for each in lists])
    weights /= weights.sum() or 1.0
    rows = [scorer.tokenise(each.pairs) for each in lists]
    generator, loss = np.random.default_rng(seed), 0.0
    for chunk in _chunks(rows, scorer.budget):
        with random_numbers(scorer, int(generator.integers(2**63))):
            scores: Tensor = scorer([row for place in chunk for row in rows[place]])
        parts = torch.split(scores, [len(rows[place]) for place in chunk])
        losses = [
            weights[place] * list_loss(part, _relevant(lists[place]).to(part.device), settings)
            for place, part in zip(chunk, parts, strict=True)
        ]
        total = torch.stack(losses).sum()
        torch.autograd.backward(total)
        loss += total.item()
    equal = sum(
        weight * equal_scores_list_loss(_relevant(each), settings) for weight, each in zip(weights, lists, strict=True)
    )
    return BatchLoss(loss, float(equal))


def _relevant(each: RankingList) -> Tensor:
    return torch.from_numpy(each.relevant)


def _chunks(rows: Sequence[TokenRows], budget: int) -> Iterator[list[int]]:
    """Lists of similar length together, within `budget` padded tokens (a single list may exceed it)."""
    longest = [max(len(row["input_ids"]) for row in own) for own in rows]
    chunk: list[int] = []
    for place in sorted(range(len(rows)), key=lambda place: (-longest[place], place)):
        count = sum(len(rows[member]) for member in (*chunk, place))
        if chunk and count * longest[chunk[0]] > budget:
            yield chunk
            chunk = []
        chunk.append(place)
    if chunk:
        yield chunk
