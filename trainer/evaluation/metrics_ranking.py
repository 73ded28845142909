"""Ranking metrics as trec_eval defines them, in numpy: nDCG@k, reciprocal rank, average precision.

Conventions: documents are sorted by score, descending, compared in single precision; ties go to the docid that comes
*last* in string order; gain = max(relevance, 0), linear; discount = log2(rank + 1); a document is relevant from
relevance 1 on; average precision is divided by all relevant documents. A query without relevant documents scores 0.
Price: no C dependency, and about the time of the C tool (the sort dominates).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.errors import SeedFormatError, UsageError

Floats = NDArray[np.floating]
Qrels = Mapping[str, Mapping[str, int]]
Run = Mapping[str, Mapping[str, float]]


def order(scores: Floats, docids: Sequence[str]) -> NDArray[np.intp]:
    """Positions of the documents, best first.

    >>> order(np.array([1.0, 1.0, 2.0]), ["a", "b", "c"]).tolist()
    [2, 1, 0]
    """
    rounded = np.asarray(scores, dtype=np.float32)
    if np.isnan(rounded).any():
        raise UsageError(f"the score of {docids[int(np.isnan(rounded).argmax())]!r} is NaN; such a run has no order")
    last_first = np.argsort(np.asarray(docids, dtype=object), kind="stable")[::-1]
    return last_first[np.argsort(-rounded[last_first], kind="stable")]


def ndcg(gains: Floats, ideal: Floats, k: int) -> float:
    """nDCG@k. `gains`: judged relevance by rank; `ideal`: the relevance of all judged documents, in any order.

    >>> round(ndcg(np.array([0, 2, 1, 0, 0]), np.array([2, 1]), 5), 6)
    0.669672
    >>> round(ndcg(np.array([-1, 2]), np.array([-1, 2]), 10), 6)
    0.63093
    """
    best = _dcg(np.sort(ideal)[::-1][:k])
    return _dcg(gains[:k]) / best if best > 0 else 0.0


def _dcg(gains: Floats) -> float:
    return float((np.maximum(gains, 0) / np.log2(np.arange(2, len(gains) + 2))).sum())


def reciprocal_rank(gains: Floats) -> float:
    """One over the rank of the first relevant document, 0 where none was retrieved.

    >>> reciprocal_rank(np.array([0, 0, 1]))
    0.3333333333333333
    """
    hits = np.flatnonzero(gains > 0)
    return 1.0 / float(hits[0] + 1) if len(hits) else 0.0


def average_precision(gains: Floats, relevant: int) -> float:
    """Mean over all `relevant` documents of the precision at their ranks; 0 for those not retrieved.

    >>> average_precision(np.array([-1, 2]), relevant=1)
    0.5
    """
    hits = np.flatnonzero(gains > 0)
    return float((np.arange(1, len(hits) + 1) / (hits + 1)).sum() / relevant) if relevant else 0.0


def evaluate_run(qrels: Qrels, run: Run, k: int = 10) -> dict[str, dict[str, float]]:
    """`ndcg`@k, `rr` and `ap` of every query that has judgments; a query missing from the run scores 0 in all.

    >>> evaluate_run({"q": {"a": 1}}, {"q": {"a": 1.0, "b": 1.0, "c": 1.0}}, k=5)["q"]
    {'ndcg': 0.5, 'rr': 0.3333333333333333, 'ap': 0.3333333333333333}
    """
    return {query: _evaluate_query(judged, run.get(query, {}), k) for query, judged in qrels.items() if judged}


def _evaluate_query(judged: Mapping[str, int], scores: Mapping[str, float], k: int) -> dict[str, float]:
    docids = list(scores)
    ranked = order(np.fromiter(scores.values(), dtype=np.float64, count=len(scores)), docids)
    gains = np.array([judged.get(docids[i], 0) for i in ranked], dtype=np.float64)
    ideal = np.fromiter(judged.values(), dtype=np.float64, count=len(judged))
    relevant = int((ideal > 0).sum())
    return {"ndcg": ndcg(gains, ideal, k), "rr": reciprocal_rank(gains), "ap": average_precision(gains, relevant)}


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """TREC judgments: `query iteration docid relevance`, separated by blanks; keeps the order of the file."""
    qrels: dict[str, dict[str, int]] = {}
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            match line.split():
                case [query, _, docid, relevance] if relevance.lstrip("-").isdigit():
                    qrels.setdefault(query, {})[docid] = int(relevance)
                case []:
                    continue
                case _:
                    raise SeedFormatError(path, number, "`query iteration docid relevance`", line.rstrip("\n"))
    return qrels
