"""`foil evaluate --on` and `foil benchmarks` as their users type them."""

import json

import pytest

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.cluster.evaluations.benchmarks import SlowNotes
from foil.datasets_out.commits.verify import verify
from foil.datasets_out.sql.query import run_sql
from foil.trainer.evaluate.benchmarks.catalog import KINDS
from tests.support.commands import foil
from tests.support.sample_run import make
from tests.support.trainer_world import tiny_bert
from tests.trainer.evaluate.benchmarks.tiny_benchmarks import write_benchmark

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """One evaluation of a tiny model on two benchmarks, one of them named by a page, into the folder of a run."""
    folder = tmp_path_factory.mktemp("evaluated")
    write_benchmark("infosearch", folder / "info")
    write_benchmark("trec", folder / "trec")
    page = folder / "ours.yaml"
    page.write_text(
        f"kind: trec\npath: {folder / 'trec'}\nname: ours\nrevision: r1\nmeasures: [RR@10]\npart: narrative\n"
    )
    model = tiny_bert(folder)
    make(folder / "out")
    arguments = ["evaluate", model, "--on", f"infosearch:{folder / 'info'}", "--on", page, "--out", folder / "out"]
    return folder, arguments, foil(*arguments, "--runs", "--json", env={"COLUMNS": "200"})


def test_a_model_stands_beside_bm25_and_the_base_in_tables_rows_and_runs(evaluated):
    folder, _, done = evaluated
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    model = str(folder / "tiny")
    assert {row["system"] for row in rows} == {"bm25", "base", model}
    assert {row["group"] for row in rows if row["benchmark"] == "infosearch"} > {"mode: reversed", "dimension: keyword"}
    [ours] = [row for row in rows if row["benchmark"] == "ours" and row["system"] == model]
    assert (ours["measure"], ours["k"], ours["facts"]["template"]) == ("RR@10", 1000, "query_instruction")
    [collection] = ours["collections"].values()
    assert (collection["revision"], len(collection["digest"])) == ("r1", 64)
    assert [json.loads(line) for line in (folder / "out" / "results.jsonl").read_text().splitlines()] == rows
    runs = [path.name for path in (folder / "out" / "runs").rglob("*.trec")]
    assert (len(runs), len(set(runs))) == (9, 3)
    assert "in points" in done.stderr
    assert "infosearch/Clarity-v1: 3 documents, 3 queries" in done.stderr


def test_ids_that_no_run_can_hold_are_told_before_anything_is_ranked(tmp_path):
    write_benchmark("beir", tmp_path / "ours")
    for name in ("corpus.jsonl", "qrels/test.tsv"):
        path = tmp_path / "ours" / name
        path.write_text(path.read_text().replace("d1", "d 1"))
    arguments = ["evaluate", "bm25", "--on", f"beir:{tmp_path / 'ours'}", "--out", tmp_path / "out"]
    done = foil(*arguments, "--runs")
    assert (done.returncode, "'d 1' cannot stand in a TREC file" in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "out").exists()


def test_results_in_the_folder_of_a_run_are_rows_of_sql_and_no_damage(evaluated):
    folder, _, done = evaluated
    rows = json.loads(done.stdout.splitlines()[-1])
    found = run_sql(folder / "out", "FROM evaluations").to_pylist()
    named = ("benchmark", "measure", "system", "count", "value", "difference", "low", "high", "k", "base")
    assert [[row[name] for name in named] for row in found] == [[row[name] for name in named] for row in rows]
    assert [row["query_group"] for row in found] == [row["group"] for row in rows]
    assert all(json.loads(there["facts"]) == row["facts"] for there, row in zip(found, rows, strict=True))
    assert not [finding for finding in verify(folder / "out") if not finding.harmless]


