"""The spans of a run, and the one place where they begin: a partition, a seed of it, a request of the seed.

    with seed_span(partition, id) -> the tracer of this process -> engine.telemetry.otlp_spans, or nothing

Promise: a span holds ids, codes, counts and names of models, never a text, a key, a URL or the message of an error.
Price: one `is None` check each where no tracer is used.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from foil.engine.requests import Reply, Request


class SeedSpan(Protocol):
    """A seed at work."""

    def ended(self, outcomes: Sequence[tuple[str, str]]) -> None:
        """Status and reason of each topic."""


class RequestSpan(Protocol):
    """A request at a model, its retries included."""

    def answered(self, reply: Reply) -> None:
        """What came back."""


class PartitionSpan(Protocol):
    """A partition between its first seed and its commit; `end` may be called again."""

    def end(self) -> None: ...


class Tracer(Protocol):
    """What makes the spans of this process."""

    def partition(self, index: int) -> PartitionSpan: ...
    def seed(self, partition: Any, seed_id: str) -> AbstractContextManager[SeedSpan]: ...
    def request(self, provider: str, request: Request) -> AbstractContextManager[RequestSpan]: ...
    def sent_to(self, url: str) -> None: ...
    def flush(self) -> None: ...


class _NoSpan:
    """A span that nobody sees."""

    def end(self) -> None: ...
    def ended(self, _outcomes: Sequence[tuple[str, str]]) -> None: ...
    def answered(self, _reply: Reply) -> None: ...


class _CurrentTracer:
    tracer: Tracer | None = None


_current = _CurrentTracer()
_SILENT = _NoSpan()
_NOTHING = nullcontext(_SILENT)


def use_tracer(tracer: Tracer | None) -> None:
    """From now on the spans of this process are made there; nowhere if None."""
    _current.tracer = tracer


def is_tracing() -> bool:
    """Whether this process makes spans at all."""
    return _current.tracer is not None


def begin_partition(index: int) -> PartitionSpan:
    """The span of a partition, until its `end`."""
    return _SILENT if _current.tracer is None else _current.tracer.partition(index)


def seed_span(partition: PartitionSpan, seed_id: str) -> AbstractContextManager[SeedSpan]:
    """Inside, this task works on a seed of the partition."""
    return _NOTHING if _current.tracer is None else _current.tracer.seed(partition, seed_id)


def request_span(provider: str, request: Request) -> AbstractContextManager[RequestSpan]:
    """Inside, a model is asked. An error that leaves it is noted by its class."""
    return _NOTHING if _current.tracer is None else _current.tracer.request(provider, request)


def note_server(url: str) -> None:
    """Names the host and port that the request of this task goes to."""
    if _current.tracer is not None:
        _current.tracer.sent_to(url)


def flush_spans() -> None:
    """Sends what has ended, and waits for it some seconds at most."""
    if _current.tracer is not None:
        _current.tracer.flush()
