"""Exact search with vectors of texts or of their tokens, in blocks: of a local model or an endpoint, through the cache.

Documents are encoded in blocks of BLOCK texts. The scores of QUERIES queries against one block are held at a time,
with the best `k` so far: at most QUERIES x (k + BLOCK) numbers of 12 bytes, whatever the collection's size. Of token
vectors a block has LATE_BLOCK texts, 4 T D bytes each (6 MB for 128 tokens of 96 numbers), and candidates alone are
compared.
Equal scores at the last rank: which of them stay is fixed, not meant.
"""

import io
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from foil.engine.atomic_files import put_bytes
from foil.engine.errors import TrainingDivergedError
from foil.engine.ids import canonical_json, sha256_hex
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark
from foil.trainer.evaluate.measures.judged import Run
from foil.trainer.evaluate.systems.system import Progress, positions_of_candidates, quiet
from foil.trainer.model.late_interaction import similarities
from foil.trainer.text_templates import QueryPair, TextTemplate

LOG = logging.getLogger(__name__)
Floats = NDArray[np.float32]


class VectorCache:
    """The blocks of one encoder on disk, so that an evaluation that was stopped or repeated encodes nothing again.

        FOLDER/<digest of the encoder>/<digest of the block's texts>.npy    float32, [texts, D]; of token vectors which
                                                                            of [texts, T] are tokens, then [tokens, D]

    The digest of an encoder covers its weights, template and lengths. A block's vectors follow from the block alone, so
    a resumed evaluation has the numbers of an undisturbed one. Price: 4 D bytes a text (1.5 kB for 384 numbers), or
    as much a token. `encoded` counts the texts that it did not hold. Without a folder it holds none.
    """

    def __init__(self, folder: Path | None, encoder_digest: str) -> None:
        self._folder = folder / encoder_digest[:32] if folder else None
        self.encoded = 0

    def vectors(self, texts: Sequence[Sequence[str]], encode: Callable[[], Floats]) -> Floats:
        """The vectors of these texts, [texts, ...], from the disk or by `encode()`; those of texts are mapped."""
        path = self._folder / f"{sha256_hex(canonical_json(texts))[:32]}.npy" if self._folder else None
        cached = _read(path, len(texts)) if path else None
        if cached is not None:
            return cached
        vectors = np.ascontiguousarray(encode(), dtype=np.float32)
        if not np.isfinite(vectors).all():
            raise TrainingDivergedError("the model has vectors that are not finite numbers; take another model")
        if path:
            buffer, is_token = io.BytesIO(), vectors.any(-1)
            for part in (vectors,) if vectors.ndim == 2 else (is_token, vectors[is_token]):
                np.save(buffer, part)
            put_bytes(path, buffer.getvalue(), durable=False)
        self.encoded += len(texts)
        return vectors


def _read(path: Path, count: int) -> Floats | None:
    """A block that was saved; None where there is none, or a damaged one, which is then written anew."""
    try:
        vectors = np.load(path, mmap_mode="r")
        if vectors.dtype == bool:
            vectors = _padded(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, EOFError) as error:
        LOG.warning("%s does not read (%s) and is encoded again", path, error)
        return None
    return vectors if vectors.ndim >= 2 and len(vectors) == count else None


def _padded(path: Path) -> Floats:
    """Token vectors, [texts, T, D], with zeros where a text has fewer."""
    with path.open("rb") as file:
        is_token, tokens = np.load(file), np.load(file)
    vectors = np.zeros((*is_token.shape, tokens.shape[1]), dtype=np.float32)
    vectors[is_token] = tokens
    return vectors


BLOCK, QUERIES, LATE_BLOCK = 1_024, 1_024, 128
Best = tuple[Floats, NDArray[np.int64]]
"""Scores and positions of the best documents of some queries, both [queries, at most k]."""


class VectorEncoder(Protocol):
    """Makes unit vectors of passages and of (instruction, query) pairs, or of their tokens, in the template's form."""

    template: TextTemplate

    def facts(self) -> Mapping[str, str | float]:
        """What decides the vectors; `digest` among them."""

    def encode(self, passages: Sequence[str], pairs: Sequence[QueryPair]) -> Floats:
        """[passages + pairs, D], or [passages + pairs, T, D] with zeros where a text has fewer tokens."""


