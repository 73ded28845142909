"""nDCG: gains discounted by rank, over those of the best possible list.

Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, TOIS 20(4), 2002. As trec_eval's `ndcg_cut`:
the gain is the relevance itself (linear), negative ones count 0; the discount is log2(rank + 1); the best list is that
of all judged documents.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foil.trainer.evaluate.measures.ranking.ranking_measure import RankingMeasure, RelevantRanks, at, up_to


@dataclass(frozen=True, slots=True)
class NDCG(RankingMeasure):
    """nDCG of the first `cutoff` ranks, or of all."""

    cutoff: int | None = None

    @property
    def name(self) -> str:
        return f"nDCG{at(self.cutoff)}"

    def value(self, ranking: RelevantRanks) -> float:
        return ndcg(ranking.relevance, ranking.ranks, self.cutoff)


def ndcg(relevance: NDArray[Any], ranks: NDArray[Any], cutoff: int | None) -> float:
    """nDCG of a query's relevant documents, from their relevance and ranks, [relevant].

    >>> round(ndcg(np.array([2, 1]), np.array([2, 3]), 5), 6)
    0.669672
    """
    near = ranks <= up_to(cutoff)
    best = np.sort(relevance)[::-1][:cutoff]
    return _dcg(relevance[near], ranks[near]) / _dcg(best, np.arange(1, len(best) + 1))


def _dcg(gains: NDArray[Any], ranks: NDArray[Any]) -> float:
    return float((gains / np.log2(ranks + 1)).sum())
