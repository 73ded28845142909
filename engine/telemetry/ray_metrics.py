"""Metrics of a run on Ray: each process gives its numbers to Ray, which serves them on each node.

Promise: Ray adds the prefix `ray_` and labels of its own, WorkerId among them, so a query sums rates over them. Price:
a few microseconds a number; a number is seen after some 10 s, and the series of a dead worker vanish.
"""

from functools import cache, partial
from typing import Any

from ray.util import metrics as ray_metrics

from engine.telemetry.metrics import Meter, Metric, Record, use_meter

_VERBS = {"counter": "inc", "gauge": "set", "histogram": "observe"}


def record_in_ray() -> None:
    """From now on this process, which must be in Ray, records there."""
    use_meter(Meter(_bind))


@cache
def _family(metric: Metric) -> Any:
    if metric.kind == "histogram":
        return ray_metrics.Histogram(metric.name, metric.help, boundaries=list(metric.buckets), tag_keys=metric.labels)
    kind = ray_metrics.Counter if metric.kind == "counter" else ray_metrics.Gauge
    return kind(metric.name, metric.help, tag_keys=metric.labels)


def _bind(metric: Metric, labels: tuple[str, ...]) -> Record:
    tags = dict(zip(metric.labels, labels, strict=True))
    verb = getattr(_family(metric), _VERBS[metric.kind])
    return partial(verb, tags=tags)
