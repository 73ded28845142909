"""InF-Embed's contrastive losses: one engine over score blocks, of which every published loss is a configuration.

For an anchor row i = (passage P, instruction I, query Q) with P relevant to (I, Q), s = similarity / temperature, and
    block P   other passages under (I, Q)              s(p_m ; iq_ii)
    block I   other instructions with the query kept   s(p_i ; iq_ji)
    block IQ  other (instruction, query) pairs         s(p_i ; iq_kk)
    block Q   other queries with the instruction kept  s(p_i ; iq_ik)   (third term of eq. 6 as printed)
`sum` adds one softmax loss per block (eqs. 6, 8-14); `multivariate` puts all blocks into one denominator (eqs. 7,
15-21). Which cells of a block are negatives is decided by `find_negatives`, from the keys of the texts, so a duplicate
of the positive is never a negative and equal negatives count once.

Reference: Zhuang et al., InF-IR, arXiv 2505.21439, section 5.2 and appendix C. The printed equations count the
positive once in every block, which leaves a floor of log(blocks) under the multivariate loss: `each_block`
reproduces them, `once` (the default) does not have it. Relation: P alone is InfoNCE; P and IQ is its symmetric form.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from foil.trainer.model.late_interaction import mean_max_sim
from foil.trainer.settings import Block, LossSettings


def block_scores(anchors: Tensor, candidates: Tensor, temperature: float) -> Tensor:
    """Cosines over temperature in single precision, outside autocast: [R, D] x [C, D] unit vectors -> [R, C].

    In bfloat16 logits at temperature 0.01 would be steps of 0.4.
    """
    with torch.autocast(anchors.device.type, enabled=False):
        return anchors.float() @ candidates.float().T / temperature


class Similarities:
    """The logits of passages and (instruction, query) pairs: cosines, or MeanMaxSim of token vectors, over temperature.

    Token vectors meet once, in one table of all pairs and passages. Single precision, as in `block_scores`.
    """

    def __init__(self, passages: Tensor, pairs: Tensor, temperature: float) -> None:
        self._passages, self._pairs, self._temperature = passages, pairs, temperature
        self._table: Tensor | None = None
        if passages.ndim == 3:
            self._table = mean_max_sim(pairs, passages) / temperature

    def cells(self, pair: Tensor, passage: Tensor) -> Tensor:
        """Of pairs with one passage each, [R]."""
        if self._table is not None:
            return self._table[pair, passage]
        return (self._pairs[pair].float() * self._passages[passage].float()).sum(1) / self._temperature

    def block(self, name: Block, pair: Tensor, passage: Tensor) -> Tensor:
        """Of anchors with all columns of a block, [R, C]: all passages in block P, else all pairs."""
        if self._table is not None:
            return self._table[pair] if name == "P" else self._table.T[passage]
        rows, columns = (self._pairs[pair], self._passages) if name == "P" else (self._passages[passage], self._pairs)
        return block_scores(rows, columns, self._temperature)


def row_losses(positive: Tensor, blocks: Mapping[Block, tuple[Tensor, Tensor]], settings: LossSettings) -> Tensor:
    """The loss of every anchor row, [R].

    Args:
        positive: s_ii, the logits of the rows' own cells, [R].
        blocks: per block its logits, [R, C], and the mask of those that are negatives, [R, C] bool.
        settings: `combine` and `positive_counted` are read here; the temperature is already in the logits.
    """
    negatives = [blocks[name][0].masked_fill(~blocks[name][1], -torch.inf) for name in settings.blocks]
    return COMBINATIONS[settings.combine](positive, negatives, settings)


def equal_scores_losses(negatives: Mapping[Block, NDArray[np.bool_]], settings: LossSettings) -> NDArray[np.float64]:
    """The loss of every row if its positive and all negatives scored the same, [R]; `negatives` are the blocks' masks.

    That is log(candidates): the logarithm of the number of negatives and the positive, as often as it is counted; with
    `sum`, added up over the blocks. A model whose loss stays there tells no candidate from another.
    """
    counts = [negatives[name].sum(1) for name in settings.blocks]
    if settings.combine == "sum":
        return np.asarray(sum(np.log(1.0 + count) for count in counts))
    positives = len(counts) if settings.positive_counted == "each_block" else 1
    return np.asarray(np.log(positives + sum(counts)))


def _sum_blocks(positive: Tensor, negatives: Sequence[Tensor], _: LossSettings) -> Tensor:
    own = positive.unsqueeze(1)
    return torch.stack([torch.cat((own, block), 1).logsumexp(1) - positive for block in negatives]).sum(0)


def _share_denominator(positive: Tensor, negatives: Sequence[Tensor], settings: LossSettings) -> Tensor:
    bonus = math.log(len(negatives)) if settings.positive_counted == "each_block" else 0.0
    return torch.cat((positive.unsqueeze(1) + bonus, *negatives), 1).logsumexp(1) - positive


COMBINATIONS: Mapping[str, Callable[[Tensor, Sequence[Tensor], LossSettings], Tensor]] = {
    "sum": _sum_blocks,
    "multivariate": _share_denominator,
}
"""`combine` -> how (positive [R], logits of each block's negatives [R, C]) become row losses [R]."""
