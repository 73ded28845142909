"""How commands end: whatever they are given, by a documented exit code and a line, never a traceback."""

import errno
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from foil.cluster.commands.app import BENCHMARKS_COMMANDS, COMMANDS, SEEDS_COMMANDS, app
from foil.cluster.endings import run_command
from foil.datasets_out.sql.query_process import check_statement
from foil.engine.errors import UsageError
from tests.support.commands import write_job
from tests.support.fuzzing import fuzzed
from tests.support.paths import REPO
from tests.support.sample_run import make

OF_RUNS = {  # command -> what follows the folder
    "status": [], "sql": ["SELECT 1"], "why": ["list"], "agreement": [], "verify": [], "snapshot": ["name"],
    "mix": ["{new}"], "mine": ["{new}"],
}  # fmt: skip
OF_JOBS = {
    "run": [], "try": [], "plan": [], "submit": [], "train": [], "evaluate": [], "seeds preview": [],
}  # fmt: skip
PLACES = ["nothing/there", "a_file", "empty_folder", "", "a\nb\x1b[2J", "é" * 300, "x/" * 3000]
DAMAGES = [b"", b"{", b"\xff\xfe", b"[]", b"null", b'{"body": {}, "digest": "0"}', b"[" * 100_000]


def each_command_with(inputs: list[Any]) -> list[tuple[str, Any]]:
    """Every pair; of the commands that start a process of their own only two, since that takes a second."""
    slow = ("sql", "agreement")
    return [(command, value) for command in OF_RUNS for value in (inputs[:2] if command in slow else inputs)]


