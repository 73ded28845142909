"""A small job over a scripted provider that refuses some of its prompts, and what became of its rows."""

import json
from collections import Counter

import pytest

from foil.datasets_out.sql.query import run_sql
from tests.support.commands import foil
from tests.support.models.scripted_server import answered

JOB = """
seeds: {{kind: table, corpus: probe, path: {path}, columns: {{query: q, positives: p}}}}
recipe:
  kind: custom
  templates: {templates}
  stages: [{{name: ask, answer: {{text: {{type: string, most: 500}}}}}}]
  rows: {{question: query, text: ask.text}}
models: {{writer: {{kind: hosted, model: probe-model, url: "{url}"}}}}
out: {out}
limits: {{partition_seeds: 2}}
runtime: {{window: {window}}}
"""
TEMPLATE = "=== user ===\nWrite one sentence about: {{ query }}\n{{ positive.text }}\n"


def slowly(*cases):
    """Cases that only the slow suite runs."""
    return [pytest.param(case, marks=pytest.mark.slow) for case in cases]


def rarely(*cases):
    """Cases that only the long suite runs."""
    return [pytest.param(case, marks=pytest.mark.long) for case in cases]


def write_job(folder, url, seeds=6, window=2, poison=()):
    """A job over rows of which some hold the word DROP."""
    rows = [
        {"q": f"question number {i}", "p": [f"Passage {i}: {'DROP it' if i in poison else 'select it'}"]}
        for i in range(seeds)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "templates").mkdir(exist_ok=True)
    (folder / "templates" / "ask.j2").write_text(TEMPLATE)
    places = {"path": folder / "rows.jsonl", "templates": folder / "templates", "out": folder / "out"}
    job = folder / "job.yaml"
    job.write_text(JOB.format(url=url, window=window, **places))
    return job


def run(job, **patience):
    return foil(
        "run", job, *(part for k, v in patience.items() for part in ("--set", f"models.writer.patience.{k}={v}"))
    )


def rows(folder):
    """How many rows ended so."""
    told = run_sql(folder / "out", "SELECT status, reason, detail FROM topics").to_pylist()
    return Counter((row["status"], row["reason"]) for row in told), " ".join(row["detail"] for row in told)


def refuses(refusal, times=10**9):
    """Refuses prompts with DROP in them so many times each."""
    return lambda text, asked: refusal if "DROP" in text and asked < times else answered()
