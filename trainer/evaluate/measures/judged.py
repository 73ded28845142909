"""What a measure is given: judgments, the scores of a run, and which queries are variants of one information need."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

Qrels = Mapping[str, Mapping[str, int]]
"""query id -> document id -> relevance; a document is relevant from 1 on."""
Run = Mapping[str, Mapping[str, float]]
"""query id -> document id -> score; more is better."""


class VariantOfQuery(Protocol):
    """What a measure needs to know of a query.

    `core` is the same for all variants of one information need. `mode` is one of "original", "instructed", "reversed",
    "changed" and "variant".
    """

    @property
    def id(self) -> str: ...

    @property
    def core(self) -> str: ...

    @property
    def mode(self) -> str: ...


@dataclass(frozen=True, slots=True)
class SingleQuery:
    """A query that has no other variants."""

    id: str
    mode: str = "original"

    @property
    def core(self) -> str:
        """Its own id: no other query asks for the same."""
        return self.id


def single_queries(qrels: Qrels) -> list[SingleQuery]:
    """The judged queries of a collection without variants."""
    return [SingleQuery(query) for query in qrels]


def judged_queries(queries: Iterable[VariantOfQuery], qrels: Qrels) -> list[VariantOfQuery]:
    """Those with judgments, relevant or not; only they have values."""
    return [query for query in queries if qrels.get(query.id)]


def missing_queries(queries: Iterable[VariantOfQuery], qrels: Qrels, run: Run) -> list[str]:
    """The ids of judged queries for which the run has no document: each counts 0 in every measure.

    >>> qrels = {"a": {"d": 1}, "b": {"d": 1}}
    >>> missing_queries(single_queries(qrels), qrels, {"a": {"d": 2.0}})
    ['b']
    """
    return [query.id for query in judged_queries(queries, qrels) if not run.get(query.id)]


def relevant_documents(qrels: Qrels, query: str) -> list[str]:
    """The documents with relevance 1 or more, in the order of the judgments."""
    return [document for document, relevance in qrels.get(query, {}).items() if relevance > 0]


def by_core(queries: Iterable[VariantOfQuery]) -> dict[str, list[VariantOfQuery]]:
    """The variants of each information need."""
    cores: dict[str, list[VariantOfQuery]] = {}
    for query in queries:
        cores.setdefault(query.core, []).append(query)
    return cores
