"""Spans to an OpenTelemetry collector, over OTLP/HTTP, by the GenAI conventions.

    OTEL_EXPORTER_OTLP_ENDPOINT -> trace_here -> a tracer of this process -> batches in a thread -> the collector

The standard variables set it: endpoint, headers, sampler, batches, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES,
OTEL_SDK_DISABLED. Each process reads them where it runs, so that no header goes through Ray.

Promise: telemetry ends no run and delays its end by FLUSH_S at most; what cannot be sent is dropped, and said once.
A process that is killed (SIGKILL) loses the spans of its last five seconds. Price: a thread; 35 us a request.
"""

import atexit
import logging
import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from foil.engine.keys import scrub
from foil.engine.requests import Reply, Request
from foil.engine.telemetry.spans import flush_spans, is_tracing, use_tracer

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

LOG = logging.getLogger(__name__)
FLUSH_S = 3.0
"""The longest wait for a collector when a process ends."""
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SPOKEN = "http/protobuf"
_ID_CHARACTERS = 200
_NAME = re.compile(r"[\w./:@+-]{1,200}")


def trace_here(run: str) -> None:
    """From now on this process sends its spans to where its environment says; it makes none where that says nothing."""
    if not _wanted() or is_tracing():
        return
    protocol = next(filter(None, map(os.environ.get, _PROTOCOLS)), _SPOKEN)
    if protocol != _SPOKEN:
        LOG.warning("spans are sent over %s alone, not over %s: none are made", _SPOKEN, protocol)
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ModuleNotFoundError:
        LOG.warning("%s is set, and OpenTelemetry is not installed: pip install 'foil-ir[otel]'", _ENDPOINTS[1])
        return
    use_tracer(OtlpTracer(OTLPSpanExporter(), run))
    atexit.register(flush_spans)


@contextmanager
def traced(run: str) -> Iterator[None]:
    """Inside, this process sends its spans; what has ended is sent when it is left."""
    trace_here(run)
    try:
        yield
    finally:
        flush_spans()
        use_tracer(None)


def _wanted() -> bool:
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or os.environ.get("OTEL_TRACES_EXPORTER") == "none"
    return not off and any(map(os.environ.get, _ENDPOINTS))


class OtlpTracer:
    """An engine.telemetry.spans.Tracer over OpenTelemetry's SDK, with a provider of its own: the global one is left."""

    def __init__(self, exporter: "SpanExporter", run: str) -> None:
        from opentelemetry import trace
        from opentelemetry.context import Context
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # its errors quote URLs; ours say the same
        self._provider = TracerProvider(resource=_resource(run), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(_said_once(exporter)))
        self._tracer = self._provider.get_tracer("foil", version("foil-ir"))
        self._trace, self._outside, self._run = trace, Context(), run

    def partition(self, index: int) -> Any:
        """A span that is the root of its trace, and is current nowhere."""
        facts: dict[str, Any] = {"foil.run": self._run, "foil.partition": index}
        return self._tracer.start_span("partition", self._outside, attributes=facts)

    @contextmanager
    def seed(self, partition: Any, seed_id: str) -> Iterator["_SeedFacts"]:
        parent = self._trace.set_span_in_context(partition, self._outside)
        with self._span("seed", context=parent, attributes={"foil.seed": scrub(seed_id)[:_ID_CHARACTERS]}) as span:
            yield _SeedFacts(span)

    @contextmanager
    def request(self, provider: str, request: Request) -> Iterator["_RequestFacts"]:
        model = _name(request.model)
        facts = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
            "foil.request": request.id,
            "foil.task": _name(request.task),
        }
        with self._span(f"chat {model}", kind=self._trace.SpanKind.CLIENT, attributes=facts) as span:
            yield _RequestFacts(span)

    def sent_to(self, url: str) -> None:
        parts, span = urlsplit(url), self._trace.get_current_span()
        if parts.hostname:
            span.set_attribute("server.address", parts.hostname)
            span.set_attribute("server.port", parts.port or (443 if parts.scheme == "https" else 80))

    def flush(self) -> None:
        """In a thread of its own: the SDK waits longer for a collector that is gone."""
        thread = threading.Thread(target=self._provider.force_flush, name="spans", daemon=True)
        thread.start()
        thread.join(FLUSH_S)

    @contextmanager
    def _span(self, name: str, **options: Any) -> Iterator[Any]:
        """A current span. Of an error it keeps the class alone: messages quote what providers and corpora say."""
        with self._tracer.start_as_current_span(
            name, record_exception=False, set_status_on_exception=False, **options
        ) as span:
            try:
                yield span
            except BaseException as error:
                _fail(span, type(error).__name__)
                raise


class _SeedFacts:
    """An engine.telemetry.spans.SeedSpan."""

    def __init__(self, span: Any) -> None:
        self._span = span

    def ended(self, outcomes: Sequence[tuple[str, str]]) -> None:
        self._span.set_attribute("foil.outcomes", [status for status, _ in outcomes])
        failures = [reason for status, reason in outcomes if status == "failed"]
        if failures:
            _fail(self._span, _name(failures[0]))


class _RequestFacts:
    """An engine.telemetry.spans.RequestSpan."""

    def __init__(self, span: Any) -> None:
        self._span = span

    def answered(self, reply: Reply) -> None:
        reasons = [reply.finish_reason, *(reason for _, reason in reply.others)]
        self._span.set_attributes(
            {
                "gen_ai.response.model": _name(reply.model),
                "gen_ai.response.finish_reasons": list(map(_name, reasons)),
                "gen_ai.usage.input_tokens": reply.prompt_tokens,
                "gen_ai.usage.output_tokens": reply.completion_tokens,
                "foil.sends": reply.attempts,
            }
        )


def _fail(span: Any, error_type: str) -> None:
    from opentelemetry.trace import StatusCode

    span.set_attribute("error.type", error_type)
    span.set_status(StatusCode.ERROR)


def _name(text: str) -> str:
    """A name that may be shown: providers may send any text as one."""
    return scrub(text) if _NAME.fullmatch(text) else "other"


def _resource(run: str) -> Any:
    """Who sends: what the environment says, under the name `foil` where it gives none."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    facts: dict[str, Any] = {"service.name": "foil", "foil.run": run, "process.pid": os.getpid()}
    return Resource.create(facts).merge(OTELResourceDetector().detect())


def _said_once(exporter: "SpanExporter") -> Any:
    """The exporter; its first failure is logged, without its words."""
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Told(SpanExporter):
        failed = False

        def export(self, spans: Any) -> Any:
            result = exporter.export(spans)
            if result is not SpanExportResult.SUCCESS and not self.failed:
                self.failed = True
                LOG.warning("spans could not be sent to the endpoint of %s; they are dropped", _ENDPOINTS[1])
            return result

        def shutdown(self) -> None:
            exporter.shutdown()

    return Told()
