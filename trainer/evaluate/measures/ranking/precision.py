"""P: the share of the ranks within the cutoff that hold a relevant document. trec_eval's `P`.

Divided by the cutoff also where fewer documents were retrieved.
"""

from dataclasses import dataclass

from foil.trainer.evaluate.measures.ranking.ranking_measure import RankingMeasure, RelevantRanks, at


@dataclass(frozen=True, slots=True)
class Precision(RankingMeasure):
    """P of the first `cutoff` ranks.

    >>> import numpy as np
    >>> Precision(4).value(RelevantRanks(np.array([1.0, 1.0]), np.array([9.0, 3.0])))
    0.25
    """

    cutoff: int

    @property
    def name(self) -> str:
        return f"P{at(self.cutoff)}"

    def value(self, ranking: RelevantRanks) -> float:
        return float((ranking.ranks <= self.cutoff).sum() / self.cutoff)
