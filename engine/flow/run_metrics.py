"""What a session reports of its run: the growth of its counts since its last report."""

import time
from collections import Counter
from collections.abc import Iterator

from foil.engine.flow.limits import BudgetSettings
from foil.engine.flow.progress import Counts
from foil.engine.telemetry.metrics import (
    BUDGET_USED,
    CALLS,
    DOLLARS,
    LAST_COMMIT,
    REJECTS,
    RUN_UP,
    SEEDS,
    SEEDS_IN_FLIGHT,
    TOKENS,
    TOPICS,
    WORKERS,
    Metric,
)

_Series = tuple[Metric, tuple[str, ...]]


class CountRecorder:
    """Records counts as counters that only grow: seeds that a dead worker takes along are counted once."""

    def __init__(self) -> None:
        self._told: Counter[_Series] = Counter()
        self._committed = -1

    def begin(self, workers: int) -> None:
        """Records that a session goes on, and the workers that it wants."""
        RUN_UP.record(1)
        WORKERS.record(workers, "wanted")

    def record_commits(self, partitions: int) -> None:
        """Records when the number of committed partitions has changed."""
        if partitions != self._committed:
            self._committed = partitions
            LAST_COMMIT.record(time.time())

    def end(self) -> None:
        """Records that nothing goes on any more: what reads the last numbers of a run must not take them for now."""
        for metric, labels in ((RUN_UP, ()), (SEEDS_IN_FLIGHT, ()), (WORKERS, ("placed",)), (WORKERS, ("wanted",))):
            metric.record(0, *labels)

    def record(self, counts: Counts) -> None:
        """Records what has come since the highest counts before."""
        for metric, labels, value in _series_of(counts):
            grown = value - self._told[metric, labels]
            if grown > 0:
                metric.record(grown, *labels)
                self._told[metric, labels] = value  # type: ignore[assignment]  # dollars are no whole number


def record_budget(budget: BudgetSettings, counts: Counts) -> None:
    """Records the share of the budget that is spent, of its scarcest part; nothing without a budget."""
    tokens = counts.prompt_tokens + counts.completion_tokens
    limits = ((budget.calls, counts.calls), (budget.tokens, tokens), (budget.usd, counts.cost_usd))
    if shares := [spent / limit for limit, spent in limits if limit]:
        BUDGET_USED.record(max(shares))


def _series_of(counts: Counts) -> Iterator[tuple[Metric, tuple[str, ...], float]]:
    for outcome, seeds in counts.seeds.items():
        yield SEEDS, (outcome,), seeds
    for outcome, topics in counts.topics.items():
        yield TOPICS, (outcome,), topics
    for (check, outcome), topics in counts.validators.items():
        if outcome == "reject":
            yield REJECTS, (check,), topics
    yield CALLS, (), counts.calls
    yield TOKENS, ("prompt",), counts.prompt_tokens
    yield TOKENS, ("completion",), counts.completion_tokens
    yield DOLLARS, (), counts.cost_usd
