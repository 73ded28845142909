"""A real run under a real Prometheus, its JSON log, and the dashboard and alerts that read its metrics."""

import json
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from urllib.parse import urlsplit

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from foil.cluster.job import load_job
from foil.cluster.run_job import serve_where_wanted
from foil.engine.telemetry.metrics import METRICS
from tests.support.commands import foil, write_job, write_seeds
from tests.support.drills.ports import free_port
from tests.support.drills.prometheus import get, program, prometheus, value
from tests.support.models.character import Character
from tests.support.models.fault_server import Behaviour, serving
from tests.support.paths import REPO

DEPLOY = REPO / "cluster" / "deploy"
RULES = DEPLOY / "alerts" / "foil_rules.yaml"
KEY = "sk-proj-" + "Zq83hfKq02mfLw93nvbTx71"
HOSTILE = 'kite"} 1\nfoil_seeds_total{outcome="accepted"} 999\n\u202e'
JOB = """\
seeds:
  kind: table
  corpus: kites
  path: {path}
  columns: {{id: id, query: query, positives: good, negatives: bad}}
recipe: {{kind: infir}}
models:
  writer: &model {{kind: hosted, model: in-character, url: "{url}", api_key: "${{FOIL_TEST_KEY}}"}}
  judge: *model
validators: [{{kind: shape}}, {{kind: leak}}, {{kind: judge_scenarios}}]
out: {out}
limits: {{partition_seeds: 5, budget: {{calls: 100000}}}}
"""
LABEL = re.compile(r"[a-z0-9][a-z0-9_]{0,31}")


def hosted_job(folder, url, seeds=40):
    corpus = folder / "seeds.jsonl"
    write_seeds(corpus, seeds)
    rows = [json.loads(line) for line in corpus.read_text().splitlines()]
    hostile = [{**row, "id": HOSTILE + row["id"], "query": f"{row['query']} {HOSTILE}"} for row in rows]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in hostile))
    job = folder / "job.yaml"
    job.write_text(JOB.format(path=corpus, url=url, out=folder / "out"))
    return job


def start(job, *settings):
    options = [part for setting in settings for part in ("--set", setting)]
    return subprocess.Popen(
        [sys.executable, "-m", "foil", "run", str(job), *options],
        cwd=REPO, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "FOIL_TEST_KEY": KEY},
    )  # fmt: skip


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """A run over two workers, scraped: what Prometheus saw, the last page of metrics, stderr and the final status."""
    program("prometheus")
    folder, port = tmp_path_factory.mktemp("watched"), free_port()
    faults = Behaviour(latency=0.5, faults={"429_seconds": 0.2}, api_keys=[KEY])
    with serving(faults, Character()) as server, prometheus(folder, port) as url:
        job = hosted_job(folder, server.url, 20)
        process = start(
            job, f"runtime.metrics_port={port}", "runtime.workers=2", "runtime.window=2", "runtime.log_format=json"
        )
        try:
            seen = {
                name: value(url, expression, process)
                for name, expression in {
                    "wanted": 'sum(foil_workers{state="wanted"})',
                    "placed": 'sum(foil_workers{state="placed"})',
                    "limit": "sum(foil_concurrency_limit)",
                    "seconds": "histogram_quantile(0.5, sum by (le) (rate(foil_request_seconds_bucket[30s])))",
                    "limited": 'sum(foil_requests_total{outcome="limited"})',
                    "retries": "sum(foil_retries_total)",
                    "seeds": "sum(foil_seeds_total)",
                    "tokens": "sum(rate(foil_tokens_total[30s]))",
                    "commits": "sum(foil_commit_seconds_count)",
                }.items()
            }
            pages = [page for page in [get(f"http://127.0.0.1:{port}/metrics")] if page]
            while process.poll() is None:
                if page := get(f"http://127.0.0.1:{port}/metrics"):
                    pages.append(page)
                time.sleep(0.2)
            stderr = process.communicate()[1]
        finally:
            process.kill()
            process.wait()
        status = json.loads(foil("status", folder / "out", "--json").stdout)
        yield {
            "seen": seen,
            "page": pages[-1],
            "first_page": pages[0],
            "stderr": stderr,
            "status": status,
            "code": process.returncode,
        }


def series(page):
    return [sample for family in text_string_to_metric_families(page) for sample in family.samples]


