"""Crash drills of the commit log: kill -9 at random moments and at every named point, and races of writers."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from foil.datasets_out.commits.entries import CommitEntry
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.schema import TABLES
from foil.datasets_out.commits.snapshot import load_snapshot
from foil.datasets_out.compaction.packing import compact
from tests.support.drills.commit_drill import (
    CALLS,
    JOB,
    PACK_BYTES,
    crash_points,
    free,
    planned,
    tidy,
    topics_of,
    write,
)
from tests.support.drills.history_checker import History, Violations, check
from tests.support.paths import REPO

pytestmark = pytest.mark.timeout(900)


STORES = ["folder", "bucket"]


@pytest.fixture
def where(request, memory_folder):
    """A folder or a bucket's URL, as the test's parameter `store` says."""
    kind = request.getfixturevalue("store")
    return str(memory_folder) if kind == "folder" else request.getfixturevalue("bucket_url")


def run_drill(kind: str, where: str, count: int, seed: int) -> list[dict[str, Any]]:
    """One dict a dataset. A subprocess, so that forks copy no thread of the test runner."""
    command = [sys.executable, "-m", "tests.support.drills.commit_drill", kind, where, str(count), str(seed)]
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


def digest(out: Path | str) -> str:
    return load_snapshot(Path(out), None).digest


def undisturbed(folder: Path, partitions: int) -> str:
    write(folder, partitions, 0, folder.with_name("undisturbed.acks"))
    return digest(folder)


def kill_drill(where: str, kills: int, seed: int) -> None:
    datasets = run_drill("kills", where, kills, seed)
    for dataset in datasets:
        assert judge(dataset) == Violations(), f"seed {seed}, dataset {dataset}"
        before = digest(dataset["out"])
        compact(CommitLog(Path(dataset["out"])), PACK_BYTES)
        assert judge(dataset) == Violations(), f"seed {seed}, packed dataset {dataset}"
        assert digest(dataset["out"]) == before
    assert sum(dataset["kills"] for dataset in datasets) == kills
    assert len(datasets) > kills // 100


@pytest.mark.slow
@pytest.mark.parametrize(("store", "kills"), [("folder", 200), ("bucket", 24)])
def test_hundreds_of_kills_of_writers_and_folders_lose_double_and_spoil_nothing(where, store, kills):
    kill_drill(where, kills, seed=20261121)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("store", "batches"), [("folder", 20), ("bucket", 2)])
def test_thousands_of_kills_of_writers_and_folders_lose_double_and_spoil_nothing(where, store, batches):
    for batch in range(batches):
        kill_drill(f"{where}/{batch}", 500, seed=batch)
        if store == "folder":
            shutil.rmtree(f"{where}/{batch}")


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("store", STORES)
def test_a_death_at_every_passage_of_every_crash_point_ends_in_the_same_dataset(where, store, tmp_path, partitions):
    """In a bucket at every call to it; the short one at each thirtieth."""
    whole = undisturbed(tmp_path / "whole", partitions)
    datasets = run_drill("points", f"{where}/drill", partitions, seed=30 if partitions == 1 else 1)
    deaths = Counter(dataset["point"] for dataset in datasets if dataset["kills"])
    for dataset in datasets:
        assert judge(dataset) == Violations(), dataset
        if not dataset["rival"]:
            assert digest(dataset["out"]) == whole, dataset
    assert sorted(deaths) == crash_points(where)
    print(f"{store}: deaths {dict(deaths)}")
    if store == "folder":
        assert deaths["put.linked"] > 2 * 7 * partitions
    else:
        assert all(deaths[call] > (1 if partitions == 1 else 100) for call in CALLS)


@pytest.mark.slow
@pytest.mark.parametrize("every", [85, pytest.param(1, marks=(pytest.mark.long, pytest.mark.timeout(3600)))])
def test_a_death_at_every_call_of_fold_pack_and_gc_in_a_bucket_changes_nothing(bucket_url, tmp_path, every):
    partitions = 3
    whole = undisturbed(tmp_path / "whole", partitions)
    datasets = run_drill("tidying", bucket_url, partitions, every)
    for dataset in datasets:
        out = Path(dataset["out"])
        assert judge(dataset) == Violations(), dataset
        assert digest(out) == whole, dataset
        tidy(out)
        free(out)
        assert judge(dataset) == Violations(), dataset
        assert digest(out) == whole, dataset
        assert CommitLog(out).files.names("commits") == []
        assert len(CommitLog(out).files.names("data")) == len(TABLES), "gc left small files"
    deaths = Counter((dataset["work"], dataset["point"]) for dataset in datasets if dataset["kills"])
    print(f"deaths {dict(deaths)}")
    assert len(deaths) == 4


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("races", [4, pytest.param(200, marks=pytest.mark.long)])
def test_racing_writers_of_one_job_agree_and_of_two_jobs_one_is_refused(where, store, tmp_path, races):
    reference = CommitLog(tmp_path / "whole")
    reference.open("drill", JOB)
    for partition in range(3):
        reference.commit(partition, topics_of(partition), {"variant": 0})
    for race in run_drill("races", f"{where}/drill", races, seed=3):
        assert race["codes"] == ([0, 0] if race["same"] else [0, 2]), race
        assert judge(race) == Violations(), race
        assert digest(race["out"]) == digest(reference.out), race


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("races", [1, pytest.param(100, marks=pytest.mark.long)])
def test_two_that_fold_and_pack_at_once_and_two_that_write_agree(where, store, races):
    for race in run_drill("folds", f"{where}/drill", races, seed=4):
        assert race["codes"] == [0, 0, 0, 0], race
        assert judge(race) == Violations(), race