class DenseSystem:
    """An encoder, its cache, and exact search by dot product, or by MeanMaxSim of token vectors."""

    def __init__(self, name: str, encoder: VectorEncoder, cache: VectorCache, on_progress: Progress = quiet) -> None:
        self.name, self.cache = name, cache
        self._encoder, self._on_progress = encoder, on_progress

    def facts(self) -> Mapping[str, str | float]:
        return self._encoder.facts()

    def rank(self, benchmark: Benchmark, k: int) -> Run:
        """The documents most similar to each query."""
        documents = list(benchmark.documents)
        places = positions_of_candidates(benchmark, documents)
        texts = [self._encoder.template.format_passage(*parts) for parts in benchmark.documents.values()]
        run: dict[str, dict[str, float]] = {}
        for start in range(0, len(benchmark.queries), QUERIES):
            queries = benchmark.queries[start : start + QUERIES]
            allowed = [np.array(places[query.id], dtype=np.int64) for query in queries] if places else None
            vectors = self.pair_vectors([(query.instruction, query.query) for query in queries])
            blocks = self._blocks(texts, BLOCK if vectors.ndim == 2 else LATE_BLOCK)
            scores, positions = search(vectors, blocks, k, allowed)
            for query, row, columns in zip(queries, scores.tolist(), positions.tolist(), strict=True):
                ranked = zip(columns, row, strict=True)
                run[query.id] = {documents[place]: score for place, score in ranked if score > -np.inf}
        return run

    def pair_vectors(self, pairs: Sequence[QueryPair]) -> Floats:
        """The vectors of (instruction, query) pairs, [pairs, ...], each different one encoded once."""
        rows = {pair: row for row, pair in enumerate(dict.fromkeys(pairs))}
        unique = list(rows)
        return self.cache.vectors(unique, lambda: self._encoder.encode([], unique))[[rows[pair] for pair in pairs]]

    def _blocks(self, texts: Sequence[str], size: int) -> Iterator[Floats]:
        for start in range(0, len(texts), size):
            yield self._block(texts[start : start + size])
            self._on_progress(f"{self.name}: documents", min(start + size, len(texts)), len(texts))

    def _block(self, texts: Sequence[str]) -> Floats:
        return self.cache.vectors([[text] for text in texts], lambda: self._encoder.encode(texts, []))


def search(
    queries: Floats, blocks: Iterator[Floats], k: int, allowed: Sequence[NDArray[np.int64]] | None = None
) -> Best:
    """The best `k` documents of each query, [queries, ...]; blocks are [documents, ...], in the documents' order.

    `allowed`: the positions that a query may get. What is not allowed has the score -inf.

    >>> vectors = np.array([[1, 0], [3, 1], [2, 0]], dtype=np.float32)
    >>> scores, positions = search(np.eye(2, dtype=np.float32), iter([vectors[:2], vectors[2:]]), 2)
    >>> [sorted(row) for row in positions.tolist()]
    [[1, 2], [0, 1]]
    """
    best: Best = np.empty((len(queries), 0), dtype=np.float32), np.empty((len(queries), 0), dtype=np.int64)
    start = 0
    for block in blocks:
        best = _merged(best, _scores(queries, block, start, allowed), start, k)
        start += len(block)
    return best


def _scores(queries: Floats, block: Floats, start: int, allowed: Sequence[NDArray[np.int64]] | None) -> Floats:
    """[queries, documents of the block]; of token vectors, which take longest, only what is allowed is compared."""
    if allowed is None:
        return similarities(queries, block)
    scores = np.full((len(queries), len(block)), -np.inf, dtype=np.float32)
    of_all = similarities(queries, block) if queries.ndim == 2 else None
    for row, positions in enumerate(allowed):
        inside = positions[(positions >= start) & (positions < start + len(block))] - start
        scores[row, inside] = (
            similarities(queries[row : row + 1], block[inside]) if of_all is None else of_all[row, inside]
        )
    return scores


def _merged(best: Best, scores: Floats, start: int, k: int) -> Best:
    """The best of the earlier blocks and of this one, in no order."""
    positions = np.broadcast_to(np.arange(start, start + scores.shape[1]), scores.shape)
    all_scores, all_positions = np.hstack((best[0], scores)), np.hstack((best[1], positions))
    if all_scores.shape[1] <= k:
        return all_scores, all_positions
    top = np.argpartition(-all_scores, k - 1, axis=1)[:, :k]
    return np.take_along_axis(all_scores, top, 1), np.take_along_axis(all_positions, top, 1)
