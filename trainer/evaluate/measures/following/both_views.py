"""Both views: of two opposite instructions, each puts its own document before the other's.

The training signal of Dual-View (arXiv 2604.18845) as a measure: chance and a system that ignores instructions are not
rewarded. A tie is a failure.

A run's own topics judge passages both ways, and what nobody judged counts for nothing:

    both_views    under I one passage wins and under I' the other (ties fail), of all such pairs of a core
    should_fall   p-MRR of passages that the instruction makes irrelevant, against the query without one
    should_stay   the same for passages that stay relevant: it also rises for a system that merely ranks worse
    net           should_fall - should_stay
    plain_ndcg, plain_rr, instructed_ndcg    of queries without or with an instruction that anything is relevant to

`both views` and `p-MRR` of published benchmarks take what nobody judged for irrelevant, and weigh pairs of queries.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from foil.trainer.evaluate.measures.following.p_mrr import rank_change, removed_documents
from foil.trainer.evaluate.measures.following.paired_measure import PairedMeasure
from foil.trainer.evaluate.measures.judged import Qrels, Run, VariantOfQuery, relevant_documents
from foil.trainer.evaluate.measures.ranking import NDCG, ReciprocalRank, at
from foil.trainer.evaluate.measures.ranks import Floats, ranks_of, scores_of


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


PLAIN = "original"
"""The mode of a query without an instruction."""


@dataclass(frozen=True, slots=True)
class JudgedViews(PairedMeasure):
    """The share of pairs of documents, judged opposite by two instructions, that both rank their way."""

    @property
    def name(self) -> str:
        return "both_views"

    def pair_values(self, variants: Sequence[VariantOfQuery], qrels: Qrels, run: Run) -> list[float]:
        instructed = [variant.id for variant in variants if variant.mode != PLAIN]
        values: list[float] = []
        for first, second in combinations(instructed, 2):
            own, opposite = _refused(qrels, first, second), _refused(qrels, second, first)
            if own and opposite:
                values += views_of(run, (first, second), own, opposite).ravel().astype(float).tolist()
        return values


@dataclass(frozen=True, slots=True)
class JudgedChange(PairedMeasure):
    """How far documents move that the query without an instruction wants, and an instruction refuses or wants too.

    `net` is the first less the second, of cores that have both.
    """

    name: Literal["should_fall", "should_stay", "net"]

    def pair_values(self, variants: Sequence[VariantOfQuery], qrels: Qrels, run: Run) -> list[float]:
        if self.name != "net":
            return _changes(variants, qrels, run, relevant=self.name == "should_stay")
        fall, stay = (_changes(variants, qrels, run, relevant=relevant) for relevant in (False, True))
        return [float(np.mean(fall) - np.mean(stay))] if fall and stay else []


@dataclass(frozen=True, slots=True)
class OfQueries:
    """nDCG (at 10 where no cutoff is named) or RR of the queries without or with an instruction that have an answer."""

    queries: Literal["plain", "instructed"]
    measure: Literal["ndcg", "rr"]
    cutoff: int | None = None

    @property
    def name(self) -> str:
        return f"{self.queries}_{self.measure}{at(self.cutoff)}"

    def values(self, queries: Sequence[VariantOfQuery], qrels: Qrels, run: Run) -> dict[str, float]:
        """The values of these queries, by id."""
        measure = NDCG(self.cutoff or 10) if self.measure == "ndcg" else ReciprocalRank(self.cutoff)
        chosen = [each for each in queries if (each.mode == PLAIN) is (self.queries == "plain")]
        return measure.values([each for each in chosen if relevant_documents(qrels, each.id)], qrels, run)


def _refused(qrels: Qrels, wants: str, refuses: str) -> list[str]:
    """The documents that are relevant to one query, and judged irrelevant to the other."""
    return [document for document in relevant_documents(qrels, wants) if qrels[refuses].get(document, 1) <= 0]


def _changes(variants: Sequence[VariantOfQuery], qrels: Qrels, run: Run, *, relevant: bool) -> list[float]:
    changes: list[float] = []
    plain, instructed = ([each.id for each in variants if (each.mode == PLAIN) is bare] for bare in (True, False))
    for before, after in product(plain, instructed):
        judged = [document for document in relevant_documents(qrels, before) if document in qrels[after]]
        documents = [document for document in judged if (qrels[after][document] > 0) is relevant]
        ranks = zip(ranks_of(run, before, documents).tolist(), ranks_of(run, after, documents).tolist(), strict=True)
        changes += [rank_change(first, second) for first, second in ranks]
    return changes
