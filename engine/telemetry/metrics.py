"""Every number that a run tells its operator, and the one place where numbers are recorded.

    METRIC.record(value, *labels) -> the meter of this process -> Prometheus, Ray, or nothing

A counter adds the value, a gauge is set to it, a histogram observes it.

Promise: a label value is a short lower-case code; any other text becomes `other`, and so do the values after the first
MOST_SERIES of a metric. Price: two dictionary look-ups and what the meter takes; nothing but one call without a meter.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Record = Callable[[float], None]
MOST_SERIES = 64
_LABEL = re.compile(r"[a-z0-9][a-z0-9_]{0,31}")
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""The fixed buckets of the GenAI conventions of OpenTelemetry."""


RUN_LABEL = "run"
"""The label that every series has: which run it is of."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; its labels come behind RUN_LABEL. `merge` says how the gauges of several processes become one."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str
    merge: Literal["sum", "max"] = "sum"
    buckets: tuple[float, ...] = _SECONDS

    def record(self, value: float, *labels: str) -> None:
        """Records a value in the series of these label values."""
        if _current.meter is not None:
            _current.meter.series(self, labels)(value)


class Meter:
    """The series of one process. `bind` opens a series: it gets the metric and label values that are safe to show."""

    def __init__(self, bind: Callable[[Metric, tuple[str, ...]], Record]) -> None:
        self._bind = bind
        self._series: dict[tuple[str, tuple[str, ...]], Record] = {}
        self._opened: Counter[str] = Counter()

    def series(self, metric: Metric, labels: tuple[str, ...]) -> Record:
        """What records a value in this series."""
        return self._series.get((metric.name, labels)) or self._safe_series(metric, labels)

    def _safe_series(self, metric: Metric, labels: tuple[str, ...]) -> Record:
        safe = tuple(label if _LABEL.fullmatch(label) else "other" for label in labels)
        if (metric.name, safe) not in self._series:
            if self._opened[metric.name] >= MOST_SERIES:
                safe = ("other",) * len(labels)
            self._opened[metric.name] += 1
        key = metric.name, safe
        self._series[key] = self._series.get(key) or self._bind(metric, safe)
        return self._series[key]


class _Current:
    meter: Meter | None = None


_current = _Current()


def use_meter(meter: Meter | None) -> None:
    """From now on this process records there; nowhere if None."""
    _current.meter = meter


def is_recording() -> bool:
    """Whether this process records its numbers at all."""
    return _current.meter is not None


SEEDS = Metric("foil_seeds_total", "counter", ("outcome",), "seeds finished: accepted, rejected, failed")
TOPICS = Metric("foil_topics_total", "counter", ("outcome",), "topics finished: accepted, rejected, failed")
REJECTS = Metric("foil_rejects_total", "counter", ("check",), "topics that a validator rejected")
CALLS = Metric("foil_calls_total", "counter", (), "answered requests of finished seeds")
TOKENS = Metric("foil_tokens_total", "counter", ("kind",), "tokens of finished seeds: prompt, completion")
DOLLARS = Metric("foil_cost_usd_total", "counter", (), "US dollars of finished seeds")
BUDGET_USED = Metric("foil_budget_used_share", "gauge", (), "share of the run's budget that is spent", "max")
RUN_UP = Metric("foil_run_up", "gauge", (), "1 while a session of the run goes on, 0 once it has ended", "max")
LAST_COMMIT = Metric(
    "foil_last_commit_timestamp_seconds",
    "gauge",
    (),
    "when the last partition was committed, or the session began",
    "max",
)
SEEDS_IN_FLIGHT = Metric("foil_seeds_in_flight", "gauge", (), "seeds begun and not finished")
WORKERS = Metric("foil_workers", "gauge", ("state",), "workers: placed, wanted")
WORKERS_LOST = Metric("foil_workers_lost_total", "counter", (), "workers that died")
PAID_TWICE = Metric(
    "foil_possibly_paid_twice", "gauge", (), "requests sent and never answered, when the session began and when it ends"
)
RUN_BREAKER_OPEN = Metric("foil_run_breaker_open", "gauge", ("breaker",), "1 where this breaker stopped the run", "max")
COMMIT_SECONDS = Metric("foil_commit_seconds", "histogram", (), "seconds that the commit of a partition took")
REQUESTS = Metric(
    "foil_requests_total",
    "counter",
    ("endpoint", "outcome"),
    "sends to a hosted model: worked, limited (429), failed, abandoned",
)
REQUEST_SECONDS = Metric(
    "foil_request_seconds", "histogram", ("endpoint",), "seconds from the send of a request to its reply"
)
RETRIES = Metric("foil_retries_total", "counter", (), "sends after the first of their request")
REQUESTS_IN_FLIGHT = Metric("foil_requests_in_flight", "gauge", ("endpoint",), "requests sent and not yet ended")
CONCURRENCY_LIMIT = Metric("foil_concurrency_limit", "gauge", ("endpoint",), "the most requests in flight")
LEARNT_RATE = Metric(
    "foil_learnt_requests_per_minute", "gauge", ("endpoint",), "the rate that 429s taught; 0 where none has to hold"
)
ENDPOINT_BREAKER_OPEN = Metric(
    "foil_endpoint_breaker_open", "gauge", ("endpoint",), "1 while an endpoint is taken for down", "max"
)

METRICS = (
    SEEDS, TOPICS, REJECTS, CALLS, TOKENS, DOLLARS, BUDGET_USED, RUN_UP, LAST_COMMIT, SEEDS_IN_FLIGHT, WORKERS,
    WORKERS_LOST, PAID_TWICE, RUN_BREAKER_OPEN, COMMIT_SECONDS, REQUESTS, REQUEST_SECONDS, RETRIES, REQUESTS_IN_FLIGHT,
    CONCURRENCY_LIMIT, LEARNT_RATE, ENDPOINT_BREAKER_OPEN,
)  # fmt: skip
