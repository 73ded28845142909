"""Made judgments and rankings of the size of a large evaluation; numpy alone is needed."""

from dataclasses import dataclass
from typing import Any

import numpy as np

DOCUMENTS, RELEVANT, MODES = 1_000, 20, ("original", "instructed", "reversed", "changed")


@dataclass(frozen=True)
class MadeQuery:
    """A query of a made benchmark."""

    id: str
    core: str
    mode: str


def made_benchmark(count: int, distinct_scores: int) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    """Queries in four modes, 20 relevant documents each (fewer under instructions), 1,000 documents a list."""
    random = np.random.default_rng(0)
    names = np.array([f"document-{number:06d}" for number in range(50_000)], dtype=object)
    queries = [MadeQuery(f"q{number}", f"c{number // 4}", MODES[number % 4]) for number in range(count)]
    qrels: dict[str, dict[str, int]] = {}
    run = {}
    for query in queries:
        if query.mode == "original":
            listed = names[random.integers(50_000 - DOCUMENTS) + np.arange(DOCUMENTS)]
            relevant = random.choice(listed, RELEVANT, replace=False)
        run[query.id] = dict(zip(listed, (random.integers(distinct_scores, size=DOCUMENTS) / 8).tolist(), strict=True))
        kept = {"original": relevant, "instructed": relevant[:5]}.get(query.mode, relevant[5:])
        qrels[query.id] = dict.fromkeys(kept, 1)
    return queries, qrels, run
