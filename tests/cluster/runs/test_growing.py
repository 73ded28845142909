"""Larger limits go on in the same folder; a folder in which nothing came to be makes way for the next job."""

import signal
import subprocess
from pathlib import Path

import duckdb
import pytest

from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import load_snapshot, take_snapshot
from tests.support.commands import foil, hosted_job, write_job
from tests.support.models.character import Character
from tests.support.models.fault_server import Behaviour, serving


def rows(out: Path) -> list[tuple]:
    """Every topic with its seed, status and reason, in order of the seeds."""
    return duckdb.sql(
        f"SELECT topic_id, seed_id, status, reason, query FROM '{out}/data/topics/*.parquet' ORDER BY topic_id"
    ).fetchall()


def run(job: Path, out: Path, **limits: object) -> subprocess.CompletedProcess[str]:
    sets = [part for key, value in limits.items() for part in ("--set", f"limits.{key}={value}")]
    return foil("run", job, "--out", out, *sets)


def shards(out: Path) -> dict[str, bytes]:
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in sorted((out / "data").rglob("*.parquet"))}


@pytest.mark.slow
def test_larger_limits_go_on_and_give_the_rows_of_a_run_with_these_limits_from_the_start(tmp_path):
    job, grown, whole = write_job(tmp_path, 60), tmp_path / "grown", tmp_path / "whole"
    assert run(job, grown, seeds=25).returncode == 0
    before = shards(grown)
    snapshot = take_snapshot(grown, "small").digest
    for seeds in (47, 60):
        more = run(job, grown, seeds=seeds)
        assert more.returncode == 0, more.stderr
        assert f"planned {seeds} seeds" in more.stdout
        assert foil("verify", grown).returncode == 0
    assert run(job, whole, seeds=60).returncode == 0
    assert rows(grown) == rows(whole)
    assert before.items() <= shards(grown).items()
    assert load_snapshot(grown, "small", verify=True).digest == snapshot
    assert run(job, grown, seeds=60).returncode == 0


@pytest.mark.slow
def test_growth_at_the_end_of_a_partition_gives_byte_equal_shards(tmp_path):
    job, grown, whole = write_job(tmp_path, 60), tmp_path / "grown", tmp_path / "whole"
    assert run(job, grown, seeds=20).returncode == 0
    assert run(job, grown, seeds=50).returncode == 0
    assert run(job, whole, seeds=50).returncode == 0
    assert shards(grown) == shards(whole)


@pytest.mark.slow
def test_more_accepted_topics_may_be_wanted(tmp_path):
    job, out = write_job(tmp_path, 60), tmp_path / "out"
    assert run(job, out, accept=5).returncode == 0
    few = len(rows(out))
    more = run(job, out, accept=25)
    assert more.returncode == 0, more.stderr
    assert len(rows(out)) > few
    assert run(job, tmp_path / "whole", accept=25).returncode == 0
    assert shards(out) == shards(tmp_path / "whole")


@pytest.mark.slow
def test_smaller_limits_and_other_settings_are_refused_key_by_key(tmp_path):
    job, out = write_job(tmp_path, 40), tmp_path / "out"
    assert run(job, out, seeds=20).returncode == 0
    assert run(job, out, seeds=30).returncode == 0
    for limits, words in (
        ({"seeds": 20}, "limits.seeds: 30 -> 20"),
        ({"seeds": 40, "partition_seeds": 5}, "limits.partition_seeds: 10 -> 5"),
        ({"seeds": 30, "accept": 4}, "limits.accept: null -> 4"),
    ):
        refused = run(job, out, **limits)
        assert refused.returncode == 2
        assert words in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("point", ["put.staged:2", "put.linked:2", "put.durable:2", "session.planned", "flow.made"])
def test_a_kill_at_any_point_of_growing_loses_nothing(tmp_path, point):
    job, out, whole = write_job(tmp_path, 40), tmp_path / "out", tmp_path / "whole"
    assert run(job, out, seeds=15).returncode == 0
    killed = foil("run", job, "--out", out, "--set", "limits.seeds=37", env={"FOIL_CRASH_POINT": point})
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = run(job, out, seeds=37)
    assert resumed.returncode == 0, resumed.stderr
    assert run(job, whole, seeds=37).returncode == 0
    assert rows(out) == rows(whole)
    assert foil("verify", out).returncode == 0


def test_a_wrong_path_is_refused_before_the_folder_is_made(tmp_path):
    job = write_job(tmp_path, 12)
    right = job.read_text()
    job.write_text(right.replace("seeds.jsonl", "sedes.jsonl"))
    refused = foil("run", job)
    assert refused.returncode == 2
    assert "sedes.jsonl" in refused.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_folder_without_commits_and_replies_goes_to_the_next_job(tmp_path):
    job = write_job(tmp_path, 12)
    wrong = foil("run", job, "--set", "seeds.columns.query=no_such_column")
    assert wrong.returncode == 2
    assert (tmp_path / "out" / "run.json").exists()
    right = foil("run", job)
    assert right.returncode == 0, right.stderr
    assert foil("verify", tmp_path / "out").returncode == 0


@pytest.mark.slow
def test_a_folder_with_replies_and_no_commit_is_kept(tmp_path):
    with serving(Behaviour(), Character()) as server:
        job = hosted_job(tmp_path, server.url, 12)
        killed = foil("run", job, env={"FOIL_CRASH_POINT": "flow.made"})
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not CommitLog(tmp_path / "out").partitions()
    refused = foil("run", job, "--set", "limits.partition_seeds=5")
    assert refused.returncode == 2
    assert "limits.partition_seeds: 64 -> 5" in refused.stderr
