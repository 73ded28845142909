"""Metrics of a run on Ray: each process gives its numbers to Ray, which serves them on each node.

Promise: Ray adds the prefix `ray_` and labels of its own, WorkerId among them, so a query sums rates over them. Price:
a few microseconds a number; a number is seen after some 10 s, and the series of a dead worker vanish.
"""

from functools import cache, partial
from typing import Any

from ray.util import metrics as ray_metrics

from foil.engine.telemetry.metrics import RUN_LABEL, Meter, Metric, Record, use_meter


def record_in_ray(run: str) -> None:
    """From now on this process, which must be in Ray, records there. `run` is what every series is labelled with."""
    use_meter(Meter(partial(_bind, run)))


@cache
def _family(metric: Metric) -> Any:
    labels = (RUN_LABEL, *metric.labels)
    if metric.kind == "histogram":
        return ray_metrics.Histogram(metric.name, metric.help, boundaries=list(metric.buckets), tag_keys=labels)
    kind = ray_metrics.Counter if metric.kind == "counter" else ray_metrics.Gauge
    return kind(metric.name, metric.help, tag_keys=labels)


def _bind(run: str, metric: Metric, labels: tuple[str, ...]) -> Record:
    tags = {RUN_LABEL: run, **dict(zip(metric.labels, labels, strict=True))}
    family = _family(metric)
    if metric.kind == "counter":
        return partial(_add, family, tags)
    return partial(family.set if metric.kind == "gauge" else family.observe, tags=tags)


def _add(counter: Any, tags: dict[str, str], amount: float) -> None:
    if amount > 0:  # Ray refuses to add nothing
        counter.inc(amount, tags)
