"""WISE: rewards a gold document that the instruction lifts and its reverse lowers, most at the top; else a penalty.

InfoSearch (ICLR 2025), arXiv 2410.23841, eq. 3 to 6. K = 20 there. In eq. 4 the root is of R_ori - R_ins alone and K
divides it afterwards, as in the released code and in the paper's heat map. The paper's text says that larger gains earn
more; for one R_ins the equation has the opposite. The released code (EIT-NLP/InfoSearch, 25179c1) wants R_ori < N for
the full reward, the paper R_ori <= N.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from foil.trainer.evaluate.measures.following.gold_changes import GoldRanks, gold_changes
from foil.trainer.evaluate.measures.following.paired_measure import PairedMeasure
from foil.trainer.evaluate.measures.judged import Qrels, Run, VariantOfQuery


@dataclass(frozen=True, slots=True)
class WISE(PairedMeasure):
    """WISE with the top `k` ranks and N `positives` (those of the core query where None); `released`: as in the code.

    `ideal`: what a re-ranker of this run's original lists would get at best. It puts every gold document first under
    the instruction, and one rank lower under its reverse (the column "Ideal" of the paper's tables 17 to 22).
    """

    k: int = 20
    positives: int | None = None
    released: bool = False
    ideal: bool = False

    @property
    def name(self) -> str:
        options = [f"K={self.k}"] if not self.released else ["released", *([f"K={self.k}"] if self.k != 20 else [])]
        options += [] if self.positives is None else [f"N={self.positives}"]
        return f"{'ideal ' if self.ideal else ''}WISE({','.join(options)})"

    def pair_values(self, variants: Sequence[VariantOfQuery], qrels: Qrels, run: Run) -> list[float]:
        changes = gold_changes(variants, qrels, run)
        return [float(np.mean([self.value(gold, each.positives) for gold in each.ranks] or [0])) for each in changes]

    def value(self, ranks: GoldRanks, positives: int) -> float:
        """The value of one gold document whose core query has so many relevant ones."""
        if self.ideal:
            ranks = GoldRanks(ranks.original, 1, ranks.original + 1)
        n = positives if self.positives is None else self.positives
        if ranks.instructed <= ranks.original < ranks.reversed:
            return reward(ranks.original, ranks.instructed, self.k, n - self.released)
        return penalty(ranks)


def reward(original: int, instructed: int, k: int, full_until: int) -> float:
    """Eq. 4; an original rank up to `full_until` earns 1 if the instruction puts the document first.

    >>> [round(reward(*ranks, k=20, full_until=4), 6) for ranks in [(4, 1), (5, 1), (3, 2), (20, 1), (25, 1)]]
    [1.0, 0.9, 0.671751, 0.782055, 0.01]
    """
    if original <= full_until and instructed == 1:
        return 1.0
    return (1 - sqrt(original - instructed) / k) / sqrt(instructed) if original <= k else 0.01


def penalty(ranks: GoldRanks) -> float:
    """Eq. 5, in its order of cases: without a move under the instruction it is 0, whatever the reverse does.

    >>> [penalty(GoldRanks(*ranks)) for ranks in [(2, 5, 9), (5, 8, 5), (5, 3, 2), (4, 8, 2), (5, 5, 2)]]
    [-0.6, -0.375, -0.6, -1.0, 0.0]
    """
    if ranks.reversed < ranks.original < ranks.instructed:
        return -1.0
    if ranks.original <= ranks.instructed:
        return (ranks.original - ranks.instructed) / ranks.instructed
    return (ranks.reversed - ranks.original) / ranks.original
