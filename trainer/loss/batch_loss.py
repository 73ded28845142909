"""The loss of one batch and its gradient, split over however many workers there are.

    encode own texts -> gather vectors and keys of all -> own anchors x all columns -> InF-Embed's loss
                                                       -> own plain texts against the base model -> pull

Every worker computes its part; the parts add up to the loss of the same batch in one process, and so do their gradients
(`gather.sum_gradients`). A text or an anchor that two workers hold counts once, at the first of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer.data.collate import Batch, Cells, Keys, cells, first_of_class
from trainer.loss.distributed import gather_keys, gather_rows
from trainer.loss.gradient_cache import backward
from trainer.loss.losses import block_scores, row_losses
from trainer.model.encoder import Encoder
from trainer.settings import Block, RetentionSettings, TrainSettings

Weights = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Shared:
    """The keys of all workers, and where this worker's passages, pairs and anchors begin among them."""

    keys: Keys
    passage: int
    pair: int
    anchor: int


def step(encoder: Encoder, base: Encoder, batch: Batch, settings: TrainSettings, seed: int = 0) -> float:
    """Adds the gradient of this worker's part of the batch's loss to the parameters, and returns that part.

    `seed` is where this worker's random numbers of the step start.
    """
    shared = _share(batch.keys)
    pull = _Pull(base, batch, shared, settings.retention)

    def loss_of(vectors: Tensor) -> Tensor:
        lengths = (*settings.model.matryoshka, vectors.shape[1])
        losses = [_contrast(_shortened(vectors, length), batch, shared, settings) for length in lengths]
        return torch.stack(losses).mean() + pull.loss(vectors)

    work = encoder.micro_batches(batch.passages, batch.pairs)
    seeds = np.random.default_rng(seed).integers(2**63, size=len(work)).tolist()
    return backward(encoder, work, loss_of, cached=settings.gradient_cache, seeds=seeds)


def _share(keys: Keys) -> Shared:
    passages, passage = gather_keys(keys.passages)
    pairs, pair = gather_keys(keys.pairs)
    relevant, anchor = gather_keys(keys.relevant)
    known, _ = gather_keys(keys.known)
    return Shared(Keys(passages, pairs, relevant, known), passage, pair, anchor)


def _shortened(vectors: Tensor, length: int) -> Tensor:
    """The first so many numbers of unit vectors, as unit vectors (Kusupati et al., arXiv 2205.13147)."""
    return vectors if length >= vectors.shape[1] else torch.nn.functional.normalize(vectors[:, :length], dim=1)


def _contrast(vectors: Tensor, batch: Batch, shared: Shared, settings: TrainSettings) -> Tensor:
    """The weighted mean of the row losses over the anchors of all workers, this worker's rows of it."""
    own = len(batch.passages)
    passages, pairs = gather_rows(vectors[:own]), gather_rows(vectors[own:])
    anchors = batch.anchors + np.array([shared.pair, shared.passage])
    pair, passage = torch.from_numpy(anchors).to(vectors.device).T
    tau = settings.loss.temperature
    blocks: dict[Block, tuple[Tensor, Tensor]] = {}
    for name, found in cells(anchors, shared.keys, settings.loss).items():
        rows, columns = (pairs[pair], passages) if name == "P" else (passages[passage], pairs)
        blocks[name] = _block(block_scores(rows, columns, tau), found)
    own_scores = (pairs[pair].float() * passages[passage].float()).sum(1) / tau
    losses = row_losses(own_scores, blocks, settings.loss)
    weights = _anchor_weights(shared.keys.relevant, settings)
    mine = torch.from_numpy(weights[shared.anchor : shared.anchor + len(anchors)]).to(vectors.device)
    return (mine * losses).sum() / float(weights.sum())


def _block(scores: Tensor, found: Cells) -> tuple[Tensor, Tensor]:
    if found.columns is not None:
        scores = scores.gather(1, torch.from_numpy(found.columns).to(scores.device))
    return scores, torch.from_numpy(found.negative).to(scores.device)


def _anchor_weights(relevant: NDArray[np.int64], settings: TrainSettings) -> Weights:
    """The weight of every anchor of every worker: `plain_weight` without an instruction, 0 for a repeated one."""
    weights = np.where(relevant[:, 0] == 0, settings.retention.plain_weight, 1.0)
    return (weights * first_of_class(relevant)).astype(np.float32)


class _Pull:
    """Mean of 1 - cos(now, base) over passages, and over bare queries, by their weights; this worker's texts of it."""

    def __init__(self, base: Encoder, batch: Batch, shared: Shared, keep: RetentionSettings) -> None:
        weights = _pull_weights(batch, shared, keep)
        self._rows = np.flatnonzero(weights)
        self._weights = torch.from_numpy(weights[self._rows]).to(base.device)
        own = len(batch.passages)
        with torch.no_grad():
            self._targets = base.encode(
                [batch.passages[row] for row in self._rows if row < own],
                [batch.pairs[row - own] for row in self._rows if row >= own],
            )

    def loss(self, vectors: Tensor) -> Tensor:
        if not len(self._rows):
            return vectors.new_zeros(())
        distances = 1 - (vectors[torch.from_numpy(self._rows).to(vectors.device)] * self._targets).sum(1)
        return (self._weights * distances).sum()


def _pull_weights(batch: Batch, shared: Shared, keep: RetentionSettings) -> Weights:
    """The weight of each of this worker's texts, passages first, such that each mean is over all workers' texts."""
    passages = first_of_class(shared.keys.passages)
    asked_bare = (shared.keys.pairs[:, 0] == 0) & (shared.keys.pairs[:, 2] == 1)
    bare = first_of_class(shared.keys.pairs) & asked_bare
    own_passages = passages[shared.passage : shared.passage + len(batch.passages)]
    own_bare = bare[shared.pair : shared.pair + len(batch.pairs)]
    of_passages = own_passages * (keep.pull_passages / max(1, passages.sum()))
    of_queries = own_bare * (keep.pull_queries / max(1, bare.sum()))
    weights: Weights = np.concatenate((of_passages, of_queries)).astype(np.float32)
    return weights
