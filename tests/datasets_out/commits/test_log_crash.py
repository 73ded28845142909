"""Crash drills of the commit log: kill -9 at random moments and at every named point, and races of writers."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from datasets_out.commits.entries import CommitEntry
from datasets_out.commits.log import CommitLog
from datasets_out.commits.snapshot import load_snapshot
from tests.support.drills.commit_drill import JOB, crash_points, planned, topics_of, write
from tests.support.drills.history_checker import History, Violations, check
from tests.support.paths import REPO

pytestmark = pytest.mark.timeout(900)


def run_drill(kind: str, folder: Path, count: int, seed: int) -> list[dict[str, Any]]:
    """One dict a dataset. A subprocess, so that forks copy no thread of the test runner."""
    command = [sys.executable, "-m", "tests.support.drills.commit_drill", kind, str(folder), str(count), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPO)
    assert done.returncode == 0, f"{kind} drill with seed {seed} failed:\n{done.stderr}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def expected(entry: CommitEntry):
    return topics_of(entry.partition, entry.facts["variant"])


def judge(dataset: dict[str, Any]) -> Violations:
    acks = Path(dataset["acks"])
    acked = {int(line) for line in acks.read_text().split()} if acks.exists() else set()
    history = History(planned(dataset["partitions"]), acked, finished=True, expected=expected)
    return check(history, Path(dataset["out"]))


def digest(out: Path) -> str:
    return load_snapshot(out, None).digest


def kill_drill(folder: Path, kills: int, seed: int) -> None:
    datasets = run_drill("kills", folder, kills, seed)
    for dataset in datasets:
        assert judge(dataset) == Violations(), f"seed {seed}, dataset {dataset}"
    assert sum(dataset["kills"] for dataset in datasets) == kills
    assert len(datasets) > kills // 100


def test_two_hundred_kills_of_two_writers_lose_double_and_spoil_nothing(tmp_path):
    kill_drill(tmp_path, 200, seed=20261121)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_ten_thousand_kills_of_two_writers_lose_double_and_spoil_nothing(memory_folder):
    for batch in range(20):
        kill_drill(memory_folder / str(batch), 500, seed=batch)
        shutil.rmtree(memory_folder / str(batch))


@pytest.mark.parametrize("partitions", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_death_at_every_passage_of_every_crash_point_ends_in_the_same_dataset(memory_folder, partitions):
    write(memory_folder / "whole", partitions, 0, memory_folder / "acks")
    datasets = run_drill("points", memory_folder / "drill", partitions, seed=7)
    deaths = Counter(dataset["point"] for dataset in datasets if dataset["kills"])
    for dataset in datasets:
        assert judge(dataset) == Violations(), dataset
        if "True" not in dataset["out"]:
            assert digest(Path(dataset["out"])) == digest(memory_folder / "whole"), dataset
    assert sorted(deaths) == crash_points()
    assert deaths["put.linked"] > 2 * 7 * partitions


@pytest.mark.parametrize("races", [20, pytest.param(200, marks=pytest.mark.long)])
def test_racing_writers_of_one_job_agree_and_of_two_jobs_one_is_refused(memory_folder, races):
    reference = CommitLog(memory_folder / "whole")
    reference.open("drill", JOB)
    for partition in range(3):
        reference.commit(partition, topics_of(partition), {"variant": 0})
    for race in run_drill("races", memory_folder / "drill", races, seed=3):
        assert race["codes"] == ([0, 0] if race["same"] else [0, 2]), race
        assert judge(race) == Violations(), race
        assert digest(Path(race["out"])) == digest(reference.out), race
