"""A run that only goes on to cost stops by itself, says why with an example, and goes on once the cause is mended."""

import json

import pytest

from datasets_out.commits.log import CommitLog
from engine.flow.progress import status
from tests.support.commands import calls_sent, foil, hosted_job, write_job
from tests.support.models.character import Character
from tests.support.models.fault_server import Behaviour, serving

TRIPPED = 13
SEEDS = 4_000


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_whose_replies_are_all_unreadable_stops_after_some_seeds_with_an_example(tmp_path, workers):
    with serving(Behaviour(latency=0.05), lambda request, choice: "\x1b[2Jno JSON at all") as server:
        job = hosted_job(tmp_path, server.url, SEEDS)
        ended = foil("run", job, "--set", f"runtime.workers={workers}")
        sent = calls_sent(server)
    state = status(CommitLog(tmp_path / "out"), tmp_path / "out")
    assert ended.returncode == TRIPPED, ended.stderr
    assert "limits.breakers.share" in ended.stderr
    assert "unreadable_reply" in ended.stderr
    assert "no JSON at all" in ended.stderr
    assert "\x1b" not in ended.stderr
    assert 100 <= sent <= SEEDS  # three a seed, so at most a third of the seeds
    assert not state["complete"]


@pytest.mark.slow
def test_a_stopped_run_goes_on_after_the_fix_and_pays_no_reply_again(tmp_path):
    answer, character = {"good": False}, Character()
    with serving(
        Behaviour(latency=0.02),
        lambda request, choice: character(request, choice) if answer["good"] else "no JSON",
    ) as server:
        job = hosted_job(tmp_path, server.url, 260)
        assert foil("run", job).returncode == TRIPPED
        answer["good"] = True
        resumed = foil("run", job)
        report = server.report()
    state = status(CommitLog(tmp_path / "out"), tmp_path / "out")
    assert resumed.returncode == 3, resumed.stderr  # what failed before stays failed, with its reason
    assert state["complete"]
    assert state["failed"] + state["accepted"] + state["rejected"] == 260
    assert state["failed"] >= 100
    assert state["failed"] < 260  # the rest was made by the mended model
    assert state["possibly_paid_twice"] == 0
    assert report["admitted"] == state["calls"]


@pytest.mark.slow
def test_a_small_run_that_fails_ends_as_ever(tmp_path):
    with serving(Behaviour(), lambda request, choice: "no JSON") as server:
        ended = foil("run", hosted_job(tmp_path, server.url, 40))
    assert ended.returncode == 3, ended.stderr
    assert status(CommitLog(tmp_path / "out"), tmp_path / "out")["failed"] == 40


@pytest.mark.slow
def test_dollars_an_hour_stop_a_run(tmp_path):
    with serving(Behaviour(latency=0.05)) as server:
        job = hosted_job(tmp_path, server.url, SEEDS, ", breakers: {usd_per_hour: 0.5, share: 1}")
        ended = foil("run", job)
    state = status(CommitLog(tmp_path / "out"), tmp_path / "out")
    assert ended.returncode == TRIPPED, ended.stderr
    assert "limits.breakers.usd_per_hour ($0.50)" in ended.stderr
    assert not state["complete"]


@pytest.mark.slow
def test_breakers_are_no_part_of_the_job(tmp_path):
    job = write_job(tmp_path, 12)
    assert foil("run", job).returncode == 0
    run = json.loads((tmp_path / "out" / "run.json").read_bytes())
    assert set(run["job"]["limits"]) == {"seeds", "partition_seeds", "accept"}
    again = foil("run", job, "--set", "limits.breakers.share=0.9")
    assert again.returncode == 0, again.stderr
