"""`foil` as its users type it: real processes, real files, exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.commands import foil, write_job
from tests.support.paths import REPO


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, Path]:
    """A job file and the folder of its finished run."""
    folder = tmp_path_factory.mktemp("cli")
    job = write_job(folder, 60)
    ran = foil("run", job, "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1])["complete"]
    return job, folder / "out"


def test_status_adds_up(finished):
    facts = json.loads(foil("status", finished[1], "--json").stdout)
    assert facts["planned"] == 60 == facts["accepted"] + facts["rejected"] + facts["failed"]
    assert {"calls", "tokens", "cost_usd", "seconds"} <= set(facts)


def test_a_second_run_is_a_no_op(finished):
    before = {path: path.stat().st_mtime_ns for path in (finished[1] / "data").rglob("*.parquet")}
    assert foil("run", finished[0]).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in (finished[1] / "data").rglob("*.parquet")} == before


@pytest.mark.slow
def test_sql_answers_as_table_json_and_csv(finished):
    query = "SELECT status, count(*) AS n FROM topics GROUP BY ALL"
    total = sum(row["n"] for row in json.loads(foil("sql", finished[1], query, "--json").stdout))
    assert total == 60
    assert foil("sql", finished[1], query, "--csv").stdout.startswith("status,n")
    assert "status" in foil("sql", finished[1], query).stdout


def test_sql_that_writes_is_refused_with_code_2(finished):
    refused = foil("sql", finished[1], "COPY topics TO 'x.parquet'")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "not allowed" in refused.stderr


@pytest.mark.slow
def test_why_tells_where_a_record_comes_from(finished):
    (row,) = json.loads(foil("sql", finished[1], "SELECT passage_id FROM passages LIMIT 1", "--json").stdout)
    answer = foil("why", finished[1], row["passage_id"])
    assert answer.returncode == 0, answer.stderr
    assert "verifiable" in answer.stdout
    tree = json.loads(foil("why", finished[1], row["passage_id"], "--json").stdout)
    assert row["passage_id"] in json.dumps(tree)


def test_another_job_on_the_same_out_is_refused_and_the_difference_shown(finished):
    refused = foil("run", finished[0], "--set", "limits.partition_seeds=7")
    assert refused.returncode == 2
    assert "partition_seeds" in refused.stderr


@pytest.mark.slow
def test_verify_finds_a_flipped_bit_with_code_6(tmp_path):
    job = write_job(tmp_path, 12)
    assert foil("run", job).returncode == 0
    assert foil("verify", tmp_path / "out").returncode == 0
    victim = next((tmp_path / "out" / "data" / "passages").glob("*.parquet"))
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    report = foil("verify", tmp_path / "out")
    assert report.returncode == 6
    assert victim.name in report.stderr


def test_a_wrong_job_ends_with_code_2_and_starts_nothing(tmp_path):
    job = write_job(tmp_path, 3)
    job.write_text(job.read_text().replace("good", "no_such_column"))
    refused = foil("run", job)
    assert refused.returncode == 2
    assert "no_such_column" in refused.stderr


def test_a_missing_seed_file_ends_with_code_2(tmp_path):
    job = write_job(tmp_path, 3)
    (tmp_path / "seeds.jsonl").unlink()
    refused = foil("run", job)
    assert refused.returncode == 2
    assert "seeds.jsonl" in refused.stderr


@pytest.mark.slow
def test_a_run_killed_in_the_middle_resumes_to_the_same_rows(tmp_path, finished):
    job = write_job(tmp_path, 60, window=1)
    killed = subprocess.Popen(
        [sys.executable, "-m", "foil", "run", str(job)],
        cwd=REPO,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    commits = tmp_path / "out" / "commits"
    deadline = time.monotonic() + 60
    while killed.poll() is None and not list(commits.glob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    assert foil("run", job).returncode == 0
    for path in sorted((finished[1] / "data").rglob("*.parquet")):
        assert path.read_bytes() == (tmp_path / "out" / path.relative_to(finished[1])).read_bytes()


def test_help_names_every_command():
    answer = foil("--help").stdout
    for command in ("run", "submit", "status", "sql", "why", "verify", "snapshot", "train", "evaluate", "seeds"):
        assert command in answer
