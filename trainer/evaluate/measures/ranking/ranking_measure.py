"""What all ranking measures share: a query is its relevant documents, with their relevance and their ranks."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
