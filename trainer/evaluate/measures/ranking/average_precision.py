"""AP: the mean over all relevant documents of the precision at their ranks; 0 for those not retrieved.

Buckley and Voorhees, Retrieval system evaluation, in TREC: Experiment and Evaluation in IR, 2005. As trec_eval's `map`
and `map_cut`: divided by all relevant documents, also under a cutoff.
"""

from dataclasses import dataclass

import numpy as np

from foil.trainer.evaluate.measures.ranking.ranking_measure import RankingMeasure, RelevantRanks, at, up_to


@dataclass(frozen=True, slots=True)
class AveragePrecision(RankingMeasure):
    """AP of the first `cutoff` ranks, or of all.

    >>> AveragePrecision().value(RelevantRanks(np.array([2.0, 1.0]), np.array([2.0, np.inf])))
    0.25
    """

    cutoff: int | None = None

    @property
    def name(self) -> str:
        return f"AP{at(self.cutoff)}"

    def value(self, ranking: RelevantRanks) -> float:
        hits = np.sort(ranking.ranks[ranking.ranks <= up_to(self.cutoff)])
        return float((np.arange(1, len(hits) + 1) / hits).sum() / len(ranking.ranks))
