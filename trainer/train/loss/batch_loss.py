"""The loss of one batch and its gradient, split over however many workers there are.

    encode own texts -> gather vectors and keys of all -> own anchors x all columns -> InF-Embed's loss
                    own passages and bare queries x their vectors by the base model -> regulariser

Every worker computes its part. The parts add up to the loss of the same batch in one process, and so do their gradients
(`distributed.sum_gradients`). A text or an anchor that two workers hold counts once, at the first of them.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from foil.trainer.model.encoder import Encoder, MicroBatch
from foil.trainer.settings import Block, RetentionSettings, TrainSettings
from foil.trainer.train.data.collate import Batch, BatchKeys, BlockNegatives, find_negatives, is_first_occurrence
from foil.trainer.train.loss.distributed import gather_keys, gather_rows
from foil.trainer.train.loss.gradient_cache import backward
from foil.trainer.train.loss.losses import Similarities, equal_scores_losses, row_losses
from foil.trainer.train.loss.teacher import TaughtList, teacher_loss

Weights = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class GatheredKeys:
    """The keys of all workers, and where this worker's passages, pairs and anchors begin among them."""

    keys: BatchKeys
    passage: int
    pair: int
    anchor: int


class BatchLoss(NamedTuple):
    """This worker's part of a batch's loss, and of what it would be if all candidates scored the same."""

    loss: float
    equal_scores_loss: float


@dataclass(frozen=True, slots=True)
class GradientStep:
    """How a batch's gradient is worked out. `seed` seeds this worker's random numbers of the step.

    `micro_batches`: the encoder's of the batch, where they are there already. `meanwhile` is called in a thread while
    the encoder computes; it may use the encoder's tokenizer, and no weights. `taught`: the batch's lists with the
    teacher's scores.
    """

    seed: int = 0
    micro_batches: Sequence[MicroBatch] | None = None
    meanwhile: Callable[[], None] = lambda: None
    taught: Sequence[TaughtList] = ()


ALONE = GradientStep()


def add_gradients(
    encoder: Encoder, base: Encoder, batch: Batch, settings: TrainSettings, step: GradientStep = ALONE
) -> BatchLoss:
    """Adds the gradient of this worker's part of the batch's loss to the parameters, and returns that part.

    What `step.meanwhile` raises is raised once the gradient is there.
    """
    gathered = _gather_batch_keys(batch.keys)
    contrast = _Contrast(batch, gathered, settings)
    regulariser = _BaseRegulariser(base, batch, gathered, settings.retention)

    teacher = settings.loss.teacher

    def learnt(logits_of: Callable[[TaughtList], Tensor]) -> Tensor:
        return teacher.weight * teacher_loss(step.taught, teacher.loss, logits_of) if teacher else torch.zeros(())

    def loss_of(vectors: Tensor) -> Tensor:
        lengths = (*settings.model.matryoshka, vectors.shape[-1])
        losses = [contrast.loss(_truncate(vectors, length)) for length in lengths]
        loss = torch.stack(losses).mean() + regulariser.loss(vectors)
        if not step.taught:
            return loss
        passages, pairs = vectors.tensor_split([len(batch.passages)])
        own = Similarities(passages, pairs, settings.loss.temperature)
        return loss + learnt(lambda each: own.cells(each.pair, each.passages))

    micro_batches = step.micro_batches
    if micro_batches is None:
        micro_batches = encoder.micro_batches(batch.passages, batch.pairs)
    seeds = np.random.default_rng(step.seed).integers(2**63, size=len(micro_batches)).tolist()
    with ThreadPoolExecutor(1, "ahead") as thread:
        ahead = thread.submit(step.meanwhile)
        loss = backward(encoder, micro_batches, loss_of, cached=settings.gradient_cache, seeds=seeds)
    ahead.result()
    equal = learnt(lambda each: torch.zeros(len(each.passages))).item()
    return BatchLoss(loss, contrast.equal_scores_loss() + equal)


def _gather_batch_keys(keys: BatchKeys) -> GatheredKeys:
    passages, passage = gather_keys(keys.passages)
    pairs, pair = gather_keys(keys.pairs)
    relevant, anchor = gather_keys(keys.relevant)
    other_relevant, _ = gather_keys(keys.other_relevant)
    return GatheredKeys(BatchKeys(passages, pairs, relevant, other_relevant), passage, pair, anchor)


