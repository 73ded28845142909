"""A run on Ray that was started by `uv run`, which Ray tells by the name of a parent process, with a relative out."""

import os
import subprocess
import sys

import pytest

from tests.support.commands import write_job
from tests.support.paths import REPO

pytestmark = pytest.mark.slow


def test_a_relative_out_is_found_by_the_workers(tmp_path):
    job = write_job(tmp_path, 4)
    job.write_text(job.read_text().replace(f"out: {tmp_path}/out", "out: out"))
    (tmp_path / "run").write_text('"$@"\nexit $?\n')  # so that a shell of the name `uv` has the words `uv run ...`
    words = [sys.executable, "-m", "foil", "run", "job.yaml", "--set", "runtime.kind=ray", "--set"]
    ended = subprocess.run(
        ["uv", "run", *words, "runtime.workers=1"],
        executable="/bin/bash", cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(REPO)},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert list((tmp_path / "out" / "commits").glob("*.json"))
