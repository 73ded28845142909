"""How the process of a command ends: with its exit code, its output whole and its exit handlers run, and at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import foil, write_job
from tests.support.paths import REPO

pytestmark = pytest.mark.slow

WATCHED = """
import atexit, os, sys
class LeftOver:
    def __del__(self, write=os.write):
        write(2, b"the interpreter was taken apart")
sys.left_over = LeftOver()
sys.argv = ["foil", *sys.argv[1:]]
from foil.cluster.__main__ import main
def handled():
    atexit.register(os.write, 2, b"handlers ran")
import foil.cluster.endings
run_command = foil.cluster.endings.run_command
foil.cluster.endings.run_command = lambda *given: (handled(), run_command(*given))[1]
main()
"""


def watched(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WATCHED, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("ends")
    assert foil("run", write_job(folder, 20)).returncode == 0
    assert foil("compact", folder / "out").returncode == 0
    return folder / "out"


@pytest.mark.parametrize(
    ("code", "arguments"),
    [(0, ["verify"]), (0, ["sql", "FROM passages", "--json"]), (2, ["sql", "no sql"]), (2, ["verify", "--no-such"])],
)
def test_threads_of_others_meet_no_interpreter_in_parts(out, code, arguments):
    command, *rest = arguments
    told = watched(command, out, *rest)
    assert told.returncode == code, told.stderr
    assert told.stderr.endswith("handlers ran"), told.stderr
    assert "taken apart" not in told.stderr
    if "--json" in rest:
        assert told.stdout == foil(command, out, *rest).stdout
        assert told.stdout.count("kite") > 20
