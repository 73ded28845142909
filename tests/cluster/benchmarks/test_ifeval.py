"""`foil benchmarks make ifeval:FOLDER`: from prompts and responses to sub-tasks that `foil evaluate` ranks."""

import json

import pytest

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.catalog import benchmarks_of
from tests.trainer.evaluate.benchmarks.tiny_benchmarks import lines
from tests.trainer.evaluate.systems.loopback_models import choices_server

PROMPTS = [
    {"key": 1, "prompt": "Tell of the sea in quotes.", "instruction_id_list": ["startend:quotation"], "kwargs": [{}]},
    {
        "key": 2,
        "prompt": "Tell of bread.",
        "instruction_id_list": ["punctuation:no_comma"],
        "kwargs": [{}],
    },
]


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "ifeval"
    path.mkdir()
    (path / "input_data.jsonl").write_text(lines(*PROMPTS))
    told = [(PROMPTS[0], '"The sea is wide."'), (PROMPTS[0], "The sea is wide."), (PROMPTS[1], "Bread is good."),
            (PROMPTS[1], "Bread, butter, salt.")]  # fmt: skip
    answers = [{"prompt": prompt["prompt"], "response": response} for prompt, response in told]
    (path / "input_response_data_a.jsonl").write_text(lines(*answers[:3]))
    (path / "responses_b.jsonl").write_text(lines(*answers[2:]))
    return path


def make(*arguments):
    return run_command(app, ["benchmarks", "make", *map(str, arguments)])


def test_sub_tasks_are_written_and_ranked(folder, tmp_path, capsys):
    assert make(f"ifeval:{folder}", "--into", tmp_path / "ours", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows == [
        {"benchmark": f"ifeval/{name}", "documents": 2, "queries": 1, "without_contrast": 0, "short": 1}
        for name in ("punctuation", "startend")
    ]
    source = BenchmarkSource(kind="made", path=tmp_path / "ours", name="ifeval")
    found = {benchmark.name: benchmark for benchmark in benchmarks_of(source)}
    assert found.keys() == {"ifeval/punctuation", "ifeval/startend"}
    quoted = found["ifeval/startend"]
    assert {quoted.documents[name][1]: grade for name, grade in quoted.qrels["1"].items()} == {
        '"The sea is wide."': 1, "The sea is wide.": 0,
    }  # fmt: skip
    out = ["--out", str(tmp_path / "out"), "--json"]
    assert run_command(app, ["evaluate", "--on", f"made:{tmp_path / 'ours'}", *out]) == 0
    results = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {row["count"] for row in results if not row["group"]} == {2}
    assert make(f"ifeval:{folder}#startend", "--into", tmp_path / "one") == 0
    assert (tmp_path / "one" / "corpus.jsonl").is_file()


def respond(*arguments):
    return run_command(app, ["benchmarks", "respond", *map(str, arguments)])


@pytest.fixture
def drawing(folder):
    """The folder without responses, the URL of a model that draws them, and the prompts that it was sent.

    Of three choices one follows the quotation, one does not, and one is cut; to the second prompt all follow.
    """
    for path in folder.glob("*response*"):
        path.unlink()
    draws = iter(range(10**6))

    def choices(asked):
        assert (asked["n"], asked["temperature"]) == (3, 1.0)
        number = next(draws)
        texts = [f'"The sea, {number}."', f"The sea, {number}.", f'"cut {number}']
        if "bread" in asked["messages"][0]["content"]:
            texts = [f"Bread {number}{letter}" for letter in "abc"]
        return [(text, "length" if "cut" in text else "stop") for text in texts]

    with choices_server(choices) as (url, seen):
        yield folder, url, seen


def test_a_model_responds_until_both_kinds_are_there_and_its_responses_make_the_sub_tasks(drawing, tmp_path, capsys):
    folder, url, seen = drawing
    wanted = ["--set", "candidates=4", "--set", "followers=2", "--set", "choices=3", "--set", "most=9"]
    arguments = [f"ifeval:{folder}", "--model", f"small/one@{url}", "--replies", tmp_path / "replies", *wanted]
    assert respond(*arguments, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "prompts": 2, "responses": 4 + 9, "following": 2 + 9, "short": 1, "requests": 2 + 3,
    }  # fmt: skip
    path = folder / "responses_small-one.jsonl"
    first = path.read_text()
    assert "cut" not in first
    assert sorted(seen) == sorted([PROMPTS[0]["prompt"]] * 2 + [PROMPTS[1]["prompt"]] * 3)
    assert respond(*arguments) == 2
    assert "responses_small-one.jsonl exists; remove it" in " ".join(capsys.readouterr().err.split())
    path.unlink()
    assert respond(*arguments) == 0
    assert (path.read_text(), len(seen)) == (first, 5)  # every reply was kept
    capsys.readouterr()
    assert make(f"ifeval:{folder}", "--into", tmp_path / "ours", "--set", "candidates=4", "--json") == 0
    [row] = json.loads(capsys.readouterr().out)
    assert (row["benchmark"], row["documents"], row["short"]) == ("ifeval/startend", 4, 0)


def test_what_no_model_can_respond_to_is_told(folder, capsys):
    assert respond("beir:x", "--model", "ours@http://127.0.0.1:1/v1") == 2
    assert respond(f"ifeval:{folder}#language", "--model", "ours@http://127.0.0.1:1/v1") == 2
    assert respond(f"ifeval:{folder}", "--model", "ours") == 2
    told = " ".join(capsys.readouterr().err.split())
    assert all(part in told for part in ("is not ifeval:FOLDER", "no sub-task 'language'", "write MODEL@https://HOST"))


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda f: (f / "input_data.jsonl").unlink(), "no input_data"),
        (lambda f: (f / "input_data.jsonl").write_text('{"key": 1}\n'), "input_data.jsonl:1: expected"),
        (lambda f: [p.unlink() for p in f.glob("*response*")], "bring models' responses to IFEval's prompts"),
        (lambda f: (f / "responses_b.jsonl").write_text('{"prompt": "a"}\n'), "responses_b.jsonl:1: expected"),
        (lambda f: [p.write_text('{"prompt": "a", "response": "b"}\n') for p in f.glob("*response*")],
         "has both a response that follows"),
    ],
)  # fmt: skip
def test_what_cannot_be_made_is_told(folder, tmp_path, capsys, damage, told):
    damage(folder)
    assert make(f"ifeval:{folder}", "--into", tmp_path / "ours") == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "ours").exists()


def test_a_sub_task_that_there_is_not_is_told(folder, tmp_path, capsys):
    assert make(f"ifeval:{folder}#language", "--into", tmp_path / "ours") == 2
    assert "IFEval has no sub-task 'language'; choose one of change_case" in capsys.readouterr().err
