"""p-MRR: how far documents fall that an instruction makes irrelevant. 0 where nothing moves; more is better.

Weller et al., FollowIR: evaluating and teaching information retrieval models to follow instructions, NAACL 2025,
arXiv 2403.15246, eq. 1. A mean over documents, then over queries. It also rises for a system that merely ranks worse,
so it is read with nDCG or AP of the original queries.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from foil.trainer.evaluate.measures.following.paired_measure import PairedMeasure, in_mode
from foil.trainer.evaluate.measures.judged import Qrels, Run, VariantOfQuery, relevant_documents
from foil.trainer.evaluate.measures.ranks import ranks_of


@dataclass(frozen=True, slots=True)
class PMRR(PairedMeasure):
    """p-MRR between queries of two modes; without modes from the original to changed ones, else to instructed ones.

    It looks at the documents that are relevant to the first query, and not to the second. FollowIR changes the original
    instruction; with `original` and `instructed` the step is from no instruction to one, as in InfoSearch.
    """

    before: str | None = None
    after: str | None = None

    @property
    def name(self) -> str:
        return "p-MRR" if self.before is None else f"p-MRR({self.before}->{self.after})"

    def pair_values(self, variants: Sequence[VariantOfQuery], qrels: Qrels, run: Run) -> list[float]:
        before = in_mode(variants, self.before or "original")
        after = in_mode(variants, self.after) if self.after else in_mode(variants, "changed")
        if self.after is None and not after:
            after = in_mode(variants, "instructed")
        pairs = [(pair, removed_documents(qrels, *pair)) for pair in product(before, after)]
        return [_mean_change(run, *pair, documents) for pair, documents in pairs if documents]


def removed_documents(qrels: Qrels, before: str, after: str) -> list[str]:
    """The documents that are relevant to one query and not to the other; an unjudged one is not relevant."""
    return [document for document in relevant_documents(qrels, before) if qrels[after].get(document, 0) <= 0]


def _mean_change(run: Run, before: str, after: str, documents: Sequence[str]) -> float:
    if not run.get(before) or not run.get(after):
        return 0.0
    ranks = zip(ranks_of(run, before, documents).tolist(), ranks_of(run, after, documents).tolist(), strict=True)
    return float(np.mean([rank_change(first, second) for first, second in ranks]))


def rank_change(before: int, after: int) -> float:
    """How far a document fell, in (-1, 1): positive when it fell, 0 when it stayed (eq. 1).

    >>> [rank_change(4, 4), rank_change(4, 1), rank_change(1, 4), rank_change(10, 5), rank_change(1, 1000)]
    [0.0, -0.75, 0.75, -0.5, 0.999]
    """
    return after / before - 1 if before >= after else 1 - before / after
