"""Does a retriever follow the instruction? p-MRR (FollowIR) and both-views pair accuracy (Dual-View).

p-MRR is how far a passage moves between two rankings of the same query. It also rises for a model that merely ranks
worse, so it is read beside the p-MRR of the passages that should stay, and their difference.
"""

import numpy as np
from numpy.typing import NDArray


def rank_change(before: int, after: int) -> float:
    """How far a passage fell, in (-1, 1): positive when it fell, 0 when it stayed (FollowIR, eq. 1).

    >>> [rank_change(4, 4), rank_change(4, 1), rank_change(1, 4), rank_change(10, 5), rank_change(1, 1000)]
    [0.0, -0.75, 0.75, -0.5, 0.999]
    """
    return after / before - 1 if before >= after else 1 - before / after


def both_views(scores: NDArray[np.floating]) -> bool:
    """Whether each of two opposite instructions puts its own passage first; a tie is a failure.

    `scores`, [2, 2]: row = instruction, column = passage; passage i is the right one under instruction i.

    >>> both_views(np.array([[0.9, 0.2], [0.3, 0.4]])), both_views(np.array([[0.9, 0.2], [0.5, 0.5]]))
    (True, False)
    """
    return bool(scores[0, 0] > scores[0, 1] and scores[1, 1] > scores[1, 0])
