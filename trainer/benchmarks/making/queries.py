"""Fewer queries that still cover what is asked: K-means over their vectors, and the nearest query to each centre.

MAIR (arXiv 2410.10127, section 2.2) draws one query of each of 100 clusters at random; the nearest one is kept here, so
that the sample follows from vectors and seed. Variants of one core are sampled together.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from foil.trainer.benchmarks.benchmark import Benchmark
from foil.trainer.benchmarks.making.parts import only_queries

Vectors = NDArray[np.floating]


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
