"""R: the share of all relevant documents that is within the cutoff, which never caps it. trec_eval's `recall`."""

from dataclasses import dataclass

from foil.trainer.evaluate.measures.ranking.ranking_measure import RankingMeasure, RelevantRanks, at


@dataclass(frozen=True, slots=True)
class Recall(RankingMeasure):
    """R of the first `cutoff` ranks.

    >>> import numpy as np
    >>> Recall(3).value(RelevantRanks(np.array([1.0, 1.0]), np.array([4.0, 3.0])))
    0.5
    """

    cutoff: int

    @property
    def name(self) -> str:
        return f"R{at(self.cutoff)}"

    def value(self, ranking: RelevantRanks) -> float:
        return float((ranking.ranks <= self.cutoff).mean())
