"""BM25: the texts of a corpus that are nearest to a query, as hard negatives for corpora that have none.

Promise: the same texts and queries give the same neighbours in the same order; equal scores are ordered by position. An
excluded text is never returned, nor a text that shares no word with the query.
Price: the index holds one float and one integer for each distinct word of each text, about as much memory as the texts.
A query costs one pass over the postings of its words and one over the scores of all texts.
"""

import os
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # else bm25s, by JAX where there is one, takes three quarters of a GPU
import bm25s

with suppress(ImportError):
    from tqdm import tqdm  # type: ignore[import-untyped]

    tqdm.set_lock(threading.RLock())  # bm25s uses it; its own lock is a semaphore that a killed process leaves behind


WITHOUT_STOP_WORDS: Mapping[str, Any] = {"stopwords": "en"}
"""Lower-cased words of two letters and more, but for English stop words."""
ALL_WORDS: Mapping[str, Any] = {"stopwords": [], "token_pattern": r"\w+"}
"""Every lower-cased word: `not` and `without` are stop words, and decide instructions."""


class Bm25Index:
    """Okapi BM25 in Lucene's form over the words of the texts; `spelling` says which are words.

    Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009, section 3; by `bm25s`.
    """

    def __init__(
        self, texts: Sequence[str], k1: float = 1.5, b: float = 0.75, spelling: Mapping[str, Any] = WITHOUT_STOP_WORDS
    ) -> None:
        tokens = bm25s.tokenize(list(texts), show_progress=False, **spelling)
        self._index = bm25s.BM25(method="lucene", k1=k1, b=b) if tokens.vocab else None
        if self._index is not None:
            self._index.index(tokens, show_progress=False)

    def nearest(self, queries: Sequence[str], k: int, exclude: Sequence[Collection[int]]) -> list[list[int]]:
        """For each query the positions of its `k` best texts, best first, without those in its `exclude`.

        There are fewer if fewer texts share a word with the query.
        """
        pairs = zip(words_of(queries), exclude, strict=True)
        return [self._nearest(words, k, excluded) for words, excluded in pairs]

    def scores(self, words: Sequence[str]) -> NDArray[np.float32] | None:
        """The score of every text for a query of these words (`words_of`), [texts]; None if no text has one of them."""
        if self._index is None:
            return None
        token_ids = self._index.get_tokens_ids(words)
        scores: NDArray[np.float32] | None = self._index.get_scores_from_ids(token_ids) if token_ids else None
        return scores

    def _nearest(self, words: list[str], k: int, excluded: Collection[int]) -> list[int]:
        scores = self.scores(words) if k > 0 else None
        if scores is None:
            return []
        scores[list(excluded)] = 0.0
        return best_positions(scores, k)


def words_of(queries: Sequence[str], spelling: Mapping[str, Any] = WITHOUT_STOP_WORDS) -> list[list[str]]:
    """The words of each query, split as an index of the same spelling splits its texts."""
    words: list[list[str]] = bm25s.tokenize(list(queries), return_ids=False, show_progress=False, **spelling)
    return words


def best_positions(scores: NDArray[np.float32], k: int, threshold: float = 0.0) -> list[int]:
    """The positions of the `k` highest scores above the threshold, highest first, equal scores by position."""
    positions = np.flatnonzero(scores > threshold)
    top_scores = scores[positions]
    if k < len(positions):  # partitioning all the scores, mostly zeros, would take a hundred times as long
        is_top = top_scores >= np.partition(top_scores, -k)[-k]
        positions, top_scores = positions[is_top], top_scores[is_top]
    order = np.argsort(-top_scores, kind="stable")[:k]
    return [int(position) for position in positions[order]]
