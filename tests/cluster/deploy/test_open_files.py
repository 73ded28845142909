"""A limit of open files that is too low is raised, or told before anything is asked."""

import os
import subprocess
import sys

from tests.support.commands import hosted_job
from tests.support.paths import REPO

RAISED = (
    "from foil.cluster.deploy.open_files import *; raise_limit(); print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
)


def shell(line: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, env=environment, cwd=REPO)


def test_a_soft_limit_is_raised_to_the_hard_one():
    told = shell(f'ulimit -Sn 64; ulimit -Hn 300; {sys.executable} -c "{RAISED}"')
    assert told.stdout.split() == ["300", "300"], told.stderr


def test_a_run_that_needs_more_files_is_refused_before_it_begins(tmp_path):
    job = hosted_job(tmp_path, "http://127.0.0.1:9", 20)
    refused = shell(f"ulimit -n 100; {sys.executable} -m foil run {job} --set runtime.window=50")
    assert refused.returncode == 15, refused.stderr
    assert "a process open 100 files" in refused.stderr
    assert "ulimit -n 328" in refused.stderr
    assert not (tmp_path / "out").exists()
