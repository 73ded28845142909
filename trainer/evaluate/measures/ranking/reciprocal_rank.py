"""RR: one over the rank of the first relevant document, 0 where none was retrieved.

Kantor and Voorhees, The TREC-5 confusion track, Information Retrieval 2, 2000. trec_eval's `recip_rank`.
"""

from dataclasses import dataclass

from foil.trainer.evaluate.measures.ranking.ranking_measure import RankingMeasure, RelevantRanks, at, up_to


@dataclass(frozen=True, slots=True)
class ReciprocalRank(RankingMeasure):
    """RR of the first `cutoff` ranks, or of all.

    >>> import numpy as np
    >>> found = RelevantRanks(np.array([1.0, 1.0]), np.array([4.0, 3.0]))
    >>> ReciprocalRank().value(found), ReciprocalRank(2).value(found)
    (0.3333333333333333, 0.0)
    """

    cutoff: int | None = None

    @property
    def name(self) -> str:
        return f"RR{at(self.cutoff)}"

    def value(self, ranking: RelevantRanks) -> float:
        first = float(ranking.ranks.min())
        return 1.0 / first if first <= up_to(self.cutoff) else 0.0
