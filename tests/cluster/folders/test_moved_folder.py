"""A run whose folder is moved, deleted or replaced under it ends with code 8, and begins no other."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from foil.datasets_out.commits.log import CommitLog
from tests.support.commands import foil, hosted_job
from tests.support.drills.refused_job import refuses, write_job
from tests.support.models.character import Character
from tests.support.models.fault_server import Behaviour, serving
from tests.support.models.scripted_server import answered, scripted
from tests.support.paths import REPO

pytestmark = pytest.mark.slow

LOST = 8
SEEDS = 60


@pytest.fixture
def provider():
    with serving(Behaviour(latency=0.5), Character()) as server:
        yield server


def move(out: Path) -> None:
    out.rename(out.with_name("moved"))


def replace(out: Path) -> None:
    """As an unmounted disk leaves it: an empty folder."""
    move(out)
    out.mkdir()


def replace_by_another_run(out: Path) -> None:
    move(out)
    shutil.copytree(out.with_name("moved"), out)
    for name in ("json", "beat"):
        for path in (out / "lease").glob(f"*.{name}"):
            path.write_bytes(path.read_bytes().replace(b'"pid":', b'"pid":1'))


def moved_under_a_run(job: Path, out: Path, befall: Callable[[Path], None], *arguments: object) -> tuple[int, str]:
    """The exit code and words of a run that this befalls after its first commit."""
    command = [sys.executable, "-m", "foil", "run", str(job), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=REPO, env=environment)
    end = time.monotonic() + 60
    while not list((out / "commits").glob("*.json")):
        assert time.monotonic() < end, "nothing was committed"
        time.sleep(0.02)
    befall(out)
    return run.wait(timeout=120), run.stderr.read() if run.stderr else ""


@pytest.mark.parametrize("befall", [move, replace, replace_by_another_run])
def test_a_run_whose_folder_is_another_ends_with_code_8_and_goes_on_once_it_is_back(tmp_path, provider, befall):
    job, out = hosted_job(tmp_path, provider.url, SEEDS), tmp_path / "out"
    job.write_text(job.read_text().replace("partition_seeds: 64", "partition_seeds: 5"))
    code, said = moved_under_a_run(job, out, befall)
    assert code == LOST, said
    assert "moved, deleted, unmounted or replaced" in said or "was moved, deleted or unmounted" in said
    if befall is move:
        assert not out.exists()
    shutil.rmtree(out, ignore_errors=True)
    (tmp_path / "moved").rename(out)
    again = foil("run", job)
    assert again.returncode == 0, again.stderr
    assert foil("verify", out).returncode == 0
    log = CommitLog(out)
    assert len(log.partitions()) == SEEDS // 5
    counts = log.sums().counts
    assert counts.topics.total() == SEEDS


@pytest.mark.parametrize("befall", [move, replace])
def test_a_retry_whose_folder_is_moved_leaves_nothing_of_its_plan_elsewhere(tmp_path, befall):
    with scripted(refuses(answered(403, "blocked"))) as server:
        job, out = write_job(tmp_path, server.url, 40, poison=range(0, 40, 2)), tmp_path / "out"
        assert foil("run", job, "--set", "limits.breakers.share=1").returncode == 3
        killed = foil("run", job, "--retry-failed", env={"FOIL_CRASH_POINT": "reopen.entered"})
        assert killed.returncode != 0
        server.script = lambda text, asked: answered(seconds=0.5)
        code, said = moved_under_a_run(job, out, befall)
        assert code == LOST, said
        assert "moved, deleted" in said
        assert not (out / "plan.json").exists()
        shutil.rmtree(out, ignore_errors=True)
        (tmp_path / "moved").rename(out)
        assert foil("run", job).returncode == 0
    assert foil("verify", out).returncode == 0