@pytest.fixture
def ended(capsys):
    """Runs a command in this process; gives its exit code, stdout and stderr, which never hold a traceback."""

    def end(*arguments: object) -> tuple[int, str, str]:
        code = run_command(app, [str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return end


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("run"))


def asked(command: str, given_path: object, folder: Path) -> list[object]:
    more = (OF_RUNS | OF_JOBS)[command]
    return [*command.split(), given_path, *(part.format(new=folder / "new") for part in more)]


@pytest.mark.slow
@pytest.mark.parametrize(("command", "place"), each_command_with(PLACES))
def test_a_folder_without_a_run_is_wrong_usage(ended, tmp_path, monkeypatch, command, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_file").write_text("no folder")
    (tmp_path / "empty_folder").mkdir()
    code, out, err = ended(*asked(command, place, tmp_path))
    assert (code, out) == (2, ""), err
    assert "holds no run" in err or "File name too long" in err
    assert "\x1b" not in err
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("command", "damage"), each_command_with(DAMAGES))
def test_a_damaged_run_is_damaged_data(ended, tmp_path, command, damage):
    make(tmp_path / "out")
    (tmp_path / "out" / "run.json").write_bytes(damage)
    code, _, err = ended(*asked(command, tmp_path / "out", tmp_path))
    assert code == 6, err


@pytest.mark.parametrize("torn", [b"", b"{", b"[]", b"{}", b"\xff", b'{"seconds": "x"}'])
def test_a_session_file_that_a_crash_tore_does_not_stop_status(ended, tmp_path, torn):
    sessions = make(tmp_path / "out") / "sessions"
    sessions.mkdir()
    (sessions / "20260101T000000-a.json").write_bytes(torn)
    assert ended("status", tmp_path / "out")[0] == 0


@pytest.mark.parametrize("command", OF_JOBS)
@pytest.mark.parametrize("place", ["nothing.yaml", "empty_folder", "empty_file", "no_text", ""])
def test_what_is_no_job_is_wrong_usage(ended, tmp_path, monkeypatch, command, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty_folder").mkdir()
    (tmp_path / "empty_file").touch()
    (tmp_path / "no_text").write_bytes(b"\xff\x00\xfe")
    code, out, err = ended(*asked(command, place, tmp_path))
    assert (code, out) == (2, ""), err
    assert err.startswith("foil: ")


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_training_on_a_folder_without_a_run_is_wrong_usage(ended, tmp_path, command):
    job = write_job(tmp_path, 3)
    job.write_text(job.read_text() + "train: {}\n")
    code, _, err = ended(command, job)
    assert code == 2, err
    assert "holds no run" in err


@pytest.mark.parametrize("command", [*OF_RUNS, *OF_JOBS, "seeds nonsense", "nonsense", "\x1b[2J", "[/x]"])
@pytest.mark.parametrize("arguments", [[], ["--nonsense\x1b[2J"], ["a", "b", "c", "d", "[/x]"]])
def test_wrong_arguments_are_wrong_usage(ended, command, arguments):
    code, out, err = ended(*command.split(), *arguments)
    assert (code, out) == (2, ""), err
    assert "foil: " in err
    assert "\x1b" not in err


EVERY_COMMAND = [
    "",
    *COMMANDS,
    *(f"seeds {name}".rstrip() for name in ["", *SEEDS_COMMANDS]),
    *(f"benchmarks {name}".rstrip() for name in ["", *BENCHMARKS_COMMANDS]),
]
NEEDS_NOTHING = ("doctor", "reasons", "seeds fetch", "benchmarks list")


@pytest.mark.parametrize("command", EVERY_COMMAND)
def test_every_command_has_help_and_ends_as_documented_without_arguments(ended, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_AUTH_MODE", "")
    code, out, err = ended(*command.split(), "--help")
    assert (code, err) == (0, "")
    assert "--help" in out
    code, out, err = ended(*command.split())
    assert code == (0 if command in NEEDS_NOTHING else 2), err
    assert out if command in NEEDS_NOTHING else out + err
    assert not any(tmp_path.iterdir())


EXCLUSIVE = [
    ("--json", "--csv"), ("--json", "--parquet", "x"), ("--csv", "--parquet", "x"), ("--views", "--json"),
    ("--views", "--csv"), ("--views", "--parquet", "x"), ("--views",),
]  # fmt: skip


@pytest.mark.parametrize("options", EXCLUSIVE)
def test_options_that_exclude_each_other_are_refused(ended, sample, tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    code, out, _ = ended("sql", sample, "SELECT 1", *options)
    assert (code, out) == (2, "")
    assert not list(tmp_path.iterdir())


WRONG_NUMBERS = [
    ("sql", "{out}", "SELECT 1", "--timeout-s", "nan"), ("sql", "{out}", "SELECT 1", "--timeout-s", "inf"),
    ("sql", "{out}", "SELECT 1", "--timeout-s", "-1"), ("sql", "{out}", "SELECT 1", "--memory-mb", "0"),
    ("sql", "{out}", "SELECT 1", "--memory-mb", "9" * 30), ("sql", "{out}", "SELECT 1", "--memory-mb", "x"),
    ("plan", "job", "--seeds", "0"), ("plan", "job", "--sample", "-1"), ("seeds", "preview", "job", "--count", "-1"),
    ("seeds", "fetch", "--to", "here"), ("seeds", "fetch", "no_such_corpus"), ("sql", "{out}", ""),
    ("sql", "{out}", "SELECT '\udcff'"), ("sql", "{out}", "SELECT '\0'"),
    ("sql", "{out}", "SELECT 1", "--snapshot", ""),
    ("sql", "{out}", "SELECT 1", "--snapshot", "../x"), ("why", "{out}", ""), ("why", "{out}", "\udcff\x1b"),
    ("snapshot", "{out}", ""), ("snapshot", "{out}", "../x"), ("snapshot", "{out}", "a" * 300),
    ("agreement", "{out}", "--labels", "/nonexistent"), ("agreement", "{out}", "--labels", "/"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", WRONG_NUMBERS, ids=lambda arguments: " ".join(arguments)[:60].encode("unicode_escape")
)
def test_values_out_of_range_are_wrong_usage(ended, sample, arguments):
    code, out, err = ended(*(part.replace("{out}", str(sample)) for part in arguments))
    assert (code, out) == (2, ""), err


FAULTS = [
    (OSError(errno.ENOSPC, "No space left on device", "/x"), 8, "storage failed"),
    (OSError(errno.EIO, "Input/output error"), 8, "storage failed"),
    (OSError(errno.EMFILE, "Too many open files", "/x"), 8, "ulimit -n"),
    (PermissionError(errno.EACCES, "Permission denied", "/secret"), 2, "cannot use /secret"),
    (MemoryError(), 1, "no memory left"),
    (KeyboardInterrupt(), 130, "interrupted"),
    (ValueError("a fault \x1b[2J"), 70, "this is a fault of Foil, not of yours: ValueError: a fault \\x1b[2J"),
    (EOFError("the file is short"), 70, "fault of Foil"),
    (BrokenPipeError(errno.EPIPE, "of a child"), 70, "fault of Foil"),
    (RecursionError("deep"), 70, "fault of Foil"),
]


@pytest.mark.parametrize(("error", "code", "words"), FAULTS, ids=lambda value: type(value).__name__)
def test_an_error_that_nobody_expected_is_one_line(ended, error, code, words):
    broken = typer.Typer()

    @broken.command()
    def fail() -> None:
        raise error

    assert run_command(broken, []) == code
    ended_with = ended("--version")  # takes what was printed meanwhile
    assert words in ended_with[2]
    assert len(ended_with[2].splitlines()) == 1


def test_a_fault_shows_its_traceback_where_that_is_asked_for(capsys, monkeypatch):
    broken = typer.Typer()

    @broken.command()
    def fail() -> None:
        raise ValueError("a fault")

    monkeypatch.setenv("FOIL_TRACEBACK", "1")
    assert run_command(broken, []) == 70
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = f'set -o pipefail; foil() {{ {sys.executable} -m foil "$@"; }}; {line}'
    variables = {**os.environ, "PYTHONPATH": str(REPO), **environment}
    return subprocess.run(["bash", "-c", command], cwd=REPO, capture_output=True, check=False, env=variables)


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_ends_the_command_quietly(sample, unbuffered):
    done = shell(f"foil sql {sample} 'FROM range(300000)' --csv | head -1", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stdout, done.stderr) == (141, b"range\n", b"")


def test_a_reader_that_goes_away_ends_the_help_quietly():
    done = shell("foil --help | true")
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_full_disk_under_stdout_is_said(sample):
    done = shell(f"foil sql {sample} 'SELECT 1 AS a' --json > /dev/full")
    assert done.returncode == 8
    assert done.stderr.startswith(b"foil: the storage failed: [Errno 28]")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.slow
def test_odd_terminals_and_encodings_change_no_data(sample):
    sql = "SELECT 'é\u202e🦆' AS a, 1 AS b"
    odd = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "TERM": "dumb", "COLUMNS": "1"}
    done = shell(
        f'foil sql {sample} "{sql}" --csv && foil sql {sample} "{sql}" && foil status {sample} >&- 2>&-', **odd
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().startswith("a,b\né\u202e🦆,1\n")
    assert b"Traceback" not in done.stderr


WORDS = [
    "SELECT",
    "*",
    "FROM",
    "topics",
    "(",
    ")",
    ";",
    "'",
    "--",
    "PIVOT",
    "ON",
    "1",
    ",",
    "\n",
    "é",
    "\x1b",
    "\udcff",
    "\0",
]
random_sql = st.lists(st.sampled_from(WORDS) | st.text(max_size=6), max_size=12).map(" ".join)


@fuzzed(40)
@given(random_sql.map(lambda sql: sql.encode(errors="ignore").decode()))
def test_any_text_as_sql_is_allowed_or_refused(sql):
    with duckdb.connect() as connection, suppress(UsageError, duckdb.Error):
        check_statement(connection, sql)


@fuzzed(4)
@given(random_sql)
def test_any_text_as_sql_ends_the_command_as_documented(sample, sql):
    assert run_command(app, ["sql", str(sample), "--", sql]) in {0, 2, 7}