@pytest.mark.slow
def test_prometheus_sees_the_run_and_its_workers(watched):
    seen = watched["seen"]
    assert (seen["wanted"], seen["placed"] <= 2) == (2, True)
    assert all(seen.values()), seen
    assert 0.25 <= seen["seconds"] <= 5


@pytest.mark.slow
def test_the_last_page_agrees_with_the_journal(watched):
    assert watched["status"]["complete"], watched["stderr"]
    assert watched["status"]["accepted"] + watched["status"]["rejected"] + watched["status"]["failed"] == 20
    told = sum(sample.value for sample in series(watched["page"]) if sample.name == "foil_seeds_total")
    assert 10 <= told <= 20


@pytest.mark.slow
def test_every_series_names_its_run_as_the_log_does_and_a_run_tells_that_it_is_up(watched):
    runs = {sample.labels["run"] for sample in series(watched["page"])}
    assert runs == {json.loads(line)["run"] for line in watched["stderr"].splitlines()}
    told = {sample.name: sample.value for sample in series(watched["page"])}
    ups = [{s.name: s.value for s in series(watched[page])}["foil_run_up"] for page in ("first_page", "page")]
    assert ups in ([1, 1], [1, 0]), "the last page may be of the moment after the session"
    assert 0 <= time.time() - told["foil_last_commit_timestamp_seconds"] < 3600
    assert 0 < told["foil_budget_used_share"] < 1


@pytest.mark.slow
def test_no_label_holds_a_text_an_id_or_a_secret(watched):
    page = watched["page"]
    assert KEY not in page
    assert "kite" not in page
    labels = [(name, text) for sample in series(page) for name, text in sample.labels.items() if name != "le"]
    assert len(set(labels)) >= 8
    assert ("check", "judge_scenarios") in labels
    assert not [label for label in labels if not LABEL.fullmatch(label[1])]
    assert {family.name for family in text_string_to_metric_families(page)} <= {
        metric.name.removesuffix("_total") for metric in METRICS
    }


@pytest.mark.slow
def test_stderr_is_json_with_run_partition_and_the_end(watched):
    lines = [json.loads(line) for line in watched["stderr"].splitlines()]
    assert len({line["run"] for line in lines}) == 1
    assert {".".join(line["logger"].split(".")[:2]) for line in lines} <= {"foil.engine", "foil.cluster"}
    assert len({line["process"] for line in lines}) == 3
    assert sum(line["message"].endswith("topics") and "committed" in line["message"] for line in lines) == 4
    assert f"exit code {watched['code']}" in lines[-1]["message"]
    assert KEY not in watched["stderr"]


def asking(run, url):
    """The child of a run that holds a connection to its model: the worker, and not the process that reads seeds."""
    port = urlsplit(url).port
    for child in psutil.Process(run).children():
        with suppress(psutil.NoSuchProcess):
            if any(held.raddr and held.raddr.port == port for held in child.net_connections("tcp")):
                return child
    return None


@pytest.mark.slow
def test_the_numbers_of_a_killed_worker_stay(tmp_path):
    port = free_port()
    with serving(Behaviour(latency=0.3), Character()) as server:
        process = start(
            hosted_job(tmp_path, server.url),
            f"runtime.metrics_port={port}", "runtime.workers=1", "runtime.window=2",
        )  # fmt: skip
        try:
            victim, before = None, 0.0
            while process.poll() is None and not victim:
                page = get(f"http://127.0.0.1:{port}/metrics") or ""
                before = sum(s.value for s in series(page) if s.name == "foil_requests_total")
                victim = asking(process.pid, server.url) if before >= 6 else None
            victim.kill()
            lost = after = 0.0
            while process.poll() is None and not lost:
                page = get(f"http://127.0.0.1:{port}/metrics") or ""
                lost = sum(s.value for s in series(page) if s.name == "foil_workers_lost_total")
                after = sum(s.value for s in series(page) if s.name == "foil_requests_total")
            assert lost >= 1
            assert after >= before >= 6
        finally:
            process.kill()
            process.communicate()


def test_a_port_in_use_is_refused_before_anything_is_asked(tmp_path):
    with serving() as server:
        port = int(server.url.rsplit(":", 1)[1].split("/")[0])
        job = hosted_job(tmp_path, server.url)
        refused = foil("run", job, "--set", f"runtime.metrics_port={port}", env={"FOIL_TEST_KEY": KEY})
        assert refused.returncode == 2
        assert f"127.0.0.1:{port}" in refused.stderr
        assert not (tmp_path / "out").exists()


