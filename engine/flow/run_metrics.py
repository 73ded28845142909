"""What a session tells of its run: the growth of its counts since it was told last."""

from collections import Counter
from collections.abc import Iterator

from engine.flow.progress import Counts
from engine.telemetry.metrics import CALLS, DOLLARS, REJECTS, SEEDS, TOKENS, TOPICS, Metric

_Series = tuple[Metric, tuple[str, ...]]


class CountRecorder:
    """Records counts as counters that only grow: seeds that a dead worker takes along are counted once."""

    def __init__(self) -> None:
        self._told: Counter[_Series] = Counter()

    def record(self, counts: Counts) -> None:
        """Records what has come since the highest counts before."""
        for metric, labels, value in _series_of(counts):
            grown = value - self._told[metric, labels]
            if grown > 0:
                metric.record(grown, *labels)
                self._told[metric, labels] = value  # type: ignore[assignment]  # dollars are no whole number


def _series_of(counts: Counts) -> Iterator[tuple[Metric, tuple[str, ...], float]]:
    for outcome, seeds in counts.seeds.items():
        yield SEEDS, (outcome,), seeds
    for outcome, topics in counts.topics.items():
        yield TOPICS, (outcome,), topics
    for name, topics in counts.validators.items():
        check, _, outcome = name.rpartition(" ")
        if outcome == "reject":
            yield REJECTS, (check,), topics
    yield CALLS, (), counts.calls
    yield TOKENS, ("prompt",), counts.prompt_tokens
    yield TOKENS, ("completion",), counts.completion_tokens
    yield DOLLARS, (), counts.cost_usd
