"""Hard negatives for corpora that have none: the passages of the corpus that BM25 puts nearest to a query.

Promise: the same texts and queries give the same neighbours in the same order (equal scores are ordered by position),
an excluded text is never returned, nor one that shares no word with the query.
Price: the index holds one float and one integer for each distinct word of each text (about as much memory as
the texts); a query costs one pass over the postings of its words and one over the scores of all texts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import bm25s
import numpy as np
from numpy.typing import NDArray


class Bm25Index:
    """Okapi BM25 in Lucene's form (k1 1.5, b 0.75) over lower-cased words without English stop words.

    Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009, section 3; by `bm25s`.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        tokens = bm25s.tokenize(list(texts), stopwords="en", show_progress=False)
        self._index = bm25s.BM25(method="lucene") if tokens.vocab else None
        if self._index is not None:
            self._index.index(tokens, show_progress=False)

    def nearest(self, queries: Sequence[str], k: int, exclude: Sequence[Collection[int]]) -> list[list[int]]:
        """For each query the positions of its at most `k` best texts, best first, none of them in its `exclude`.

        Fewer than `k` come back where fewer texts share a word with the query.
        """
        tokens = words_of(queries)
        return [self._nearest(words, k, banned) for words, banned in zip(tokens, exclude, strict=True)]

    def scores(self, words: Sequence[str]) -> NDArray[np.float32] | None:
        """The score of every text for a query of these words (`words_of`), [texts]; None if no text has any of them."""
        if self._index is None:
            return None
        known = self._index.get_tokens_ids(words)
        found: NDArray[np.float32] | None = self._index.get_scores_from_ids(known) if known else None
        return found

    def _nearest(self, words: list[str], k: int, banned: Collection[int]) -> list[int]:
        scores = self.scores(words) if k > 0 else None
        if scores is None:
            return []
        scores[list(banned)] = 0.0
        return best_positions(scores, k)


def words_of(queries: Sequence[str]) -> list[list[str]]:
    """The words of each query as the index knows them."""
    words: list[list[str]] = bm25s.tokenize(list(queries), stopwords="en", return_ids=False, show_progress=False)
    return words


def best_positions(scores: NDArray[np.float32], k: int, above: float = 0.0) -> list[int]:
    """The positions of the at most `k` highest scores above `above`, highest first, equal scores by position."""
    near = np.flatnonzero(scores > above)
    found = scores[near]
    if k < len(near):  # partitioning all the scores, mostly zeros, would take a hundred times as long
        best = found >= np.partition(found, -k)[-k]
        near, found = near[best], found[best]
    order = np.argsort(-found, kind="stable")[:k]
    return [int(position) for position in near[order]]
