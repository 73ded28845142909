"""Fewer queries that still cover what is asked, fewer documents that still tell systems apart, and whether they do.

    queries     K-means over their vectors, and the nearest query to each centre; variants of a core go together
    documents   all judged ones and given candidates, then those of a pool of systems by rank, then others by hash

MAIR (arXiv 2410.10127, section 2.2) draws one query of each of 100 clusters at random; the nearest one is kept here, so
that the sample follows from vectors and seed. It adds unjudged documents at random. Those leave only easy negatives, so
the documents that some system ranks high are kept before them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.cluster import KMeans

from foil.engine.ids import fraction_of
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, only_documents, only_queries
from foil.trainer.evaluate.measures.catalog import measure_named
from foil.trainer.evaluate.measures.judged import Run
from foil.trainer.evaluate.measures.ranks import ranked

Vectors = NDArray[np.floating]
MEASURE = "nDCG@10"


def core_queries(benchmark: Benchmark) -> dict[str, str]:
    """Core -> the text of its first variant."""
    return {query.core: query.query for query in reversed(benchmark.queries)}


def sample_queries(benchmark: Benchmark, vectors: Vectors, count: int, seed: int) -> Benchmark:
    """The benchmark with `count` cores, or fewer where fewer vectors differ.

    `vectors`, [cores, D]: those of `core_queries`, in their order.
    """
    cores = list(core_queries(benchmark))
    if count >= len(cores):
        return benchmark
    chosen = {cores[place] for place in nearest_to_centres(vectors, count, seed)}
    return only_queries(benchmark, {query.id for query in benchmark.queries if query.core in chosen})


def nearest_to_centres(vectors: Vectors, clusters: int, seed: int) -> list[int]:
    """The place of the vector, [vectors, D], that lies nearest to the centre of each cluster; of equal ones the first.

    >>> nearest_to_centres(np.array([[0.0], [0.2], [0.4], [9.0], [9.0]]), 2, seed=0)
    [1, 3]
    """
    count = min(clusters, len(np.unique(vectors, axis=0)))
    clustering = KMeans(count, n_init=10, random_state=seed).fit(np.asarray(vectors, dtype=np.float64))
    distances = np.linalg.norm(vectors - clustering.cluster_centers_[clustering.labels_], axis=1).round(9)
    places = (np.flatnonzero(clustering.labels_ == label) for label in range(count))
    return sorted(int(own[distances[own].argmin()]) for own in places if len(own))


def sample_documents(benchmark: Benchmark, runs: Sequence[Run], count: int, depth: int, seed: int) -> Benchmark:
    """The benchmark with `count` documents, or with all that are judged or candidates where these are more.

    `depth`: ranks of each run that are in the pool.
    """
    needed = {name for name in _needed(benchmark) if name in benchmark.documents}
    rest = sorted(benchmark.documents.keys() - needed, key=lambda name: fraction_of("document", str(seed), name))
    in_order = dict.fromkeys(name for name in chain(_pool(benchmark, runs, depth), rest) if name not in needed)
    return only_documents(benchmark, needed | set(islice(in_order, max(0, count - len(needed)))))


def _needed(benchmark: Benchmark) -> Iterator[str]:
    for query in benchmark.queries:
        yield from benchmark.qrels.get(query.id, ())
        yield from (benchmark.candidates or {}).get(query.id, ())


def _pool(benchmark: Benchmark, runs: Sequence[Run], depth: int) -> Iterator[str]:
    """The first documents of all queries in all runs, then the second ones, and so on."""
    lists: Iterable[list[str]] = (ranked(run, query.id)[:depth] for run in runs for query in benchmark.queries)
    return (name for rank in zip_longest(*lists) for name in rank if name is not None)


def mean_scores(benchmark: Benchmark, runs: Mapping[str, Run]) -> dict[str, float]:
    """System -> mean nDCG@10 over the judged queries, in [0, 1]."""
    values = {
        name: measure_named(MEASURE).values(benchmark.queries, benchmark.qrels, run) for name, run in runs.items()
    }
    return {name: float(np.mean(list(by_query.values()))) for name, by_query in values.items()}


def kendall_tau(before: Mapping[str, float], after: Mapping[str, float]) -> float | None:
    """Kendall's tau-b between two scores of the same systems; None where one of them ties all, or there is one system.

    >>> round(kendall_tau({"a": 0.1, "b": 0.2, "c": 0.3}, {"c": 0.9, "a": 0.3, "b": 0.2}), 4)
    0.3333
    >>> kendall_tau({"a": 0.1, "b": 0.2}, {"a": 0.5, "b": 0.5}) is None
    True
    """
    if len(before) < 2 or len(set(before.values())) < 2 or len({after[name] for name in before}) < 2:
        return None
    return float(stats.kendalltau(list(before.values()), [after[name] for name in before]).statistic)
