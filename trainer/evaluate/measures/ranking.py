"""Measures of one ranked list: a query is its relevant documents, with their relevance and their ranks.

Each is as trec_eval has it (`ndcg_cut`, `map` and `map_cut`, `P`, `recall`, `recip_rank`).
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foil.trainer.evaluate.measures.judged import Qrels, Run, VariantOfQuery, judged_queries, relevant_documents
from foil.trainer.evaluate.measures.ranks import Floats, ranks_of


@dataclass(frozen=True, slots=True)
class RelevantRanks:
    """The relevant documents of a query: relevance (1 or more) and rank (from 1; inf if not retrieved), [relevant]."""

    relevance: Floats
    ranks: Floats


def rank_relevant(queries: Sequence[VariantOfQuery], qrels: Qrels, run: Run) -> dict[str, RelevantRanks]:
    """The relevant documents of every judged query; a query missing from the run has retrieved none of them."""
    return {query.id: _relevant_ranks(query.id, qrels, run) for query in judged_queries(queries, qrels)}


def _relevant_ranks(query: str, qrels: Qrels, run: Run) -> RelevantRanks:
    documents, retrieved = relevant_documents(qrels, query), run.get(query, {})
    ranks = ranks_of(run, query, documents).astype(np.float64)
    ranks[[document not in retrieved for document in documents]] = np.inf
    return RelevantRanks(np.array([qrels[query][document] for document in documents], dtype=np.float64), ranks)


class RankingMeasure(ABC):
    """A measure of each ranked list by itself, in [0, 1]; a query without relevant documents has 0."""

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """As ir_measures writes it."""

    @abstractmethod
    def value(self, ranking: RelevantRanks) -> float:
        """The measure of one query with at least one relevant document."""

    def of(self, ranked: dict[str, RelevantRanks]) -> dict[str, float]:
        """The measure of queries that are ranked already; several measures can share them."""
        return {query: self.value(ranking) if len(ranking.ranks) else 0.0 for query, ranking in ranked.items()}

    def values(self, queries: Sequence[VariantOfQuery], qrels: Qrels, run: Run) -> dict[str, float]:
        """The measure of every judged query, by its id."""
        return self.of(rank_relevant(queries, qrels, run))


def at(cutoff: int | None) -> str:
    """The cutoff as a name ends with it.

    >>> at(10), at(None)
    ('@10', '')
    """
    return "" if cutoff is None else f"@{cutoff}"


def up_to(cutoff: int | None) -> float:
    """The cutoff as a bound of ranks; all retrieved documents where there is none."""
    return sys.float_info.max if cutoff is None else cutoff


@dataclass(frozen=True, slots=True)
class NDCG(RankingMeasure):
    """nDCG of the first `cutoff` ranks, or of all: gains discounted by rank, over those of the best possible list.

    Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, TOIS 20(4), 2002. The gain is the
    relevance itself (linear), negative ones count 0; the discount is log2(rank + 1); the best list is that of all
    judged documents.
    """

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


@dataclass(frozen=True, slots=True)
class AveragePrecision(RankingMeasure):
    """AP of the first `cutoff` ranks, or of all: the mean over all relevant documents of the precision at their ranks.

    Buckley and Voorhees, Retrieval system evaluation, in TREC: Experiment and Evaluation in IR, 2005. Documents that
    were not retrieved count 0; it is divided by all relevant documents, also under a cutoff.

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


@dataclass(frozen=True, slots=True)
class Precision(RankingMeasure):
    """P: the share of the ranks within the cutoff that hold a relevant document, also where fewer were retrieved.

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


@dataclass(frozen=True, slots=True)
class Recall(RankingMeasure):
    """R: the share of all relevant documents that is within the cutoff, which never caps it.

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


@dataclass(frozen=True, slots=True)
class ReciprocalRank(RankingMeasure):
    """RR: one over the rank of the first relevant document, 0 where none is within the cutoff.

    Kantor and Voorhees, The TREC-5 confusion track, Information Retrieval 2, 2000.

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
