"""Spans of real runs at a real OTLP receiver: what lies under what, what they hold, and who sends them."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from foil.engine.requests import Message, Reply, Request
from foil.engine.telemetry.spans import is_tracing, note_server, request_span, seed_span, use_tracer
from tests.support.commands import foil, hosted_job, write_job
from tests.support.models.character import Character
from tests.support.models.fault_server import Behaviour, serving
from tests.support.paths import REPO

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from foil.engine.telemetry.otlp_spans import OtlpTracer, trace_here

SECRET = "Zq83hfKq02mfLw93nvbTx71"


class Receiver:
    """What an OTLP collector was sent."""

    def __init__(self):
        self.spans, self.headers, self.services = [], [], Counter()

    def take(self, body, headers):
        self.headers.append(headers)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            facts = facts_of(resource.resource)
            self.services[facts["service.name"], facts["process.pid"]] += 1
            for scope in resource.scope_spans:
                self.spans += [(facts["process.pid"], span) for span in scope.spans]

    def named(self, name):
        return [span for _, span in self.spans if span.name == name]

    def pids(self):
        return {pid for pid, _ in self.spans}


def facts_of(holder):
    def plain(value):
        kind = value.WhichOneof("value")
        held = getattr(value, kind)
        return [plain(each) for each in held.values] if kind == "array_value" else held

    return {fact.key: plain(fact.value) for fact in holder.attributes}


@contextmanager
def receiving():
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.take(body, dict(self.headers))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        receiver.url = f"http://127.0.0.1:{server.server_port}"
        yield receiver
    finally:
        server.shutdown()
        server.server_close()


def environment(receiver):
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_EXPORTER_OTLP_HEADERS": f"x-token={SECRET}"}


@pytest.fixture
def kept():
    """The spans of this process, in memory."""
    exporter = InMemorySpanExporter()
    tracer = OtlpTracer(exporter, "run1")
    use_tracer(tracer)
    yield lambda: tracer.flush() or exporter.get_finished_spans()
    use_tracer(None)


def request(**changes):
    return Request(
        **{"model": "some/model", "messages": (Message("user", "a secret prompt"),), "task": "a.b", **changes}
    )


def test_a_request_has_the_attributes_of_the_genai_conventions(kept):
    with request_span("openai", request()) as span:
        note_server("https://api.example.com/v1")
        span.answered(
            Reply("r", "a secret text", "m-2", prompt_tokens=3, completion_tokens=4, others=(("x", "length"),))
        )
    [made] = kept()
    assert (made.name, made.kind.name, made.status.status_code.name) == ("chat some/model", "CLIENT", "UNSET")
    assert {**made.attributes} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "some/model",
        "gen_ai.response.model": "m-2",
        "gen_ai.response.finish_reasons": ("stop", "length"),
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 4,
        "server.address": "api.example.com",
        "server.port": 443,
        "foil.request": request().id,
        "foil.task": "a.b",
        "foil.sends": 1,
    }
    assert "secret" not in made.to_json()


def test_an_error_leaves_its_class_and_none_of_its_words(kept):
    with pytest.raises(ValueError, match="secret"), request_span("openai", request()):
        raise ValueError("a secret of the provider")
    [made] = kept()
    assert (made.attributes["error.type"], made.status.status_code.name) == ("ValueError", "ERROR")
    assert not made.events
    assert "secret" not in made.to_json()


def test_names_that_a_provider_makes_up_are_not_shown(kept):
    with request_span("openai", request()) as span:
        span.answered(Reply("r", "", "a long\nsecret text", finish_reason="because of a secret"))
    [made] = kept()
    assert made.attributes["gen_ai.response.model"] == "other"
    assert made.attributes["gen_ai.response.finish_reasons"] == ("other",)


def test_without_a_tracer_nothing_is_made():
    assert not is_tracing()
    with seed_span(None, "s1") as seed, request_span("openai", request()) as span:
        seed.ended([("accepted", "")])
        span.answered(Reply("r", ""))


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://[::1]:9", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://[::1]:9", "OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://[::1]:9", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
    ],
)
def test_no_span_is_made_unless_the_environment_wants_them_over_http(variables, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    trace_here("run1")
    assert not is_tracing()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_requests_lie_under_seeds_and_seeds_under_partitions(workers, tmp_path):
    with receiving() as receiver, serving(Behaviour(), Character()) as server:
        job = hosted_job(tmp_path, server.url, 20)
        job.write_text(job.read_text().replace("partition_seeds: 64", "partition_seeds: 5"))
        ended = foil("run", job, "--set", f"runtime.workers={workers}", env=environment(receiver))
    assert ended.returncode in {0, 3}, ended.stderr
    partitions, seeds, requests = receiver.named("partition"), receiver.named("seed"), receiver.named("chat m")
    assert sorted(facts_of(span)["foil.partition"] for span in partitions) == [0, 1, 2, 3]
    assert sorted(facts_of(span)["foil.seed"] for span in seeds) == sorted(f"s{n}" for n in range(20))
    assert {span.parent_span_id for span in seeds} <= {span.span_id for span in partitions}
    assert requests
    assert {span.parent_span_id for span in requests} <= {span.span_id for span in seeds}
    assert {facts_of(span)["server.address"] for span in requests} == {"127.0.0.1"}
    assert {name for name, _ in receiver.services} == {"foil"}
    assert len(receiver.pids()) <= max(workers, 1)
    assert all(headers["x-token"] == SECRET for headers in receiver.headers)
    told = str(receiver.spans)
    assert not [word for word in (SECRET, "kite", "spars", server.url) if word in told]


@pytest.mark.long
def test_a_run_that_is_stopped_sends_what_has_ended(tmp_path):
    with receiving() as receiver, serving(Behaviour(latency=0.2), Character()) as server:
        job = hosted_job(tmp_path, server.url, 200)
        process = subprocess.Popen(
            [sys.executable, "-m", "foil", "run", str(job), "--set", "runtime.workers=1"],
            cwd=REPO, env={**os.environ, **environment(receiver), "OTEL_BSP_SCHEDULE_DELAY": "600000"},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            until(lambda: server.report()["admitted"] >= 40)
            process.send_signal(signal.SIGTERM)
            _, stderr = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 143, stderr
    assert receiver.named("seed")
    assert receiver.named("partition")
    assert len(receiver.named("chat m")) >= 30


@pytest.mark.slow
def test_a_collector_that_is_gone_is_said_once_and_stops_nothing(tmp_path):
    job = write_job(tmp_path, 20)
    ended = foil("run", job, env={"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:9/{SECRET}"})
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("spans could not be sent") <= 1
    assert SECRET not in ended.stderr + ended.stdout
    assert json.loads(foil("status", tmp_path / "out", "--json").stdout)["complete"]


@pytest.mark.long
def test_actors_of_ray_send_spans_and_do_so_when_they_are_asked_to_end(tmp_path, ray_home):
    pytest.importorskip("ray")
    with receiving() as receiver, serving(Behaviour(), Character()) as server:
        job = hosted_job(tmp_path, server.url, 20)
        sets = ["--set", "runtime.kind=ray", "--set", "runtime.workers=1", "--set", "runtime.ray_address=local"]
        ended = foil("run", job, *sets, env={**environment(receiver), "OTEL_BSP_SCHEDULE_DELAY": "600000"})
    assert ended.returncode in {0, 3}, ended.stderr
    assert len(receiver.named("seed")) == 20
    assert len(receiver.named("partition")) == 1
    assert receiver.named("chat m")


@pytest.mark.slow
def test_an_actor_that_gets_sigterm_sends_what_has_ended(ray_home, monkeypatch):
    ray = pytest.importorskip("ray")

    class Asking:
        async def ask(self):
            trace_here("run1")
            with request_span("openai", request()):
                return os.getpid()

    with receiving() as receiver:
        for name, value in {**environment(receiver), "OTEL_BSP_SCHEDULE_DELAY": "600000"}.items():
            monkeypatch.setenv(name, value)
        ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
        try:
            actor = ray.remote(Asking).remote()
            pid = ray.get(actor.ask.remote())
            assert not receiver.spans
            os.kill(pid, signal.SIGTERM)
            until(lambda: receiver.spans)
        finally:
            ray.shutdown()


def until(true, within_s=60.0):
    over = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < over
        time.sleep(0.05)
