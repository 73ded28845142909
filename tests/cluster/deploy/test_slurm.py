"""The Slurm script: its variables, and what it does where the head of Ray starts, ends or never answers. Stand-ins are
in the place of Slurm's and Ray's programs, and write down how they were called.
"""

import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from foil.cluster.deploy.ray_environment import HEAD, NETWORK, WORKER
from tests.support.paths import REPO

SCRIPT = REPO / "cluster" / "deploy" / "slurm" / "foil.sbatch"
SRUN = """
echo "srun $*" >> "$CALLS"
while [[ "$1" == --* ]]; do shift; done
exec "$@"
"""
FOIL = """
trap 'exit 143' TERM
echo "foil $*" >> "$CALLS"
until grep -q nodelist=n2 "$CALLS"; do sleep 0.05; done
[ -z "${RUN_WAITS:-}" ] || { echo running; sleep 60 & wait; }
exit 3
"""
PROGRAMS = {
    "scontrol": "printf 'n1\\nn2\\n'",
    "srun": SRUN,
    "ray": 'if [ "$1" = health-check ]; then exit "${HEALTH:-0}"; fi; [ -z "${HEAD_ENDS:-}" ] || exit 1; exec sleep 60',
    "foil": FOIL,
}


@pytest.fixture
def start(tmp_path):
    """Starts the script as Slurm's batch step of two nodes does; its process group ends with the test."""
    for name, text in PROGRAMS.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/usr/bin/env bash\n{text}\n")
        program.chmod(0o755)
    (tmp_path / "token").write_text("a token")
    environment = {
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "HOME": str(tmp_path), "FOIL_VENV": str(tmp_path),
        "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token"), "CALLS": str(tmp_path / "calls"),
        "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_PER_TASK": "16",
    }  # fmt: skip
    started = []

    def run(**more: str) -> subprocess.Popen:
        command = ["bash", str(SCRIPT), "job.yaml", "out"]
        started.append(subprocess.Popen(command, env=environment | more, text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, start_new_session=True))  # fmt: skip
        return started[-1]

    yield run
    for process in started:
        with contextlib.suppress(ProcessLookupError):  # nothing of it is left
            os.killpg(process.pid, signal.SIGKILL)


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def test_it_sets_the_table_and_takes_whole_nodes():
    text = SCRIPT.read_text()
    found = dict(re.findall(r"\b(RAY_[a-z]\w+)=(\S+)", text))
    assert found.items() >= {**NETWORK, **HEAD, **WORKER}.items()
    told = re.findall(r"^#SBATCH (\S+)", text, re.MULTILINE)
    assert {"--exclusive", "--mem=0", "--requeue", "--signal=B:TERM@120"} <= set(told)


def test_every_step_has_the_cpus_and_the_code_of_the_run_is_the_scripts(start, tmp_path):
    assert start().wait(30) == 3
    [run] = [each for each in calls(tmp_path) if each.startswith("foil")]
    steps = [each for each in calls(tmp_path) if each.startswith("srun") and "health-check" not in each]
    assert all("--cpus-per-task=16" in each and "--overlap" in each for each in steps)
    assert sorted(re.search(r"--nodelist=(\S+)", each)[1] for each in steps) == ["n1", "n2"]
    [head] = [each for each in steps if "--head" in each]
    assert "--temp-dir=/tmp/ray-7" in head
    assert run.startswith("foil run job.yaml --out out --set runtime.kind=ray"), "srun would not let it drain"
    assert "runtime.workers=32" in run


def test_a_head_that_ends_ends_the_job(start):
    process = start(HEAD_ENDS="1", HEALTH="1")
    assert process.wait(30) == 14
    assert "the Ray head of n1 ended" in process.stderr.readline()


def test_a_head_that_never_answers_ends_the_job(start):
    process = start(HEALTH="1", FOIL_HEAD_WAIT_S="2")
    assert process.wait(30) == 14
    assert "no Ray head answers at n1:20007" in process.stderr.readline()


def test_the_warning_before_the_time_limit_reaches_the_run(start):
    process = start(RUN_WAITS="1")
    assert process.stdout.readline() == "running\n"
    process.send_signal(signal.SIGTERM)  # to the batch shell alone, as --signal=B: does
    assert process.wait(30) == 143
