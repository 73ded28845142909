"""The loss of one batch, split over however many workers there are.

    encode own texts -> gather vectors and keys of all -> own anchors x all columns -> InF-Embed's loss
                                                       -> own plain texts against the base model -> pull

Every worker returns its part; the parts add up to the loss of the same batch in one process, and so do their gradients
(`gather.sum_gradients`). A text or an anchor that two workers hold counts once, at the first of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import Tensor

from trainer.collate import Batch, Keys, first_of_class, negatives
from trainer.encoder import encode
from trainer.gather import gather_keys, gather_rows
from trainer.losses import block_scores, row_losses
from trainer.settings import RetentionSettings, TrainSettings

Weights = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Shared:
    """The keys of all workers, and where this worker's passages, pairs and anchors begin among them."""

    keys: Keys
    passage: int
    pair: int
    anchor: int


def step_loss(model: SentenceTransformer, base: SentenceTransformer, batch: Batch, settings: TrainSettings) -> Tensor:
    """This worker's part of the batch's loss; a scalar with gradients."""
    vectors = encode(model, batch.passages + batch.pairs, settings.encode)
    passages, pairs = vectors[: len(batch.passages)], vectors[len(batch.passages) :]
    shared = _share(batch.keys)
    return _contrast(passages, pairs, batch, shared, settings) + _pull(vectors, base, batch, shared, settings)


def _share(keys: Keys) -> Shared:
    passages, passage = gather_keys(keys.passages)
    pairs, pair = gather_keys(keys.pairs)
    relevant, anchor = gather_keys(keys.relevant)
    return Shared(Keys(passages, pairs, relevant), passage, pair, anchor)


def _contrast(passages: Tensor, pairs: Tensor, batch: Batch, shared: Shared, settings: TrainSettings) -> Tensor:
    """The weighted mean of the row losses over the anchors of all workers, this worker's rows of it."""
    columns, rows = gather_rows(passages), gather_rows(pairs)
    anchors = batch.anchors + np.array([shared.pair, shared.passage])
    pair, passage = torch.from_numpy(anchors).T
    tau = settings.loss.temperature
    to_passages, to_pairs = block_scores(rows[pair], columns, tau), block_scores(columns[passage], rows, tau)
    blocks = {
        name: (to_passages if name == "P" else to_pairs, torch.from_numpy(mask))
        for name, mask in negatives(anchors, shared.keys).items()
    }
    losses = row_losses(to_passages.gather(1, passage[:, None])[:, 0], blocks, settings.loss)
    weights = _anchor_weights(shared.keys.relevant, settings.retention)
    own = torch.from_numpy(weights[shared.anchor : shared.anchor + len(anchors)])
    return (own * losses).sum() / float(weights.sum())


def _anchor_weights(relevant: NDArray[np.int64], keep: RetentionSettings) -> Weights:
    """The weight of every anchor of every worker: `plain_weight` without an instruction, 0 for a repeated one."""
    weights = np.where(relevant[:, 0] == 0, keep.plain_weight, 1.0) * first_of_class(relevant)
    return weights.astype(np.float32)


def _pull(vectors: Tensor, base: SentenceTransformer, batch: Batch, shared: Shared, settings: TrainSettings) -> Tensor:
    """Mean of 1 - cos(now, base) over passages, and over bare queries, by their weights; this worker's texts of it."""
    weights = _pull_weights(batch, shared, settings.retention)
    held = np.flatnonzero(weights)
    if not len(held):
        return vectors.new_zeros(())
    texts = batch.passages + batch.pairs
    with torch.no_grad():
        targets = encode(base, [texts[position] for position in held], settings.encode)
    distances = 1 - (vectors[torch.from_numpy(held)] * targets).sum(1)
    return (torch.from_numpy(weights[held]) * distances).sum()


def _pull_weights(batch: Batch, shared: Shared, keep: RetentionSettings) -> Weights:
    """The weight of each of this worker's texts, passages first, such that each mean is over all workers' texts."""
    passages = first_of_class(shared.keys.passages[:, None])
    bare = first_of_class(shared.keys.pairs) & (shared.keys.pairs[:, 0] == 0)
    own_passages = passages[shared.passage : shared.passage + len(batch.passages)]
    own_bare = bare[shared.pair : shared.pair + len(batch.pairs)]
    of_passages = own_passages * (keep.pull_passages / max(1, passages.sum()))
    of_queries = own_bare * (keep.pull_queries / max(1, bare.sum()))
    weights: Weights = np.concatenate((of_passages, of_queries)).astype(np.float32)
    return weights
