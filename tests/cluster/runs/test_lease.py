"""Two runs on one folder through `foil run`, against a provider that counts: one pays, and nothing is sent twice."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from foil.datasets_out.commits.log import CommitLog
from foil.engine.flow.progress import status
from tests.support.commands import calls_sent, foil, hosted_job
from tests.support.models.character import Character
from tests.support.models.fault_server import Behaviour, serving
from tests.support.paths import REPO

pytestmark = pytest.mark.slow

HELD = 12
SEEDS = 60


@pytest.fixture
def provider():
    with serving(Behaviour(latency=0.3), Character()) as server:
        yield server


def begin(*arguments):
    """The command in the background."""
    command = [sys.executable, "-m", "foil", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=REPO, env=environment)


def until(holds, most_s=60.0):
    end = time.monotonic() + most_s
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


def state_of(tmp_path):
    return status(CommitLog(tmp_path / "out"), tmp_path / "out")


def sent_again(server):
    """How often the provider was sent a task that it had seen before."""
    return sum(task["seen"] - 1 for task in server.report(tasks=True)["by_task"].values())


def test_of_two_runs_that_start_at_once_one_pays_and_the_other_is_told_who_does(tmp_path, provider):
    job = hosted_job(tmp_path, provider.url, SEEDS)
    runs = [begin("run", job), begin("run", job)]
    ends = [run.communicate(timeout=120) for run in runs]
    assert sorted(run.returncode for run in runs) == [0, HELD], ends
    [(refused, said)] = [(run, err) for run, (_, err) in zip(runs, ends, strict=True) if run.returncode == HELD]
    [other] = [run for run in runs if run is not refused]
    assert f"process {other.pid} on " in said
    assert "--takeover" in said
    state = state_of(tmp_path)
    assert state["complete"]
    assert state["held_by"] == ""
    assert calls_sent(provider) == state["calls"]
    assert sent_again(provider) == 0


def test_a_run_that_lives_is_shown_and_keeps_its_folder(tmp_path):
    with serving(Behaviour(latency=1.0), Character()) as provider:
        job = hosted_job(tmp_path, provider.url, SEEDS)
        first = begin("run", job)
        until(lambda: calls_sent(provider) > 5)
        assert f"process {first.pid} on " in state_of(tmp_path)["held_by"]
        others = [begin("run", job), begin("plan", job, "--sample", 2)]
        said = [other.communicate(timeout=120) for other in others]
        assert [other.returncode for other in others] == [HELD, HELD], said
        _, err = first.communicate(timeout=120)
        assert first.returncode == 0, err
        assert calls_sent(provider) == state_of(tmp_path)["calls"]


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.long)])
def test_a_takeover_ends_the_first_run_and_sends_nothing_twice(tmp_path, provider, workers):
    job = hosted_job(tmp_path, provider.url, 150)
    first = begin("run", job, "--set", f"runtime.workers={workers}")
    until(lambda: calls_sent(provider) > 20)
    second = foil("run", job, "--takeover")
    _, err = first.communicate(timeout=60)
    assert first.returncode == HELD, err
    assert "another run has taken" in err
    assert second.returncode == 0, second.stderr
    state = state_of(tmp_path)
    assert state["complete"]
    assert foil("verify", tmp_path / "out").returncode == 0
    assert sent_again(provider) <= state["possibly_paid_twice"]


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.long)])
def test_a_stopped_run_that_goes_on_sends_nothing_more(tmp_path, provider, workers):
    """SIGSTOP for longer than a heartbeat lasts, another run, SIGCONT: the zombie finds itself fenced off."""
    job = hosted_job(tmp_path, provider.url, 150)
    first = begin("run", job, "--set", f"runtime.workers={workers}")
    until(lambda: calls_sent(provider) > 20)
    zombies = [first.pid, *children(first.pid)]
    for pid in zombies:
        os.kill(pid, signal.SIGSTOP)
    second = begin("run", job, "--takeover")
    until((tmp_path / "out/lease/00000002.json").exists)
    time.sleep(11)  # the second waits for as long as the first's heartbeat holds
    for pid in zombies:
        os.kill(pid, signal.SIGCONT)
    _, err = second.communicate(timeout=120)
    assert second.returncode == 0, err
    _, err = first.communicate(timeout=60)
    assert first.returncode == HELD, err
    state = state_of(tmp_path)
    assert state["complete"]
    assert sent_again(provider) <= state["possibly_paid_twice"]


def children(pid):
    import psutil

    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


def test_a_killed_run_is_resumed_at_once(tmp_path, provider):
    job = hosted_job(tmp_path, provider.url, SEEDS)
    first = begin("run", job)
    until(lambda: calls_sent(provider) > 5)
    first.kill()
    first.communicate()
    began = time.monotonic()
    second = begin("run", job)
    until((tmp_path / "out/lease/00000002.json").exists)
    assert time.monotonic() - began < 9  # not for as long as a heartbeat is waited for
    _, err = second.communicate(timeout=120)
    assert second.returncode == 0, err


def test_a_finished_run_takes_no_lease(tmp_path, provider):
    job = hosted_job(tmp_path, provider.url, 10)
    assert foil("run", job).returncode == 0
    names = sorted(path.name for path in (tmp_path / "out/lease").iterdir())
    assert json.loads((tmp_path / "out/lease/00000001.beat").read_text())["released"]
    assert foil("run", job).returncode == 0
    assert sorted(path.name for path in (tmp_path / "out/lease").iterdir()) == names
