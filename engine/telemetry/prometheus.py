"""Metrics of a run on one machine, served to Prometheus: its child processes' numbers and its own, as one.

    each process -> its own mapped files in one temporary folder -> summed at each scrape -> http://HOST:PORT/metrics

Promise: the numbers of a child that was killed stay, and its gauges go. Price: a few microseconds a number; a file of
1 MiB for each kind of metric and process.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import prometheus_client
from prometheus_client import multiprocess as untyped_multiprocess
from prometheus_client import values as untyped_values

from foil.engine.errors import UsageError
from foil.engine.telemetry.metrics import RUN_LABEL, Meter, Metric, Record, use_meter

_multiprocess: Any = untyped_multiprocess
_values: Any = untyped_values
_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_KINDS: dict[str, Any] = {
    "counter": prometheus_client.Counter,
    "gauge": prometheus_client.Gauge,
    "histogram": prometheus_client.Histogram,
}
_VERBS = {"counter": "inc", "gauge": "set", "histogram": "observe"}


@contextmanager
def serve_metrics(host: str, port: int, run: str) -> Iterator[None]:
    """Inside, this process records and serves the metrics of itself and its children. Raises UsageError."""
    with tempfile.TemporaryDirectory(prefix="foil-metrics-", ignore_cleanup_errors=True) as folder:
        before = os.environ.get(_FOLDER)
        os.environ[_FOLDER] = folder
        try:
            with _listening(host, port):
                record_here(run)
                yield
        finally:
            use_meter(None)
            os.environ.pop(_FOLDER) if before is None else os.environ.update({_FOLDER: before})


@contextmanager
def _listening(host: str, port: int) -> Iterator[None]:
    registry = prometheus_client.CollectorRegistry()
    _multiprocess.MultiProcessCollector(registry)
    try:
        server, thread = prometheus_client.start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise UsageError(
            f"metrics cannot be served at {host}:{port} ({error.strerror}); set runtime.metrics_port to a free port"
        ) from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def record_here(run: str) -> None:
    """From now on this process records into the folder that its environment names; nothing without one. `run` is what
    every series is labelled with."""
    if os.environ.get(_FOLDER):
        _values.ValueClass = _values.MultiProcessValue()
        use_meter(Meter(_binder(run)))


def forget_process(pid: int | None) -> None:
    """Takes the gauges of a process that has ended out of the sums."""
    if pid is not None and os.environ.get(_FOLDER):
        _multiprocess.mark_process_dead(pid)


def _binder(run: str) -> Any:
    @cache
    def family(metric: Metric) -> Any:
        options: dict[str, Any] = {"registry": None}
        if metric.kind == "gauge":
            options["multiprocess_mode"] = f"live{metric.merge}"
        if metric.kind == "histogram":
            options["buckets"] = metric.buckets
        return _KINDS[metric.kind](metric.name, metric.help, (RUN_LABEL, *metric.labels), **options)

    def bind(metric: Metric, labels: tuple[str, ...]) -> Record:
        series = family(metric).labels(run, *labels)
        record: Record = getattr(series, _VERBS[metric.kind])
        return record

    return bind
