"""Ranks as trec_eval gives them: by score in single precision, descending; ties to the document id that comes *last*.

Only the ranks of the documents that a measure asks for are worked out: a rank is one more than the number of scores
above. Document ids are compared only where scores are tied. Price: one numpy sort of the scores a query.
"""

from bisect import bisect_right
from collections.abc import Sequence
from math import isnan

import numpy as np
from numpy.typing import NDArray

from foil.engine.errors import UsageError
from foil.trainer.evaluate.measures.judged import Run

Floats = NDArray[np.floating]
Ranks = NDArray[np.int64]


def order(scores: Floats, docids: Sequence[str]) -> NDArray[np.intp]:
    """Positions of the documents, best first; NaN is a UsageError.

    >>> order(np.array([1.0, 1.0, 2.0]), ["a", "b", "c"]).tolist()
    [2, 1, 0]
    """
    rounded = _single_precision(scores)
    if np.isnan(rounded).any():
        raise UsageError(f"the score of {docids[int(np.isnan(rounded).argmax())]!r} is NaN; such a run has no order")
    last_first = np.argsort(np.asarray(docids, dtype=object), kind="stable")[::-1]
    return last_first[np.argsort(-rounded[last_first], kind="stable")]


def ranked(run: Run, query: str) -> list[str]:
    """All documents of a query, best first."""
    docids = list(run.get(query, {}))
    return [docids[position] for position in order(_all_scores(run, query), docids)]


def scores_of(run: Run, query: str, docids: Sequence[str]) -> Floats:
    """Scores in single precision, [documents]; -inf for those that were not retrieved. NaN is a UsageError."""
    scores = run.get(query, {})
    own = np.array([scores.get(document, -np.inf) for document in docids], dtype=np.float64)
    if np.isnan(own).any():
        raise _no_order(query, docids[int(np.isnan(own).argmax())])
    return _single_precision(own)


def ranks_of(run: Run, query: str, docids: Sequence[str]) -> Ranks:
    """Ranks from 1, [documents]; one more than the number of documents for those that were not retrieved.

    >>> ranks_of({"q": {"a": 1.0, "b": 1.0, "c": 2.0}}, "q", ["a", "b", "c", "d"]).tolist()
    [3, 2, 1, 4]
    """
    scores, retrieved, own = run.get(query, {}), _all_scores(run, query), scores_of(run, query, docids)
    in_order = np.sort(retrieved)
    if len(in_order) and np.isnan(in_order[-1]):
        raise _no_order(query, next(document for document, score in scores.items() if isnan(score)))
    not_above = np.searchsorted(in_order, own, side="right")
    ranks = len(retrieved) - not_above + 1
    is_there = np.array([document in scores for document in docids], dtype=bool)
    tied = is_there & (not_above - np.searchsorted(in_order, own) > 1)
    if tied.any():
        ranks[tied] += _tied_above(
            list(scores), retrieved, own[tied], [docids[place] for place in np.flatnonzero(tied)]
        )
    return np.where(is_there, ranks, len(retrieved) + 1)


def _tied_above(documents: Sequence[str], retrieved: Floats, own: Floats, docids: Sequence[str]) -> list[int]:
    """How many of the retrieved documents have the score of each of `docids`, and an id that comes after it."""
    rivals = {
        score: sorted(documents[position] for position in np.flatnonzero(retrieved == score).tolist())
        for score in set(own.tolist())
    }
    tied = [(rivals[score], document) for score, document in zip(own.tolist(), docids, strict=True)]
    return [len(names) - bisect_right(names, document) for names, document in tied]


def _no_order(query: str, document: str) -> UsageError:
    return UsageError(f"query {query!r}: the score of {document!r} is NaN; such a run has no order")


def _all_scores(run: Run, query: str) -> Floats:
    scores = run.get(query, {})
    return _single_precision(np.fromiter(scores.values(), dtype=np.float64, count=len(scores)))


def _single_precision(scores: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(scores).astype(np.float32)