def _truncate(vectors: Tensor, length: int) -> Tensor:
    """The first `length` dimensions as unit vectors (Matryoshka; Kusupati et al., arXiv 2205.13147)."""
    return vectors if length >= vectors.shape[-1] else torch.nn.functional.normalize(vectors[:, :length], dim=1)


class _Contrast:
    """This worker's part of the weighted mean of the row losses over the anchors of all workers."""

    def __init__(self, batch: Batch, gathered: GatheredKeys, settings: TrainSettings) -> None:
        self._settings, self._passage_count = settings.loss, len(batch.passages)
        self._anchors = batch.anchors + np.array([gathered.pair, gathered.passage])
        self._negatives = find_negatives(self._anchors, gathered.keys, settings.loss)
        weights = _anchor_weights(gathered.keys.relevant, settings)
        self._weights = weights[gathered.anchor : gathered.anchor + len(self._anchors)]
        self._weight_of_all = float(weights.sum())

    def loss(self, vectors: Tensor) -> Tensor:
        """The loss of vectors, the passages first."""
        passages, pairs = gather_rows(vectors[: self._passage_count]), gather_rows(vectors[self._passage_count :])
        pair, passage = torch.from_numpy(self._anchors).to(vectors.device).T
        similarities = Similarities(passages, pairs, self._settings.temperature)
        blocks: dict[Block, tuple[Tensor, Tensor]] = {
            name: _select_columns(similarities.block(name, pair, passage), negatives)
            for name, negatives in self._negatives.items()
        }
        losses = row_losses(similarities.cells(pair, passage), blocks, self._settings)
        return (torch.from_numpy(self._weights).to(vectors.device) * losses).sum() / self._weight_of_all

    def equal_scores_loss(self) -> float:
        """The loss if all candidates scored the same."""
        masks = {name: negatives.mask for name, negatives in self._negatives.items()}
        losses = equal_scores_losses(masks, self._settings)
        return float((self._weights * losses).sum() / (self._weight_of_all or 1.0))


def _select_columns(scores: Tensor, negatives: BlockNegatives) -> tuple[Tensor, Tensor]:
    if negatives.columns is not None:
        scores = scores.gather(1, torch.from_numpy(negatives.columns).to(scores.device))
    return scores, torch.from_numpy(negatives.mask).to(scores.device)


def _anchor_weights(relevant: NDArray[np.int64], settings: TrainSettings) -> Weights:
    """The weight of every anchor of every worker: `plain_weight` without an instruction, 0 for a repeated one."""
    weights = np.where(relevant[:, 0] == 0, settings.retention.plain_weight, 1.0)
    return (weights * is_first_occurrence(relevant)).astype(np.float32)


class _BaseRegulariser:
    """A penalty on the distance to the base: the means of 1 - cos(now, base) over passages and over bare queries."""

    def __init__(self, base: Encoder, batch: Batch, gathered: GatheredKeys, retention: RetentionSettings) -> None:
        weights = _regulariser_weights(batch, gathered, retention)
        self._rows = np.flatnonzero(weights)
        self._weights = torch.from_numpy(weights[self._rows]).to(base.device)
        passage_count = len(batch.passages)
        with torch.no_grad():
            self._targets = base.encode(
                [batch.passages[row] for row in self._rows if row < passage_count],
                [batch.pairs[row - passage_count] for row in self._rows if row >= passage_count],
            )

    def loss(self, vectors: Tensor) -> Tensor:
        if not len(self._rows):
            return vectors.new_zeros(())
        distances = 1 - (vectors[torch.from_numpy(self._rows).to(vectors.device)] * self._targets).sum(1)
        return (self._weights * distances).sum()


def _regulariser_weights(batch: Batch, gathered: GatheredKeys, retention: RetentionSettings) -> Weights:
    """The weight of each of this worker's texts, passages first; each mean is over the texts of all workers."""
    passages = is_first_occurrence(gathered.keys.passages)
    is_bare = (gathered.keys.pairs[:, 0] == 0) & (gathered.keys.pairs[:, 2] == 1)
    bare_queries = is_first_occurrence(gathered.keys.pairs) & is_bare
    own_passages = passages[gathered.passage : gathered.passage + len(batch.passages)]
    own_queries = bare_queries[gathered.pair : gathered.pair + len(batch.pairs)]
    of_passages = own_passages * (retention.pull_passages / max(1, passages.sum()))
    of_queries = own_queries * (retention.pull_queries / max(1, bare_queries.sum()))
    weights: Weights = np.concatenate((of_passages, of_queries)).astype(np.float32)
    return weights
