"""Both views: of two opposite instructions, each puts its own document before the other's.

The training signal of Dual-View (arXiv 2604.18845) as a measure: chance and a system that ignores instructions are not
rewarded. A tie is a failure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from foil.trainer.evaluate.measures.following.p_mrr import removed_documents
from foil.trainer.evaluate.measures.following.paired_measure import PairedMeasure
from foil.trainer.evaluate.measures.judged import Qrels, Run, VariantOfQuery
from foil.trainer.evaluate.measures.ranks import Floats, scores_of


@dataclass(frozen=True, slots=True)
class BothViews(PairedMeasure):
    """The share of pairs of documents that both instructions rank their way, in [0, 1].

    Two variants with an instruction (any mode but "original") are opposite if each has relevant documents that are not
    relevant to the other. Every such document of the one is paired with every one of the other.
    """

    @property
    def name(self) -> str:
        return "both views"

    def pair_values(self, variants: Sequence[VariantOfQuery], qrels: Qrels, run: Run) -> list[float]:
        instructed = [variant.id for variant in variants if variant.mode != "original"]
        values = []
        for first, second in combinations(instructed, 2):
            own, opposite = removed_documents(qrels, first, second), removed_documents(qrels, second, first)
            if own and opposite:
                values.append(float(np.mean(views_of(run, (first, second), own, opposite))))
        return values


def views_of(run: Run, queries: Sequence[str], own: Sequence[str], opposite: Sequence[str]) -> NDArray[np.bool_]:
    """Whether two queries rank each document of the one against each of the other their way, [own, opposite]."""
    return both_views(np.array([_against_each_other(run, query, own, opposite) for query in queries]))


def _against_each_other(run: Run, query: str, own: Sequence[str], opposite: Sequence[str]) -> list[Floats]:
    """The scores of both documents of each pair, two of [own, opposite]."""
    shape = len(own), len(opposite)
    first, second = scores_of(run, query, own)[:, None], scores_of(run, query, opposite)[None, :]
    return [np.broadcast_to(first, shape), np.broadcast_to(second, shape)]


def both_views(scores: Floats) -> NDArray[np.bool_]:
    """Whether each of two opposite instructions puts its own document first; a tie is a failure.

    `scores`, [2, 2, ...]: first axis = instruction, second = document; document i is the right one under instruction i.

    >>> both_views(np.array([[0.9, 0.2], [0.3, 0.4]])).item(), both_views(np.array([[0.9, 0.2], [0.5, 0.5]])).item()
    (True, False)
    """
    return np.asarray((scores[0, 0] > scores[0, 1]) & (scores[1, 1] > scores[1, 0]))
