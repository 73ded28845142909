"""A real small model answers every recipe and judge, some seeds each: nothing breaks, and the funnel adds up.

The model has 135 M parameters and writes badly. That is the point: its replies have faults that no scripted one has. So
few of its topics reach a judge; the judges are asked about topics that the stand-in wrote. All runs go at a time, so
that the server has a batch.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from foil.cluster.job import load_job
from foil.cluster.run_job import run_job
from tests.support.commands import foil
from tests.support.models.character import Character
from tests.support.models.fault_server import serving
from tests.support.topics.trades import corpus
from tests.support.vllm.real_model import int8_folder, served, why_not

pytestmark = [pytest.mark.model, pytest.mark.timeout(1_200), pytest.mark.skipif(bool(why_not()), reason=why_not())]
SEEDS = 5 if "avx512" in Path("/proc/cpuinfo").read_text() else 3
"""Without AVX-512 two cores take as long for three."""
RECIPES = {
    "infir": "{kind: infir}",
    "promptriever": "{kind: promptriever}",
    "dual_view": "{kind: dual_view, base: {kind: promptriever, candidates: 1, positive: false}}",
    "infosearch": "{kind: infosearch}",
    "contrast": "{kind: contrast}",
}
JUDGES = {
    "judge_demands": "infir",
    "judge_relevance": "infir",
    "judge_polarity": "dual_view",
    "judge_scenarios": "infir",
}
"""Judge -> the recipe whose topics it is asked about."""
JOB = """\
seeds:
  kind: table
  corpus: trades
  path: {rows}
  columns: {{query: query, positives: positives, negatives: negatives, id: id}}
recipe: {recipe}
models:
  writer: {{kind: hosted, model: model, url: "{url}", params: {{max_tokens: 120}}}}
validators: [{{kind: shape}}, {{kind: leak}}{judge}]
replies: {{corrections: 1, candidates: 2}}
out: {out}
limits: {{seeds: {seeds}}}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Each recipe and each judge once: its folder, and what the command said."""
    folder = tmp_path_factory.mktemp("runs")
    path = corpus(folder / "rows.jsonl")

    def job(name, recipe, url, judge=""):
        told = folder / f"{name}.yaml"
        told.write_text(JOB.format(rows=path, recipe=recipe, url=url, judge=judge, out=folder / name, seeds=SEEDS))
        return told

    with serving(answer=Character()) as stand_in:
        for recipe in set(JUDGES.values()):
            run_job(load_job(job(f"of-{recipe}", RECIPES[recipe], stand_in.url)))
    with served(int8_folder(), folder / "server.log") as url:

        def written(name):
            return foil("run", job(name, RECIPES[name], url))

        def judged(name):
            told = job(f"{name}-job", RECIPES[JUDGES[name]], url, f", {{kind: {name}}}")
            return foil("revalidate", folder / f"of-{JUDGES[name]}", folder / name, "--job", told)

        with ThreadPoolExecutor(len(RECIPES) + len(JUDGES)) as pool:
            ended = [*pool.map(written, RECIPES), *pool.map(judged, JUDGES)]
    return {name: (folder / name, ran) for name, ran in zip((*RECIPES, *JUDGES), ended, strict=True)}


def rows(out, query):
    return json.loads(foil("sql", out, query, "--json").stdout)


@pytest.mark.parametrize("name", [*RECIPES, *JUDGES])
def test_a_run_ends_without_a_traceback_and_its_funnel_adds_up(runs, name):
    out, ran = runs[name]
    assert "Traceback" not in ran.stderr
    assert ran.returncode in (0, 3), ran.stderr
    counted = rows(out, "SELECT status, count(DISTINCT seed_id) AS seeds FROM topics GROUP BY status")
    assert sum(row["seeds"] for row in counted) == SEEDS
    assert all(row["reason"] for row in rows(out, "SELECT reason FROM topics WHERE status <> 'accepted'"))
    [calls] = rows(out, "SELECT count(*) AS n, count(DISTINCT request_id) AS unlike FROM calls WHERE NOT reused")
    assert calls["n"] >= calls["unlike"] >= SEEDS


def test_faults_are_corrected_and_wrappings_taken_off(runs):
    faults, salvaged, mended = 0, 0, 0
    for name in RECIPES:
        out, _ = runs[name]
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


@pytest.mark.parametrize("name", JUDGES)
def test_each_judge_read_what_the_model_said(runs, name):
    out, _ = runs[name]
    [told] = rows(out, f"SELECT count(*) AS n FROM verdicts WHERE validator = '{name}'")
    assert told["n"] >= 1
