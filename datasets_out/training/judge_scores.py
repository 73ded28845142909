"""What `judge_demands` said of the cells of a topic: P(relevant) of a passage under an intent, as its verdicts keep it.

    a verdict of a passage: `scope` the passage, `evidence` its intent and the votes, `score` the mean P(relevant)

Of several verdicts of a cell the last one counts; one whose votes were all unreadable has no probability. The judge
asks no further once P(relevant) is under its `drop`, so a smaller one is an upper bound. It is not asked about what the
corpus itself says of a cell, so there is none either.
"""

import json
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foil.engine.topic import Verdict

JUDGE, UNREADABLE = "judge_demands", "unreadable_judge"
"""As `validators.judges.demands` and `validators.judges.votes` write them."""
LEAST = 0.01
"""No probability counts as nearer to 0 or 1: beyond it a judge's words are no longer worth their odds."""

Probabilities = Mapping[tuple[str, str], float]
"""(intent, passage) -> P(relevant)."""


def probabilities_of(verdicts: Iterable[Verdict]) -> dict[tuple[str, str], float]:
    """P(relevant) of every cell that the judge could read."""
    probabilities: dict[tuple[str, str], float] = {}
    for verdict in verdicts:
        if verdict.validator == JUDGE and verdict.score is not None and verdict.scope != "topic" and verdict.evidence:
            facts = json.loads(verdict.evidence)
            if any(choice != UNREADABLE for _, choice in facts["votes"]):
                probabilities[facts["intent"], verdict.scope] = verdict.score
    return probabilities


def log_odds(probabilities: ArrayLike) -> NDArray[np.float64]:
    """log(p / (1 - p)), with p from LEAST to 1 - LEAST; NaN stays.

    >>> log_odds([0.5, 0.75, 0.0]).round(3).tolist()
    [0.0, 1.099, -4.595]
    """
    clipped = np.clip(np.asarray(probabilities, dtype=np.float64), LEAST, 1 - LEAST)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))
