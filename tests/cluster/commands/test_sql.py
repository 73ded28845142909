"""`foil sql` as its users see it: tables and blocks, ids, several runs, the schema, the prompt, the catalog."""

import json
import os
import pty
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import duckdb
import psutil
import pytest

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.sql.schema_words import VIEW_WORDS, describe_views
from foil.datasets_out.sql.views import VIEWS
from foil.datasets_out.training.training_view import SplitSettings
from foil.engine.topic import Passage
from tests.support.commands import STEERS, on_a_terminal
from tests.support.paths import REPO
from tests.support.sample_run import accepted, make, rejected


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of many rejected seeds, for splits; one is held out by its attribute."""
    folder = tmp_path_factory.mktemp("other")
    log = CommitLog(folder)
    log.open("e" * 64, {"recipe": {"kind": "verifiable"}})
    told = replace(accepted("told"), attributes={"split": "heldout"})
    log.commit(0, [told, *(rejected(f"seed {n} é'", "none") for n in range(400))], {})
    return folder


@pytest.fixture
def foil(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: object, code: int = 0) -> tuple[str, str]:
        assert run_command(app, ["sql", *map(str, arguments)]) == code
        shown = capsys.readouterr()
        return shown.out, shown.err

    return run


def test_what_fits_is_a_table_with_short_ids(foil, out):
    shown = foil(out, "SELECT topic_id, status FROM topics ORDER BY seed_id LIMIT 1")[0]
    assert re.search(r"│ [0-9a-f]{8} +│ failed", shown)
    assert re.search("[0-9a-f]{24}", foil(out, "SELECT topic_id FROM topics", "--full")[0])


def test_what_does_not_fit_is_a_block_a_row_and_no_word_is_broken(foil, out):
    shown = foil(out, "SELECT * FROM triplets WHERE seed_id = 'list' LIMIT 1")[0]
    lines = shown.splitlines()
    assert lines[0].startswith("── row 1 ──")
    assert re.fullmatch(r"topic_id       \| [0-9a-f]{8}", lines[1])
    assert "redi" not in lines
    assert max(map(len, lines)) <= 80


def test_ids_that_share_their_first_digits_stay_apart(foil, out):
    sql = "SELECT unnest(['0123456789abcdef01234567', '0123456789abcdef99999999', NULL, 'plain']) AS id"
    assert re.findall(r"│ (\w*) *│", foil(out, sql)[0]) == ["0123456789abcdef0", "0123456789abcdef9", "", "plain"]


def test_a_long_cell_is_cut_and_says_its_length(foil, out):
    shown = foil(out, "SELECT repeat('x', 3412) AS text")[0]
    assert "… 3,412 characters" in " ".join(shown.replace("│", " ").split())
    assert shown.count("x") < 700
    assert foil(out, "SELECT repeat('y', 3412) AS text", "--full")[0].count("y") == 3412


def test_data_for_programs_is_never_cut(foil, out, tmp_path):
    sql = "SELECT repeat('x', 5000) AS text, topic_id FROM topics LIMIT 1"
    ((_, topic),) = [row.values() for row in json.loads(foil(out, sql, "--json")[0])]
    assert len(topic) == 24
    assert foil(out, sql, "--csv")[0].count("x" * 5000) == 1


def test_many_rows_are_cut_and_counted(foil, out):
    shown, said = foil(out, "FROM range(2500)")
    assert shown.count("│\n") == 1000
    assert said == "the first 1,000 of 2,500 rows; `--full` shows all, `--csv` writes them\n"


def test_several_runs_are_asked_at_once(foil, out, other):
    sql = "SELECT run, count(*) AS n FROM topics GROUP BY run ORDER BY n"
    assert json.loads(foil(out, other, sql, "--json")[0]) == [{"run": str(out), "n": 5}, {"run": str(other), "n": 401}]
    both = "SELECT count(DISTINCT run) AS n FROM runs JOIN triplets USING (run)"
    assert json.loads(foil(out, other, both, "--json")[0]) == [{"n": 2}]
    assert "named twice" in foil(out, out, "FROM topics", code=2)[1]


def test_a_query_may_be_longer_than_a_name(foil, out):
    query = "SELECT " + " + ".join(["1"] * 400) + " AS total"
    assert json.loads(foil(out, query, "--json")[0]) == [{"total": 400}]


def test_the_split_is_the_trainers(foil, out, other):
    rows = json.loads(foil(other, "SELECT seed_id, split FROM topics", "--json")[0])
    settings = SplitSettings()
    assert {row["split"] for row in rows} == {"train", "dev", "heldout"}
    for row in rows:
        assert row["split"] == ("heldout" if row["seed_id"] == "told" else settings.split_of(row["seed_id"]))
    assert json.loads(foil(other, "SELECT DISTINCT split FROM triplets", "--json")[0]) == [{"split": "heldout"}]


def test_every_column_of_every_view_is_described(foil, out):
    assert set(VIEW_WORDS) == set(VIEWS)
    for view, columns in describe_views(out).items():
        assert columns, view
        assert [column.name for column in columns if not column.words] == []
    shown = foil(out, "--schema")[0]
    assert max(map(len, shown.splitlines())) <= 80
    assert re.search(r"^  relevance +TINYINT +\+1 or -1$", shown, re.MULTILINE)


def test_the_catalog_opens_in_plain_duckdb_and_is_never_replaced(foil, out, other, tmp_path):
    foil(out, "--catalog", tmp_path / "one.duckdb")
    foil(out, other, "--catalog", tmp_path / "two.duckdb")
    with duckdb.connect(str(tmp_path / "one.duckdb"), read_only=True) as plain:
        assert plain.sql("SELECT count(*) FROM triplets").fetchall() == [(6,)]
    with duckdb.connect(str(tmp_path / "two.duckdb"), read_only=True) as plain:
        assert plain.sql("SELECT count(*), count(DISTINCT run) FROM topics").fetchall() == [(406, 2)]
    assert "File exists" in foil(out, "--catalog", tmp_path / "one.duckdb", code=2)[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.duckdb", "two.duckdb"]
    assert "cannot write" in foil(out, "--catalog", tmp_path / "none" / "x.duckdb", code=2)[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["FROM topics", "--schema"], "leave out the query"),
        (["FROM topics", "--json", "--csv"], "give one of them"),
        ([], "the query is empty"),
    ],
)
def test_answers_that_do_not_go_together_are_refused(foil, out, arguments, says):
    assert says in foil(out, *arguments, code=2)[1]


def typed(out: Path, text: str) -> str:
    """What the prompt prints to someone who types this."""
    own_end, terminal = pty.openpty()
    command = [sys.executable, "-m", "foil", "sql", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(REPO), "PAGER": "cat", "TERM": "dumb"}
    process = subprocess.Popen(command, cwd=REPO, stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    os.write(own_end, text.encode())
    written = b""
    while True:
        try:
            written += os.read(own_end, 1 << 16)
        except OSError:
            break
    os.close(own_end)
    assert process.wait(60) == 0
    return written.decode().replace("\r\n", "\n")


@pytest.mark.slow
def test_the_prompt_answers_goes_on_after_an_error_and_ends(out):
    shown = typed(out, "SELECT count(*) AS topics\nFROM topics;\nFROM nowhere;\n.schema judgments\n.help\n.quit\n")
    assert "│ 5      │" in shown
    assert "Table with name nowhere does not exist" in shown
    assert "+1 or -1" in shown
    assert "A query ends with `;`" in shown


def test_no_text_of_a_run_steers_a_block(tmp_path):
    log = CommitLog(tmp_path)
    log.open("f", {})
    hostile = "\x1b]52;c;aGk=\x07\u202e [bold]x[/bold] " * 9
    log.commit(0, [replace(accepted("x"), passages=(Passage(hostile, "seed_positive"),), judgments=())], {})
    shown = on_a_terminal("sql", tmp_path, "SELECT *, text AS b, text AS c, text AS d FROM passages").decode()
    assert not STEERS.search(shown.replace("\r\n", "\n"))
    assert r"\x1b]52;c;aGk=\x07\u202e [bold]x[/bold]" in " ".join(shown.split())


@pytest.mark.parametrize(
    "question", [["--schema"], ["--views"], ["SELECT count(*) FROM topics", "--json"], ["--nothing"]]
)
def test_the_process_that_waits_for_a_query_ends_with_the_command(out: Path, question: list[str]):
    command = [sys.executable, "-m", "foil", "sql", str(out), *question]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as sql:
        sql.wait()
    deadline = time.monotonic() + 10
    while left := [each.pid for each in psutil.process_iter() if _session_of(each.pid) == sql.pid]:
        assert time.monotonic() < deadline, f"left of session {sql.pid}: {left}"
        time.sleep(0.05)


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return -1
