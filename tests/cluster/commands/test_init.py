"""`foil init`: five answers, by options or on a terminal, make a job that is accepted, and small ones run."""

import json
import os
import pty
import re
import select
import subprocess
import sys

import pytest

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.cluster.job import load_job
from tests.support.commands import foil
from tests.support.models.character import Character, without_fences
from tests.support.models.fault_server import Behaviour, default_answer, serving
from tests.support.paths import REPO
from tests.support.topics.trades import paragraph, trade_rows

PAPERS = ("infir", "promptriever", "dual_view", "infosearch", "contrast", "custom")
PRICED = "writer@https://api.openai.com/v1 price=0.15/0.60 judge=judge"
MODELS = (PRICED, "writer@http://127.0.0.1:8000/v1", "vllm:/models/small tensor_parallel_size=2")
HARBOUR = f"{REPO}/examples/seeds/harbour.jsonl"
DATA = (
    "python_docs", "rows.jsonl", "t.csv query=q positives=a.b", "'my texts'", "beir", "beir:beir split=test",
    "msmarco", "metamath", "leetcode", "robust04", "msmarco:rows.jsonl",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with data of each kind; commands run in it."""
    rows = trade_rows()[:8]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "t.csv").write_text("q,a.b,c\nwhy,because,3\n")
    for name in ("my texts/a.md", "beir/corpus.jsonl", "seeds/msmarco/v2.1/a.jsonl", "seeds/leetcode/a.jsonl",
                 "seeds/metamath/MetaMathQA-395K.json", "seeds/robust04/topics.robust04.gz",
                 "seeds/robust04/qrels.robust2004.txt", "seeds/robust04/documents/a"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a text\n")
    for town in ("Vellmar", "Quarrow", "Tindale"):
        pages = [paragraph(town, thing, number) for thing in ("slate", "wool", "cheese") for number in (0, 1)]
        text = "\n\n".join(f"# {page['title']}\n\n{page['text']}" for page in pages)
        (tmp_path / "my texts" / f"{town}.md").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*words):
    return run_command(app, ["init", *words])


@pytest.mark.slow
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("model", ["none", *MODELS])
def test_every_answer_of_options_makes_a_job_that_is_accepted(folder, capsys, monkeypatch, data, model):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if model == "none" and "texts" in data:
        assert init("--data", data, "--yes") == 2
        assert "a model writes them" in capsys.readouterr().err
        return
    for paper in ("verifiable",) if model == "none" else PAPERS:
        file = folder / "jobs" / f"{paper}.yaml"
        assert init(str(file), "--data", data, "--model", model, "--paper", paper, "--yes", "--json") == 0
        written = json.loads(capsys.readouterr().out)
        assert written["job"] == str(file)
        assert written["unset_keys"] == (["OPENAI_API_KEY"] if model == PRICED else [])
        assert written["next"] == [f"foil {name} {file}" for name in ("doctor", "try", "run")]
        job = load_job(file)
        assert (job.recipe.kind, job.limits.seeds) == (paper, 400)
        assert job.models.keys() == ({"writer", "judge"} if model == PRICED else {"writer"} if job.models else set())
        budget = job.limits.budget
        assert (budget.usd, budget.tokens) == {"none": (None, None), PRICED: (5, None)}.get(model, (None, 2_000_000))
        judges = [each.kind for each in job.validators if each.kind.startswith("judge_")]
        assert ("judge_demands" in judges) == ("texts" in data or paper == "contrast")
        demanding = [each for each in job.validators if each.kind == "judge_demands"]
        assert all(each.compare == (paper == "contrast") for each in demanding)


def custom_or_in_character(request, choice):
    """What the character answers; to the first recipe of one's own, what its template asks for."""
    user = without_fences(request["messages"][-1]["content"])
    if "Name one thing" not in request["messages"][0]["content"]:
        try:
            return Character()(request, choice)
        except LookupError:  # a question of the doctor
            return default_answer(request, choice)
    sentences = re.split(r"(?<=\.) ", user.partition("Passage:")[2].strip())
    phrase = " ".join(sentences[-1].split()[1:4]).rstrip(".")
    answer = {"phrase": phrase, "instruction": f"Only texts that mention {phrase}.", "text": " ".join(sentences[:-1])}
    return json.dumps(answer)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "paper", "seeds"),
    [(HARBOUR, "verifiable", 2), ("'my texts'", "infir", 7), *(("rows.jsonl", paper, 4) for paper in PAPERS)],
)
def test_the_commands_that_it_names_run_the_job(folder, data, paper, seeds):
    with serving(Behaviour(models=("in-character",)), custom_or_in_character) as server:
        model = "none" if paper == "verifiable" else f"in-character@{server.url}"
        answers = ("--data", data, "--model", model, "--paper", paper, "--budget", str(seeds), "--ask", "--yes")
        written = foil("init", "first.yaml", *answers, folder=folder)
        assert written.returncode == 0, written.stderr
        commands = re.findall(r"^    foil (.*)$", written.stdout, re.MULTILINE)
        assert [each.split()[0] for each in commands] == ["doctor", "try", "run"]
        for command in commands if "texts" in data else commands[2:]:
            ended = foil(*command.split(), folder=folder)
            assert ended.returncode == 0, ended.stderr
        state = json.loads(foil("status", "out/first", "--json", folder=folder).stdout)
    assert (state["complete"], state["planned"]) == (True, seeds)
    assert state["accepted"] > 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--data", "nowhere"], "--data: nowhere is no file or folder here"),
        (["--data", "t.csv"], "t.csv has the columns q, a.b, c; none of them is surely the query. Say so: t.csv query"),
        (["--data", "t.csv query=q positives=no"], "it has no column 'no'"),
        (["--data", "rows.jsonl speed=4"], "speed: unknown key; TableSettings has"),
        (["--data", "rows.jsonl fast"], "'fast' is no setting; write NAME=VALUE"),
        (["--data", "robust04 documents=elsewhere"], "elsewhere is not there; `foil seeds fetch robust04` gets it"),
        (["--data", "'my texts"], "close the quotation mark"),
        (["--model", "gpt"], "'gpt' is no model; write NAME@URL"),
        (["--model", "m@http://example.com/v1 key=SOME_KEY"], "a key over plain http"),
        (["--model", f"{PRICED} price=2"], "price=2: write US dollars a million tokens"),
        (["--model", "m@http://127.0.0.1:9/v1", "--ask"], "http://127.0.0.1:9/v1 does not answer"),
        (["--model", MODELS[1], "--budget", "usd=5"], "usd= needs the price"),
        (["--budget", "five"], "'five' is no setting"),
        (["--budget", "seeds=0"], "seeds"),
        (["--paper", "infir"], "infir needs a model"),
        (["--paper", "nobody's"], "there is no recipe"),
        (["--paper", "verifiable", "--model", PRICED], "asks no model"),
        (["--out", "t.csv"], "t.csv is a file"),
        (["--out", "ftp://x"], "ftp://x"),
    ],
)
def test_a_wrong_answer_is_refused_with_what_to_write(folder, capsys, words, says):
    assert init(*words, "--yes") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("foil: --")
    assert says in said
    assert not (folder / "job.yaml").exists()


