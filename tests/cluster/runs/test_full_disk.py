"""A disk that is full for one folder of a run: a file that only informs ends nothing, any other ends it with code 8."""

import json
import shutil
import subprocess
import sys

import pytest

from foil.datasets_out.commits.snapshot import load_snapshot
from tests.support.commands import foil, hosted_job, write_job
from tests.support.models.character import Character
from tests.support.models.fault_server import Behaviour, serving
from tests.support.paths import REPO

MOUNT = 'mount -t tmpfs -o size="$1"k none "$2" && shift 2 && exec "$@"'


def run_with_small(folder, kib, *arguments):
    """`foil run` that sees a file system of so many KiB on this folder, which nobody else sees."""
    folder.mkdir(parents=True, exist_ok=True)
    alone = ["unshare", "--mount", "bash", "-c", MOUNT, "-", str(kib), str(folder)]
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    command = [*alone, sys.executable, "-m", "foil", "run", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=REPO, check=False, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "kib", "code", "told"),
    [
        ("sessions", 4, 0, "the run goes on, and `foil status` lags"),
        pytest.param(
            "lease", 4, 8, "/lease cannot be used ([Errno 28] No space left on device)", marks=pytest.mark.long
        ),
        pytest.param("lease", 8, 0, "could not be renewed: [Errno 28] No space left on device", marks=pytest.mark.long),
        pytest.param("spool", 4, 8, "the seeds of partition 0 cannot be written to", marks=pytest.mark.long),
        ("journal", 4, 8, "make room or mend the disk, and run again: every reply before this one is kept"),
    ],
)
def test_a_full_disk_below_one_small_file_loses_nothing(tmp_path, folder, kib, code, told):
    out, whole = tmp_path / "out", tmp_path / "whole"
    workers = ["--set", "runtime.workers=2"] if folder == "spool" else []
    with serving(Behaviour(), Character()) as server:
        job = hosted_job(tmp_path, server.url, 12) if folder == "journal" else write_job(tmp_path, 100)
        full = run_with_small(out / folder, kib, job, *workers)
        assert full.returncode == code, full.stderr
        assert told in full.stderr
        assert "Traceback" not in full.stderr
        assert foil("run", job).returncode == foil("verify", out).returncode == 0
        assert foil("run", job, "--out", whole).returncode == 0
    assert load_snapshot(out, None).digest == load_snapshot(whole, None).digest


@pytest.mark.slow
@pytest.mark.parametrize("kib", [pytest.param(4, marks=pytest.mark.long), 12, pytest.param(28, marks=pytest.mark.long)])
def test_a_disk_that_fills_as_batches_are_kept_fails_no_seed(tmp_path, kib):
    batch = "{linger_s: 0.2, poll_s: 0.1, most_requests: 4}"
    with serving(Behaviour(batch_seconds=0.2), Character()) as server:
        job = hosted_job(tmp_path, server.url, 12)
        job.write_text(job.read_text().replace("{kind: hosted, ", f"{{kind: hosted, mode: batch, batch: {batch}, "))
        full = run_with_small(tmp_path / "out" / "batches", kib, job)
        assert full.returncode == 8, full.stderr
        assert "No space left on device" in full.stderr
        assert foil("run", job).returncode == 0
    status = json.loads(foil("status", tmp_path / "out", "--json").stdout)
    assert (status["complete"], status["failed"]) == (True, 0)
