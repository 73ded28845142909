"""SICR: the share of gold documents that the instruction lifts, in rank and score, and its reverse lowers.

InfoSearch (ICLR 2025), arXiv 2410.23841, eq. 1 and 2. As printed it cannot be 1 for a document that is first already.
The released code (EIT-NLP/InfoSearch, 25179c1) accepts one that stays first; of several gold documents of a query it
counts the last alone, over their number; a document that was not retrieved has the score 0 there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from foil.trainer.evaluate.measures.following.gold_changes import GoldChanges, GoldRanks, GoldScores, gold_changes
from foil.trainer.evaluate.measures.following.paired_measure import PairedMeasure
from foil.trainer.evaluate.measures.judged import Qrels, Run, VariantOfQuery


@dataclass(frozen=True, slots=True)
class SICR(PairedMeasure):
    """SICR as printed, or as the released code has it. Of several gold documents the mean (the paper has one)."""

    released: bool = False

    @property
    def name(self) -> str:
        return "SICR(released)" if self.released else "SICR"

    def pair_values(self, variants: Sequence[VariantOfQuery], qrels: Qrels, run: Run) -> list[float]:
        value = released_sicr if self.released else printed_sicr
        return [value(changes) if changes.ranks else 0.0 for changes in gold_changes(variants, qrels, run)]


def printed_sicr(changes: GoldChanges) -> float:
    """The share of an instruction's gold documents that comply (eq. 1)."""
    return float(np.mean([complies(*gold) for gold in zip(changes.ranks, changes.scores, strict=True)]))


def released_sicr(changes: GoldChanges) -> float:
    """1 / gold documents if the last of them complies, else 0."""
    ranks, scores = changes.ranks[-1], _missing_as_zero(changes.scores[-1])
    stays_first = (
        ranks.original == ranks.instructed == 1 < ranks.reversed
        and scores.instructed >= scores.original > scores.reversed
    )
    return (complies(ranks, scores) or stays_first) / len(changes.ranks)


def complies(ranks: GoldRanks, scores: GoldScores) -> bool:
    """Eq. 1: R_ins < R_ori < R_rev and S_ins > S_ori > S_rev.

    >>> ranks = GoldRanks(3, 1, 7)
    >>> complies(ranks, GoldScores(0.6, 0.8, 0.4)), complies(ranks, GoldScores(0.6, 0.55, 0.4))
    (True, False)
    """
    in_ranks = ranks.instructed < ranks.original < ranks.reversed
    return in_ranks and scores.instructed > scores.original > scores.reversed


def _missing_as_zero(scores: GoldScores) -> GoldScores:
    modes = ("original", "instructed", "reversed")
    return replace(scores, **{mode: 0.0 for mode in modes if getattr(scores, mode) == -np.inf})
