"""What a newcomer reads of a run that went wrong: the reasons at its end, in `foil status`, and by `foil reasons`."""

import json
import re
from pathlib import Path

import pytest

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.engine.reasons import reason_entries
from tests.support.commands import foil as process
from tests.support.models.character import BROKEN, SPOILT, Character
from tests.support.models.fault_server import serving
from tests.support.paths import REPO
from tests.support.topics.trades import corpus

TASKS = ("writing.questions", "writing.instruction", "writing.other_query", "writing.passage", "judges.scenario")
"""What the recipe of the README's job asks, and its judge."""
FAULTS = [
    (kind, task)
    for kind, (tasks, _) in {**SPOILT, **BROKEN}.items()
    for task in sorted(set(TASKS) & set(tasks), key=TASKS.index)
    if kind not in BROKEN or task in ("writing.questions", "writing.passage", "judges.scenario")
]
BORNE = {"goes_on", "adds_a_note", "other_length", "in_german", "speaks_to_judge", "names_a_person", "doubles"}
"""Faults that are mended, or that no check of this job looks for."""
STRICT = ("recipe.frames=false", "recipe.checks={ignores_demand: correct}", "replies.candidates=0", "limits.seeds=4")
"""Every fault rejects its seed."""


@pytest.fixture
def foil(capsys, monkeypatch, tmp_path):
    """Runs a command in the folder of the test; returns its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("EXAMPLE_API_KEY", "key-of-nobody")

    def command(*arguments: object) -> tuple[int, str]:
        code = run_command(app, [str(each) for each in arguments])
        out, err = capsys.readouterr()
        assert code in range(16), err
        assert out, err
        return code, out

    return command


def own_data_job(folder: Path, url: str) -> Path:
    """The README's job, with the url of its models."""
    [job] = re.findall(r"```yaml\n(seeds:.*?)```", (REPO / "README.md").read_text(), re.DOTALL)
    rows = map(json.loads, corpus(folder / "rows.jsonl").read_text().splitlines())
    questions = [{"question": row["query"], "answers": row["positives"]} for row in rows]
    (folder / "questions.jsonl").write_text("".join(json.dumps(question) + "\n" for question in questions))
    (folder / "job.yaml").write_text(job.replace("https://api.example.com/v1", url))
    return folder / "job.yaml"


def flat(text: str) -> str:
    """A page as one line, so that a sentence is found wherever it was wrapped."""
    return " ".join(text.split())


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "task"), FAULTS)
def test_each_ending_says_what_happened_and_what_to_change(kind, task, foil, tmp_path):
    """Every rule that a model can fail in the README's own-data job."""
    with serving(answer=Character(always=(kind, task))) as server:
        job = own_data_job(tmp_path, server.url)
        _, ended = foil("run", job, "--all", *(part for each in STRICT for part in ("--set", each)))
    assert max(map(len, ended.splitlines())) <= 80
    status = json.loads(foil("status", "out/mine", "--json")[1])
    assert status["reasons"] or kind in BORNE
    assert set(status["reasons"]) <= set(reason_entries())
    for reason, count in list(status["reasons"].items())[:3]:
        entry = reason_entries()[reason]
        assert f"{count / 4:.0%} {reason}, {count} of 4 topics: {entry.meaning} change: {entry.mend}" in flat(ended)
        assert f"    foil show out/mine --reason {reason}\n" in ended
        assert "for example 'How is" in flat(ended)
    for command in re.findall(r"^    foil ((?:why|show) .*)$", ended, re.MULTILINE):
        code, shown = foil(*command.split())
        assert (code, bool(shown)) == (0, True), command


@pytest.fixture(scope="module")
def wrong_run(tmp_path_factory):
    """The README's job planned, tried, planned, run and looked at, with a model that is often wrong: each page."""
    folder = tmp_path_factory.mktemp("wrong")
    env = {"COLUMNS": "80", "EXAMPLE_API_KEY": "key-of-nobody"}
    with serving(answer=Character(said=0.05, broken=0.05)) as server:
        own_data_job(folder, server.url)
        commands = ("plan job.yaml", "try job.yaml --seeds 8", "plan job.yaml", "run job.yaml", "status out/mine")
        return [process(*command.split(), env=env, folder=folder).stdout for command in commands]


@pytest.mark.slow
def test_the_first_commands_fit_into_80_columns_and_break_no_header(wrong_run):
    unseen, tried, planned, ended, status = wrong_run
    for page in wrong_run:
        assert max(map(len, page.splitlines())) <= 80, page
    for page in (unseen, planned):
        assert page.splitlines()[1].split() == ["stage", "seeds", "pass", "calls", "tokens", "dollars", "paid", "hours"]
    header = ["stage", "sent", "valid", "mended", "corrected", "drawn", "given", "up", "tokens"]
    assert tried.splitlines()[1].split() == header
    assert "│ validator       │ topics │ rejected │" in ended.replace("┃", "│")
    assert "complete" in status


@pytest.mark.slow
def test_a_plan_ends_with_what_it_is_in_all(wrong_run):
    lines = [line.split() for line in wrong_run[2].splitlines()]
    calls = [float(line[3].replace(",", "")) for line in lines if line and re.match(r"writing|judges", line[0])]
    [total] = [line for line in lines if line[:2] == ["in", "all"]]
    assert float(total[2]) == pytest.approx(sum(calls), abs=len(calls))
    assert 0 < float(total[4]) < 1


@pytest.mark.slow
def test_the_status_of_a_run_says_why_without_reading_rows(wrong_run):
    assert "    foil show out/mine --reason " in wrong_run[4]
    assert "for example" not in wrong_run[4]
    assert "change: " in wrong_run[4]


def test_no_text_of_a_corpus_or_model_steers_the_terminal(foil, tmp_path):
    (tmp_path / "rows.jsonl").write_text(json.dumps({"q": "who \x1b]52;c;x\x07 \u202ebuilt\n\n# it", "a": []}) + "\n")
    (tmp_path / "job.yaml").write_text(
        "seeds: {kind: table, corpus: a, path: rows.jsonl, columns: {query: q, positives: a}}\n"
        "recipe: {kind: verifiable}\nout: out\n"
    )
    ended = foil("run", "job.yaml")[1]
    assert "100% no_positive, 1 of 1 topic" in ended
    assert r"\x1b]52;c;x\x07 \u202ebuilt # it" in ended
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", ended)


def test_reasons_are_listed_explained_and_found(foil):
    code, listed = foil("reasons")
    assert code == 0
    assert re.findall(r"^(\w+): ", listed, re.MULTILINE) == list(reason_entries())
    assert max(map(len, listed.splitlines())) <= 80
    entry = reason_entries()["other_passage_named"]
    _, explained = foil("reasons", entry.name)
    for text in (entry.meaning, entry.who, entry.mend, entry.example):
        assert text in flat(explained)
    [as_json] = json.loads(foil("reasons", entry.name, "--json")[1])["reasons"]
    assert as_json["meaning"] == entry.meaning
    assert len(json.loads(foil("reasons", "--json")[1])["reasons"]) == len(reason_entries())
    assert "quotes_answer: " in foil("reasons", "leak")[1]


def test_an_unknown_reason_is_answered_with_the_nearest(foil, capsys):
    assert run_command(app, ["reasons", "no_passage_name"]) == 2
    assert "did you mean no_passage_named" in capsys.readouterr().err
