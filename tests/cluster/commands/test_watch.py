"""`foil watch`: what a folder alone tells, and what it says when nothing moves."""

import json
import os
import signal
import subprocess
import sys

import pytest

from foil.cluster.commands.operators.watch import Pace, describe
from tests.support.commands import foil, write_job
from tests.support.paths import REPO


def session(ended: int, **facts):
    counts = {"seeds": {"accepted": ended}, "prompt_tokens": 7, "completion_tokens": 5, "cost_usd": 0.25}
    return {"planned": 100, "counts": counts, "in_flight": 4, "workers_lost": 0, **facts}


def test_time_left_follows_the_last_minute_and_a_stall_has_none():
    pace = Pace()
    for second in range(0, 100, 5):
        pace.see(session(second, tick=second), float(second))
    line = describe(session(95), 4, pace)
    assert "1.0 seeds/s" in line
    assert " 5 s left" in line
    assert "$0.25" in line
    for second in range(100, 140, 5):
        pace.see(session(95, tick=second, waiting_for="CPU", workers_placed=2, workers_wanted=6), float(second))
    stalled = describe(session(95, waiting_for="CPU", workers_placed=2, workers_wanted=6), 4, pace)
    assert "STALLED: no seed ended for 40 s, 4 in flight; waiting for CPU" in stalled
    assert "2 of 6 workers placed" in stalled
    assert "left" not in stalled


def test_a_slow_run_shows_its_rate_of_now_and_not_of_its_whole_life():
    pace = Pace()
    for second, ended in [(0, 0), (10, 50), (20, 51), (80, 57), (90, 58)]:
        pace.see(session(ended, tick=second), float(second))
    assert "0.1 seeds/s" in describe(session(58), 1, pace)


def test_a_run_that_no_longer_writes_is_called_silent():
    pace = Pace()
    for second in range(0, 45, 5):
        pace.see(session(12), float(second))
    assert "SILENT: the run has not written for 40 s" in describe(session(12), 1, pace)


@pytest.mark.slow
def test_a_run_is_watched_from_another_process_to_its_end(tmp_path):
    job, out = write_job(tmp_path, 40), tmp_path / "out"
    assert foil("run", job).returncode == 0
    ended = foil("watch", out)
    assert ended.returncode == 0, ended.stderr
    assert "40/40 seeds" in ended.stdout
    assert "4 commits" in ended.stdout
    assert "ended with exit code 0" in ended.stdout


def test_watching_ends_with_the_exit_code_of_the_run(tmp_path):
    job = write_job(tmp_path, 4_000)
    env = {**os.environ, "PYTHONPATH": str(REPO)}
    command = [sys.executable, "-m", "foil"]
    with subprocess.Popen([*command, "run", str(job)], cwd=REPO, stderr=subprocess.PIPE, text=True, env=env) as run:
        assert "seeds" in run.stderr.readline()
        watching = subprocess.Popen(
            [*command, "watch", str(tmp_path / "out"), "--every", "0.2"],
            cwd=REPO, stdout=subprocess.PIPE, text=True, env=env,
        )  # fmt: skip
        assert "/" in watching.stdout.readline()
        run.send_signal(signal.SIGTERM)
        rest = watching.communicate(timeout=60)[0]
        run.communicate()
    assert (run.returncode, watching.returncode) == (143, 143), rest
    assert "ended with exit code 143" in rest


@pytest.mark.slow
def test_a_folder_without_sessions_or_without_a_run_is_told(tmp_path):
    job, out = write_job(tmp_path, 20), tmp_path / "out"
    foil("run", job)
    for file in (out / "sessions").iterdir():
        file.write_text(json.dumps([]))
    assert "no session has noted" in foil("watch", out, "--once").stdout
    assert foil("watch", tmp_path).returncode == 2
