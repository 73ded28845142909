"""Does a retriever follow the instruction? p-MRR (FollowIR) and both-views pair accuracy (Dual-View).

p-MRR asks how far a passage moves between two rankings of the same query; it also rises for a model that merely
ranks worse, so it is read beside the p-MRR of the passages that ought to stay, and their difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Change = tuple[int, int]
"""The rank of one passage, from 1, before and after the instruction changed."""


def rank_change(before: int, after: int) -> float:
    """How far a passage fell, in (-1, 1): positive when it fell, 0 when it stayed (FollowIR, eq. 1).

    >>> [rank_change(4, 4), rank_change(4, 1), rank_change(1, 4), rank_change(10, 5), rank_change(1, 1000)]
    [0.0, -0.75, 0.75, -0.5, 0.999]
    """
    return after / before - 1 if before >= after else 1 - before / after


def missing_rank(retrieved: int) -> int:
    """The rank given to a passage that a ranking of `retrieved` passages does not hold.

    >>> round(rank_change(3, missing_rank(100)), 6)
    0.970297
    """
    return retrieved + 1


def p_mrr(changes: Mapping[str, Sequence[Change]], polarity: int = 1) -> float:
    """Mean over a query's passages of their rank change, then mean over queries; NaN where no query has any.

    `polarity` is +1 for passages that the instruction made irrelevant (falling is right), -1 for passages that it
    made relevant (rising is right).

    >>> p_mrr({"q1": [(1, 4), (4, 1)], "q2": [(2, 4)]})
    0.25
    >>> p_mrr({"q1": [(4, 1)]}, polarity=-1)
    0.75
    """
    means = [np.mean([rank_change(*change) for change in of_query]) for of_query in changes.values() if of_query]
    return polarity * float(np.mean(means)) if means else float("nan")


def both_views(scores: NDArray[np.floating]) -> bool:
    """Whether each of two opposite instructions puts its own passage first; a tie is a failure.

    `scores`, [2, 2]: row = instruction, column = passage; passage i is the right one under instruction i.

    >>> both_views(np.array([[0.9, 0.2], [0.3, 0.4]])), both_views(np.array([[0.9, 0.2], [0.5, 0.5]]))
    (True, False)
    """
    return bool(scores[0, 0] > scores[0, 1] and scores[1, 1] > scores[1, 0])
