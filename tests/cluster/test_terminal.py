"""What reaches the terminal: hostile texts of corpora, models and errors are shown as they are, and never obeyed."""

import io
import logging
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.cluster.terminal import live_table, say, show
from foil.datasets_out.commits.log import CommitLog
from foil.engine.topic import Call, Passage, Topic, Verdict
from foil.engine.visible_text import VisibleFormatter, visible
from tests.support.commands import STEERS, foil, on_a_terminal, write_job
from tests.support.fuzzing import fuzzed
from tests.support.paths import REPO
from tests.support.sample_run import accepted

HOSTILE = (
    "\x1b]52;c;aGk=\x07 \x9b2J \r\b\x00 \u202eabc\u2066 \u200b [/x] [bold]b[/bold] [link=http://x]y[/link] :smile: {0}"
)
hostile_texts = st.lists(
    st.sampled_from(
        ["\x1b[2J", "\x9b", "\x07", "\r", "\b", "\u202e", "\u2066", "[/", "]", "[red]", ":heart:", "\n", "\t"]
    )
    | st.text(max_size=5),
    max_size=8,
).map("".join)


@contextmanager
def captured() -> Iterator[list[str]]:
    """What is written to stdout and stderr meanwhile; the list is filled at the end."""
    texts: list[str] = []
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        yield texts
    for stream in (out, err):
        stream.seek(0)
        texts.append(stream.read())


def printed(*arguments: object) -> str:
    """All that a command prints in this process; it must end well."""
    with captured() as texts:
        code = run_command(app, [str(argument) for argument in arguments])
    assert code == 0, texts
    return "".join(texts)


def hostile_topic(text: str) -> Topic:
    topic = accepted("hostile")
    passages = tuple(Passage(f"{n} {text}", p.role, title=text, source_id=text) for n, p in enumerate(topic.passages))
    renamed = dict(zip((p.id for p in topic.passages), (p.id for p in passages), strict=True))
    return replace(
        topic,
        query=text,
        corpus=text,
        recipe=text or "recipe",
        licence=text,
        passages=passages,
        judgments=tuple(replace(j, passage_id=renamed[j.passage_id], judge=text) for j in topic.judgments),
        verdicts=(Verdict(f"judge_{text}", "topic", "pass", text, text),),
        calls=(Call("call-hostile", text, text, text, 1, 1, 0.1, text, text),),
    )


def hostile_run(out: Path, text: str) -> Topic:
    """Commits a topic whose every text is hostile."""
    log, topic = CommitLog(out), hostile_topic(text)
    log.open("f" * 64, {"recipe": {"kind": text}, "seeds": {"path": text}})
    failed = replace(accepted("failed"), status="failed", reason=text or "reason", detail=text)
    log.commit(0, [topic, failed], {"note": text})
    log.put_plan({"seeds": 2, "partitions": 1})
    return topic


def storable(text: str) -> str:
    return text.encode(errors="ignore").decode()


@pytest.mark.slow
@fuzzed(12)
@given(text=hostile_texts.map(storable))
@example(text=HOSTILE)
def test_no_text_of_a_run_steers_the_terminal(tmp_path_factory, text):
    out = tmp_path_factory.mktemp("hostile") / "out"
    topic = hostile_run(out, text)
    for command in ("status", "verify", "why", "show"):
        shown = printed(command, out, *([topic.id] if command in ("why", "show") else []))
        assert not STEERS.search(shown)


@pytest.mark.parametrize(
    "command",
    [["agreement"], ["sql", "FROM topics JOIN verdicts USING (topic_id)"], ["mine", "mined"], ["snapshot", "a"]],
)
def test_no_hostile_text_reaches_the_terminal_by_any_command(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    hostile_run(tmp_path / "out", HOSTILE)
    assert not STEERS.search(printed(command[0], tmp_path / "out", *command[1:]))


@fuzzed(30)
@given(text=hostile_texts)
@example(text=HOSTILE)
def test_tables_titles_and_words_show_what_they_are_given(text):
    with captured() as texts:
        show([text, "b"], [[text, 1], [None, text]], title=text)
        say(text)
    out, err = texts
    assert not STEERS.search(out + err)
    assert err == visible(text) + "\n"


def test_what_is_shown_is_what_is_stored(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    show(["text"], [[HOSTILE.replace("\r", "")]])
    out, _ = capsys.readouterr()
    assert r"\x1b]52;c;aGk=\x07 \x9b2J" in out
    assert r"\u202eabc\u2066 \u200b [/x] [bold]b[/bold] [link=http://x]y[/link] :smile: {0}" in out


def test_letters_of_all_scripts_stay():
    text = "naïve Ελλάδα 日本語\u3000書く \u00a0 العربية 🦆 a\tb\nc"
    assert visible(text) == text


def test_seeds_with_markup_are_previewed(tmp_path):
    job = write_job(tmp_path, 1)
    seeds = tmp_path / "seeds.jsonl"
    seeds.write_text(seeds.read_text().replace("How is the red kite", "[/x] :smile: \\u001b[2J How is the kite"))
    shown = printed("seeds", "preview", job)
    assert "[/x] :smile: \\x1b[2J How is" in shown
    assert not STEERS.search(shown)


def test_errors_and_log_lines_are_visible_text(capsys):
    assert run_command(app, ["why", "/no\x1b[2J\u202erun", "x"]) == 2
    assert r"/no\x1b[2J\u202erun holds no run" in capsys.readouterr().err
    record = logging.LogRecord("foil", logging.WARNING, __file__, 1, "said %s", ("\x1b]0;x\x07",), None)
    assert VisibleFormatter().format(record) == r"said \x1b]0;x\x07"


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--csv", "--json", None])
def test_data_on_a_terminal_is_shown_and_in_a_pipe_exact(tmp_path, option):
    log = CommitLog(tmp_path)
    log.open("f", {})
    log.commit(0, [hostile_topic(HOSTILE)], {})
    options = [option] if option else []
    shown = on_a_terminal("sql", tmp_path, "SELECT query FROM topics", *options)
    assert not STEERS.search(shown.decode().replace("\r\n", "\n"))
    if option == "--csv":
        command = [sys.executable, "-m", "foil", "sql", tmp_path, "SELECT query FROM topics", "--csv"]
        exact = subprocess.run(list(map(str, command)), cwd=REPO, capture_output=True, check=True).stdout
        assert HOSTILE in exact.decode()


def test_the_live_table_takes_any_text(monkeypatch):
    own_end, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        with live_table() as update:
            update(["what", "topics"], [[HOSTILE, "1"]], HOSTILE)
    written = os.read(own_end, 1 << 16).decode()
    assert "\x1b]52" not in written
    assert "\u202e" not in written


def test_a_table_fits_any_width(capsys, monkeypatch):
    for width in ("1", "0", "-5", "x", "100000"):
        monkeypatch.setenv("COLUMNS", width)
        show(["a", "b"], [["long text " * 5, Path("p")]], "title")
        assert capsys.readouterr().out


def test_a_run_shows_no_other_librarys_notes(tmp_path):
    assert "Building index" not in foil("run", write_job(tmp_path, 4)).stderr