def test_a_repeated_evaluation_says_the_same_and_adds_no_row(evaluated):
    folder, arguments, first = evaluated
    blocks = {path: path.stat().st_mtime_ns for path in (folder / "out" / "vectors").rglob("*.npy")}
    kept = (folder / "out" / "results.jsonl").read_text()
    again = foil(*arguments, "--json", env={"COLUMNS": "200"})
    assert again.stdout == first.stdout
    assert blocks == {path: path.stat().st_mtime_ns for path in (folder / "out" / "vectors").rglob("*.npy")}
    assert (folder / "out" / "results.jsonl").read_text() == kept


def test_a_killed_evaluation_goes_on_and_says_the_same(evaluated):
    folder, arguments, first = evaluated
    elsewhere = [*arguments[:-1], folder / "again"]
    killed = foil(*elsewhere, env={"FOIL_CRASH_POINT": "put.written:3"})
    assert killed.returncode == -9
    assert len(list((folder / "again" / "vectors").rglob("*.npy"))) == 2
    assert foil(*elsewhere, "--json", env={"COLUMNS": "200"}).stdout == first.stdout


def test_notes_come_seconds_apart(capsys):
    seconds = iter([0.0, 1.0, 6.0, 6.0, 7.0])
    notes = SlowNotes(lambda: next(seconds))
    for done in (1, 2, 3):
        notes("texts", done, 3)
    assert capsys.readouterr().err == "texts: 2 of 3\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["base", "--on", "nosuch"], "'nosuch' names no benchmark; write KIND:PATH"),
        (["base", "--on", "nosuch:x"], "there is no benchmark 'nosuch'; choose one of beir"),
        (["base", "--on", "beir:{}/none"], "no qrels/test"),
        (["base", "--on", "{}/none.yaml"], "none.yaml does not read"),
        (["base", "--on", "{}/wrong.yaml"], "wrong.yaml: the settings were refused"),
        (["base", "--on", "trec:{}/trec", "--measures", "nDCP"], "there is no measure 'nDCP'"),
        (["base", "--on", "trec:{}/trec", "--set", "depht=3"], "unknown key; did you mean depth? SystemSettings has"),
        (["base", "bm25"], "give one job file; or systems and the benchmark"),
    ],
)
def test_what_cannot_be_evaluated_is_told_in_a_line(tmp_path, capsys, arguments, told):
    write_benchmark("trec", tmp_path / "trec")
    (tmp_path / "wrong.yaml").write_text("kind: trec\npaht: x\n")
    given = [argument.format(tmp_path) for argument in arguments]
    assert run_command(app, ["evaluate", *given, "--out", str(tmp_path / "out")]) == 2
    assert told in capsys.readouterr().err


def test_a_measure_without_anything_to_compare_is_told(tmp_path, capsys):
    write_benchmark("trec", tmp_path / "trec")
    given = ["--on", f"trec:{tmp_path / 'trec'}", "--measures", "p-MRR", "--measures", "RR@10"]
    assert run_command(app, ["evaluate", *given, "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr()
    assert "p-MRR has nothing to compare there" in said.err
    assert "RR@10" in said.out


def test_benchmarks_are_listed_and_shown(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "150")
    assert run_command(app, ["benchmarks", "list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in KINDS)
    assert run_command(app, ["benchmarks", "show", "mair"]) == 0
    assert "foil evaluate MODEL --on mair:FOLDER" in capsys.readouterr().out
    assert run_command(app, ["benchmarks", "show", "nosuch"]) == 2


def test_differences_are_to_the_base_that_is_named(evaluated):
    folder, arguments, first = evaluated
    done = foil(*arguments[:-1], folder / "based", "--base", "bm25", "--json", env={"COLUMNS": "200"})
    assert done.returncode == 0, done.stderr
    for before, row in zip(json.loads(first.stdout), json.loads(done.stdout), strict=True):
        assert (row["system"], row["value"]) == (before["system"], before["value"])
        assert (row["difference"] == 0) >= (row["system"] == "bm25")
    [base, other] = [
        next(row["difference"] for row in json.loads(each.stdout) if row["system"] == name)
        for each, name in ((first, "bm25"), (done, "base"))
    ]
    assert base == pytest.approx(-other)