def test_a_port_that_ray_does_not_use_is_told(tmp_path, caplog):
    job = write_job(tmp_path, 3)
    settings = ["runtime.kind=ray", "runtime.workers=1", "runtime.metrics_port=9400"]
    with serve_where_wanted(load_job(job, settings), "run"):
        assert "runtime.metrics_port (9400) is not used" in caplog.text


def expressions():
    board = json.loads((DEPLOY / "grafana" / "foil_run.json").read_text())
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def known_names():
    names = {metric.name for metric in METRICS}
    return names | {f"{m.name}_{part}" for m in METRICS if m.kind == "histogram" for part in ("bucket", "sum", "count")}


def test_every_metric_of_dashboard_rules_and_pages_is_recorded_by_the_code():
    rules, page = RULES.read_text(), (REPO / "docs" / "metrics.md").read_text()
    tests = (DEPLOY / "alerts" / "foil_rules_test.yaml").read_text()
    named = {name for text in (*expressions(), rules, page, tests) for name in re.findall(r"\bfoil_[a-z0-9_]+", text)}
    files = {"foil_rules", "foil_rules_test", "foil_run", "foil_recording", "foil_alerts"}
    assert named - files <= known_names()
    shown = {name for text in (*expressions(), rules) for name in re.findall(r"\bfoil_[a-z0-9_]+", text)}
    assert {metric.name for metric in METRICS} <= {re.sub(r"_bucket$", "", name) for name in shown}


def test_the_page_has_the_table_of_the_code():
    rows = [f"| `{m.name}` | {m.kind} | {', '.join(f'`{label}`' for label in m.labels)} | {m.help} |" for m in METRICS]
    assert "\n".join(rows) in (REPO / "docs" / "metrics.md").read_text()


def test_promtool_accepts_the_rules_and_their_tests_pass():
    for command in (["check", "rules", str(RULES)], ["test", "rules", str(RULES.with_name("foil_rules_test.yaml"))]):
        checked = subprocess.run([program("promtool"), *command], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_expression_of_the_dashboard_parses_and_names_a_rule_that_exists(tmp_path):
    rules = tmp_path / "panels.yaml"
    panels = [{"record": f"panel:{n}", "expr": expression} for n, expression in enumerate(expressions())]
    rules.write_text(json.dumps({"groups": [{"name": "panels", "rules": panels}]}))
    checked = subprocess.run(
        [program("promtool"), "check", "rules", str(rules)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    used = {name for expression in expressions() for name in re.findall(r"foil:\w+(?::\w+)?", expression)}
    assert used
    assert used <= set(re.findall(r"record: (\S+)", RULES.read_text()))


def test_every_alert_has_a_unit_test():
    tested = set(re.findall(r"alertname: (\w+)", (DEPLOY / "alerts" / "foil_rules_test.yaml").read_text()))
    assert tested == set(re.findall(r"alert: (\w+)", RULES.read_text()))


@pytest.mark.long  # Ray shows a number after some 10 s
def test_ray_serves_the_metrics_of_driver_and_actors(tmp_path):
    port = free_port()
    program = (
        "import sys, ray; from foil.cluster.__main__ import main; "
        "ray.init(num_cpus=2, _metrics_export_port=int(sys.argv.pop())); main()"
    )
    with serving(Behaviour(latency=0.4), Character()) as server:
        job = hosted_job(tmp_path, server.url, 80)
        settings = ["--set", "runtime.kind=ray", "--set", "runtime.workers=1", "--set", "runtime.window=2"]
        process = subprocess.Popen(
            [sys.executable, "-c", program, "run", str(job), *settings, str(port)],
            cwd=REPO, env={**os.environ, "FOIL_TEST_KEY": KEY, "RAY_AUTH_MODE": "disabled"},
        )  # fmt: skip
        try:
            names = set()
            wanted = {"ray_foil_seeds_total", "ray_foil_requests_total", "ray_foil_workers", "ray_foil_commit_seconds"}
            while process.poll() is None and not wanted <= names:
                page = get(f"http://127.0.0.1:{port}/metrics") or ""
                names = {re.sub("_bucket$", "", name) for name in re.findall(r"^(ray_foil_\w+)\{", page, re.MULTILINE)}
                time.sleep(0.5)
            assert wanted <= names
            assert KEY not in page
            assert {re.sub("^ray_", "", re.sub("_(sum|count)$", "", n)) for n in names} <= {m.name for m in METRICS}
            assert process.wait() == 0
        finally:
            process.kill()
            process.wait()
