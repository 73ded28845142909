"""`foil benchmarks annotate`: a chat model on loopback writes instructions, a reader marks them."""

import json

import pytest

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.catalog import read_benchmark
from tests.trainer.evaluate.systems.loopback_models import chat_server


@pytest.fixture
def folder(tmp_path):
    bare = tmp_path / "bare"
    (bare / "qrels").mkdir(parents=True)
    documents = [{"_id": f"d{n}", "title": f"Page {n}", "text": f"what the harbour did in month {n}"} for n in range(6)]
    queries = [{"_id": f"q{n}", "text": f"harbour in month {n}"} for n in range(3)]
    for name, rows in (("corpus", documents), ("queries", queries)):
        (bare / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    lines = [f"q{n}\td{n}\t1\n" for n in range(3)]
    (bare / "qrels" / "test.tsv").write_text("".join(["query-id\tcorpus-id\tscore\n", *lines]))
    return tmp_path


def annotate(folder, *arguments):
    return run_command(app, ["benchmarks", "annotate", f"beir:{folder / 'bare'}", *map(str, arguments)])


def test_what_a_reader_keeps_or_rewrites_becomes_the_benchmark_and_no_reply_is_paid_twice(folder, capsys):
    def instruction(*_):
        return 0.5

    with chat_server(instruction, [_text(" Only log entries\n of the harbour. ")] * 3) as (url, seen):
        given = ["--model", f"ours@{url}", "--replies", folder / "replies", "--set", "about=A harbour's log."]
        assert annotate(folder, *given, "--sheet", folder / "sheet.jsonl", "--set", "documents=1") == 0
        capsys.readouterr()
        assert annotate(folder, *given, "--sheet", folder / "again.jsonl", "--set", "documents=1", "--json") == 0
        drawn = json.loads(capsys.readouterr().out)
        assert drawn == {"sheets": [str(folder / "again.jsonl")], "instructions": 3}
        assert annotate(folder, *given, "--sheet", folder / "again.jsonl") == 2  # it may hold marks
    assert len(seen) == 3
    assert all("A harbour's log." in prompt and prompt.count("<document>") == 2 for prompt in seen)
    rows = [json.loads(line) for line in (folder / "sheet.jsonl").read_text().splitlines()]
    assert (folder / "again.jsonl").read_text() == (folder / "sheet.jsonl").read_text()
    assert {(row["query_id"], *row["relevant"]) for row in rows} == {
        (f"q{n}", f"Page {n} what the harbour did in month {n}") for n in range(3)
    }
    assert {row["instruction"] for row in rows} == {"Only log entries of the harbour."}
    keep = {"q0": ("yes", None), "q1": ("yes", "Only entries about ships."), "q2": ("no", None)}
    for row in rows:
        row["keep"], rewritten = keep[row["query_id"]]
        row["instruction"] = rewritten or row["instruction"]
    (folder / "marked.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert annotate(folder, "--marked", folder / "marked.jsonl", "--into", folder / "ours", "--reader", "ann") == 0
    made = read_benchmark(BenchmarkSource(kind="made", path=folder / "ours"), "")
    assert {query.id: query.instruction for query in made.queries} == {
        "q0": "Only log entries of the harbour.", "q1": "Only entries about ships.",
    }  # fmt: skip
    assert (made.qrels, len(made.documents)) == ({"q0": {"d0": 1}, "q1": {"d1": 1}}, 6)
    assert json.loads((folder / "ours" / "benchmark.json").read_text())["instructions_kept_by"] == "ann"


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"query_id": "q0", "query": "harbour in month 0", "instruction": "x"}, "write yes or no"),
        ({"query_id": "q0", "query": "harbour in month 9", "instruction": "x", "keep": "yes"}, "is no query of"),
        ({"query_id": "q0", "query": "harbour in month 0", "instruction": " ", "keep": "yes"}, "an empty instruction"),
        ({"query_id": "q0", "query": "harbour in month 0", "instruction": "x", "keep": "no"}, "keeps no instruction"),
    ],
)
def test_a_sheet_that_does_not_decide_is_refused(folder, capsys, row, told):
    (folder / "marked.jsonl").write_text(json.dumps(row))
    assert annotate(folder, "--marked", folder / "marked.jsonl", "--into", folder / "ours") == 2
    assert told in " ".join(capsys.readouterr().err.split())
    assert not (folder / "ours").exists()


def test_what_cannot_be_annotated_is_refused(folder, capsys):
    assert annotate(folder, "--sheet", folder / "sheet.jsonl") == 2
    assert annotate(folder, "--model", "ours", "--sheet", folder / "sheet.jsonl") == 2
    (folder / "marked.jsonl").write_text("{")
    assert annotate(folder, "--marked", folder / "marked.jsonl", "--into", folder / "ours") == 2
    told = " ".join(capsys.readouterr().err.split())
    assert all(part in told for part in ("give --model MODEL@URL", "write MODEL@https://HOST/v1", "does not read"))


def _text(text):
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return 200, {"model": "ours", "choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 9}}