def test_a_model_that_the_endpoint_does_not_have_is_named_with_those_near(folder, capsys):
    with serving(Behaviour(models=("small-writer", "big"))) as server:
        assert init("--model", f"small-writr@{server.url}", "--ask", "--yes") == 2
    assert "has no model 'small-writr'; it has small-writer" in " ".join(capsys.readouterr().err.split())


def test_nothing_is_overwritten_and_nobody_is_asked_without_a_terminal(folder, capsys):
    assert init("--data", "rows.jsonl") == 2
    assert "--model is not given, and nobody can be asked" in capsys.readouterr().err
    assert init("--data", "rows.jsonl", "--yes") == 0
    before = (folder / "job.yaml").read_text()
    assert init("--data", "python_docs", "--yes") == 2
    assert "job.yaml is there already" in capsys.readouterr().err
    (folder / "own_templates").mkdir()
    assert init("own.yaml", "--data", "rows.jsonl", "--model", MODELS[1], "--paper", "custom", "--yes") == 2
    assert "own_templates is there already" in capsys.readouterr().err
    assert (folder / "job.yaml").read_text() == before


def typed(folder, lines, *words):
    """What `foil init` shows on a terminal where a person types these lines, each once something is asked."""
    own_end, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "foil", "init", *words], cwd=folder, stdin=terminal, stdout=terminal, stderr=terminal,
        env={**os.environ, "PYTHONPATH": str(REPO), "TERM": "dumb"},
    )  # fmt: skip
    os.close(terminal)
    shown, waiting = "", list(lines)
    while select.select([own_end], [], [], 60)[0]:
        try:
            shown += os.read(own_end, 1 << 16).decode()
        except OSError:
            break
        if waiting and re.search(r"\]: $", shown):
            line = waiting.pop(0)
            shown += "\n"
            os.write(own_end, line.encode() if line == "\x04" else f"{line}\n".encode())
    os.close(own_end)
    return process.wait(60), shown


def test_a_person_is_asked_five_questions_and_again_after_a_wrong_answer(folder):
    lines = ["nowhere", "rows.jsonl", f"{MODELS[1]}", "verifiable", "", "usd=3", "seeds=20", "out/mine"]
    code, shown = typed(folder, lines)
    assert code == 0, shown
    for question in ("Data:", "Model:", "Paper:", "Budget:", "Out:"):
        assert question in shown
    assert re.search(r"data \[python_docs\]: \s*nowhere.*\s*nowhere is no file", shown)
    assert "asks no model" in shown
    assert "usd= needs the price" in shown
    assert "job.yaml is written" in shown
    job = load_job(folder / "job.yaml")
    assert (job.recipe.kind, job.limits.seeds, job.limits.budget.tokens) == ("infir", 20, None)
    assert job.place.endswith("out/mine")


def test_a_person_who_leaves_gets_no_file(folder):
    code, shown = typed(folder, ["rows.jsonl", "\x04"], "--paper", "verifiable")
    assert (code, "nothing is written" in shown) == (2, True), shown
    assert not (folder / "job.yaml").exists()
