"""A model as a miner: every passage encoded once, and each query's best found block by block.

Promise: no matrix of queries x passages is ever whole: at most QUERIES x PASSAGES scores are there at a time; equal
scores are ordered by position. Price: the passages' vectors are held in memory, 4 D bytes each (1.5 GB for a million
of 384 numbers); a query costs 2 D operations a passage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from engine.seeds.bm25 import best_positions
from trainer.mining.miner import Floats, MiningQuery, Pair
from trainer.model.encoder import Encoder

QUERIES, PASSAGES = 128, 65_536
"""How many are multiplied at once: 32 MB of scores."""
TEXTS = 2_048
"""How many are encoded between two words on progress."""


class ModelScorer:
    """Cosines of a model over texts, of which the first `opened` may be found. `told(done, texts)` hears progress."""

    def __init__(
        self, encoder: Encoder, texts: Sequence[str], opened: int, told: Callable[[int, int], None] = lambda *_: None
    ) -> None:
        self._encoder, self._opened = encoder, opened
        self._vectors = np.zeros((len(texts), encoder.model.get_embedding_dimension() or 0), dtype=np.float32)
        for start in range(0, len(texts), TEXTS):
            part = texts[start : start + TEXTS]
            self._vectors[start : start + len(part)] = self._encoded(part, [])
            told(start + len(part), len(texts))

    def ask(self, pairs: Sequence[Pair]) -> MiningQuery:
        return _ModelAsked(self._encoded([], pairs), self._vectors, self._opened)

    def _encoded(self, texts: Sequence[str], pairs: Sequence[Pair]) -> Floats:
        with torch.inference_mode():
            vectors: Floats = self._encoder.encode(texts, pairs).cpu().numpy()
        return vectors


class _ModelAsked:
    def __init__(self, queries: Floats, vectors: Floats, opened: int) -> None:
        self._queries, self._vectors, self._opened = queries, vectors, opened

    def nearest(self, rows: Sequence[int], depth: int) -> list[list[int]]:
        opened, queries = self._vectors[: self._opened], self._queries[list(rows)]
        parts = (queries[start : start + QUERIES] for start in range(0, len(rows), QUERIES))
        return [found for part in parts for found in nearest(part, opened, depth)]

    def scores(self, rows: Sequence[int], positions: Sequence[int]) -> Floats:
        return self._queries[list(rows)] @ self._vectors[list(positions)].T


def nearest(queries: Floats, vectors: Floats, depth: int, block: int = PASSAGES) -> list[list[int]]:
    """For each query, [Q, D], the positions of the `depth` vectors, [P, D], of the highest products, best first.

    >>> nearest(np.eye(2, dtype=np.float32), np.array([[1, 0], [3, 1], [1, 0]], dtype=np.float32), 2, block=2)
    [[1, 0], [1, 0]]
    """
    found = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)) for _ in queries]
    for start in range(0, len(vectors), block):
        scores = queries @ vectors[start : start + block].T
        found = [_merged(best, row, start, depth) for best, row in zip(found, scores, strict=True)]
    return [positions.tolist() for positions, _ in found]


def _merged(
    best: tuple[NDArray[np.int64], Floats], scores: Floats, start: int, depth: int
) -> tuple[NDArray[np.int64], Floats]:
    """The best of what was found before and of a block's scores; what stands before wins where scores are equal."""
    positions, known = best
    floor = float(known[-1]) if len(known) == depth else -np.inf
    near = np.array(best_positions(scores, depth, floor), dtype=np.int64)
    positions, known = np.concatenate((positions, near + start)), np.concatenate((known, scores[near]))
    order = np.argsort(-known, kind="stable")[:depth]
    return positions[order], known[order]
