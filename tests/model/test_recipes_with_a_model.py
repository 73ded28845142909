"""A real small model answers every recipe and judge, five seeds each: nothing breaks, and the funnel adds up.

The model has 135 M parameters and writes badly. That is the point: its replies have faults that no scripted one has.
"""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.commands import foil
from tests.support.topics.trades import corpus
from tests.support.vllm.real_model import model_folder, served, why_not

pytestmark = [pytest.mark.model, pytest.mark.timeout(600), pytest.mark.skipif(bool(why_not()), reason=why_not())]
SEEDS = 5
RECIPES = {
    "infir": "{kind: infir}",
    "promptriever": "{kind: promptriever}",
    "dual_view": "{kind: dual_view, base: {kind: promptriever, candidates: 1, positive: false}}",
    "infosearch": "{kind: infosearch}",
}
JOB = """\
seeds:
  kind: table
  corpus: trades
  path: {rows}
  columns: {{query: query, positives: positives, negatives: negatives, id: id}}
recipe: {recipe}
models:
  writer: {{kind: hosted, model: model, url: "{url}", patience: {{timeout_s: 300}}}}
validators:
  - {{kind: shape}}
  - {{kind: leak}}
  - {{kind: judge_demands}}
  - {{kind: judge_relevance}}
  - {{kind: judge_polarity}}
  - {{kind: judge_scenarios}}
out: {out}
limits: {{seeds: {seeds}}}
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with served(model_folder(), tmp_path_factory.mktemp("server") / "log") as url:
        yield url


@pytest.fixture(scope="module")
def runs(url, tmp_path_factory):
    """Every recipe once, all at a time, so that the server has a batch: its folder and what the command said."""
    folder = tmp_path_factory.mktemp("runs")
    rows = corpus(folder / "rows.jsonl")

    def told(name):
        job, out = folder / f"{name}.yaml", folder / name
        job.write_text(JOB.format(rows=rows, recipe=RECIPES[name], url=url, out=out, seeds=SEEDS))
        return out, foil("run", job)

    with ThreadPoolExecutor(len(RECIPES)) as pool:
        return dict(zip(RECIPES, pool.map(told, RECIPES), strict=True))


def rows(out, query):
    return json.loads(foil("sql", out, query, "--json").stdout)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_run_ends_without_a_traceback_and_its_funnel_adds_up(runs, recipe):
    out, ran = runs[recipe]
    assert "Traceback" not in ran.stderr
    assert ran.returncode in (0, 3), ran.stderr
    counted = rows(out, "SELECT status, count(DISTINCT seed_id) AS seeds FROM topics GROUP BY status")
    assert sum(row["seeds"] for row in counted) == SEEDS
    [calls] = rows(out, "SELECT count(*) AS n, count(DISTINCT request_id) AS unlike FROM calls WHERE NOT reused")
    assert calls["n"] >= calls["unlike"] >= SEEDS


def test_faults_are_corrected_and_wrappings_taken_off(runs):
    faults, salvaged, mended = 0, 0, 0
    for out, _ in runs.values():
        [row] = rows(
            out,
            "SELECT count(*) FILTER (fault <> '') AS faults, count(*) FILTER (salvaged <> '') AS salvaged FROM calls",
        )
        faults, salvaged = faults + row["faults"], salvaged + row["salvaged"]
        mended += rows(
            out,
            "SELECT count(*) AS n FROM (SELECT topic_id, task FROM calls GROUP BY topic_id, task "
            "HAVING bool_or(fault <> '') AND bool_or(fault = ''))",
        )[0]["n"]
    assert faults
    assert salvaged
    assert mended


def test_every_rejected_seed_says_why(runs):
    for out, _ in runs.values():
        assert all(row["reason"] for row in rows(out, "SELECT reason FROM topics WHERE status <> 'accepted'"))
