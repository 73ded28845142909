"""A published benchmark as systems and measures see it: documents, queries with instructions, judgments.

A benchmark is one collection. What is published as several (six dimensions of InfoSearch, 126 tasks of MAIR) is read
as several benchmarks, one at a time, since each ranks its own documents.
"""

import hashlib
import logging
from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from foil.engine.errors import UsageError
from foil.engine.ids import canonical_json
from foil.engine.seeds.files.ledger import Ledger
from foil.trainer.evaluate.measures.judged import Qrels, relevant_documents

LOG = logging.getLogger(__name__)

Mode = Literal["original", "instructed", "reversed", "changed", "variant"]
"""Without the condition, with it, and with its opposite (InfoSearch, section 2.3); an instruction that was altered
(FollowIR); one of several of equal standing (InstructIR)."""

Documents = Mapping[str, tuple[str, str]]
"""Document id -> (title, text)."""


@dataclass(frozen=True, slots=True)
class EvaluationQuery:
    """One query under one instruction ("" for none). Queries of the same `core` differ in their instructions alone."""

    id: str
    query: str
    instruction: str = ""
    core: str = ""
    mode: Mode = "original"
    dimension: str = ""
    domain: str = ""


@dataclass(frozen=True)
class Benchmark:
    """One collection. `candidates`, where it has them, are the documents of each query that a system orders.

    `headline`: the one of `measures` whose mean over the queries as they were, and over collections that may have
    others, its authors call the score. `excluded`: documents that stand in no ranking of a query. `ledger`: what of
    its files was not taken as it stands.
    """

    name: str
    revision: str
    documents: Documents
    queries: tuple[EvaluationQuery, ...]
    qrels: Qrels
    candidates: Mapping[str, tuple[str, ...]] | None = None
    measures: tuple[str, ...] = ("nDCG@10",)
    headline: str = ""
    excluded: Mapping[str, frozenset[str]] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger, compare=False)

    @cached_property
    def digest(self) -> str:
        """The sha256 of all content, in any order of its files; name, revision and measures do not count."""
        queries = {query.id: asdict(query) for query in self.queries}
        digest = hashlib.sha256()
        excluded = {query: sorted(documents) for query, documents in self.excluded.items()}
        for part in (self.documents, queries, self.qrels, self.candidates or {}, *([excluded] if excluded else [])):
            for line in _lines(part):
                digest.update(line)
            digest.update(b"\n")
        return digest.hexdigest()


def _lines(part: Mapping[str, Any]) -> Iterable[bytes]:
    return (canonical_json([key, part[key]]).encode("utf-8", "surrogatepass") + b"\n" for key in sorted(part))


def checked(benchmark: Benchmark) -> Benchmark:
    """The benchmark, if its parts belong together.

    Relevant documents that are missing stay unretrieved; these and judged queries that are missing are noted in its
    ledger. Queries without a list where others have one are reported. Raises
    UsageError where nothing can be ranked, where an id stands twice, or where a candidate is no document.
    """
    ids, name = {query.id for query in benchmark.queries}, benchmark.name
    if len(ids) < len(benchmark.queries) or not ids or not benchmark.documents:
        raise UsageError(f"{name} has {len(benchmark.documents):,} documents and {len(ids):,} queries, of "
                         f"{len(benchmark.queries):,} that its files name; each needs one id of its own")  # fmt: skip
    relevant = {document for query in ids for document, grade in benchmark.qrels.get(query, {}).items() if grade > 0}
    missing = relevant - benchmark.documents.keys()
    if missing == relevant:
        example = next(iter(benchmark.qrels), "nothing")
        raise UsageError(f"{name}: no document is relevant to any query (the qrels judge e.g. {example!r}); check that "
                         "queries, qrels and documents belong together")  # fmt: skip
    if benchmark.candidates is None:
        benchmark.ledger.note("missing_documents", repr(min(missing, default="")), len(missing))
    unasked = benchmark.qrels.keys() - ids
    benchmark.ledger.note("missing_queries", repr(min(unasked, default="")), len(unasked))
    alike = _views_alike(benchmark)
    benchmark.ledger.note("views_alike", repr(min(alike, default="")), len(alike))
    listless = [] if benchmark.candidates is None else sorted(ids - benchmark.candidates.keys())
    if listless:
        LOG.warning("%s: %s of %s queries have no list of candidates and count 0, e.g. %s", name, len(listless),
                    len(ids), listless[0])  # fmt: skip
    for query, documents in (benchmark.candidates or {}).items():
        if unknown := [document for document in documents if document not in benchmark.documents]:
            raise UsageError(f"{name}: candidate {unknown[0]!r} of query {query!r} is no document; complete the corpus")
    return benchmark


def _views_alike(benchmark: Benchmark) -> set[str]:
    """Cores of which two views have the same words, and relevant documents of their own."""
    documents: dict[tuple[str, ...], set[frozenset[str]]] = {}
    for query in benchmark.queries:
        if query.core and query.mode != "original" and (relevant := relevant_documents(benchmark.qrels, query.id)):
            documents.setdefault((query.core, query.query, query.instruction), set()).add(frozenset(relevant))
    return {core for (core, *_), own in documents.items() if len(own) > 1}


def unreachable(benchmark: Benchmark) -> tuple[int, int]:
    """How many judgments no system can rank, and how many of them are relevant: documents that are missing, excluded,
    or no candidates of their query."""
    lists, grades = benchmark.candidates, list[int]()
    for query in benchmark.queries:
        reached = benchmark.documents if lists is None else set(lists.get(query.id, ()))
        judged, excluded = benchmark.qrels.get(query.id, {}).items(), benchmark.excluded.get(query.id, ())
        grades += (grade for name, grade in judged if name not in reached or name in excluded)
    return len(grades), sum(grade > 0 for grade in grades)


def only_queries(benchmark: Benchmark, keep: Container[str]) -> Benchmark:
    """The benchmark with these queries, their judgments and candidates; all documents stay."""
    queries = tuple(query for query in benchmark.queries if query.id in keep)
    names = {query.id for query in queries}
    qrels = {query: grades for query, grades in benchmark.qrels.items() if query in names}
    lists = benchmark.candidates and {query: ids for query, ids in benchmark.candidates.items() if query in names}
    return replace(benchmark, queries=queries, qrels=qrels, candidates=lists)


def only_documents(benchmark: Benchmark, keep: Container[str]) -> Benchmark:
    """The benchmark with these documents, in their order; judgments of others stay, candidates do not."""
    documents = {name: parts for name, parts in benchmark.documents.items() if name in keep}
    lists = benchmark.candidates and {
        query: tuple(name for name in ids if name in documents) for query, ids in benchmark.candidates.items()
    }
    return replace(benchmark, documents=documents, candidates=lists)
