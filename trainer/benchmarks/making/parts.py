"""A benchmark with some of its queries or documents alone."""

from collections.abc import Container
from dataclasses import replace

from foil.trainer.benchmarks.benchmark import Benchmark


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
