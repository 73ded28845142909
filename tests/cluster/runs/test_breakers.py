"""A run that only goes on to cost stops by itself, says why with an example, and goes on once the cause is mended."""

import json
from collections import Counter

import pytest

from foil.datasets_out.commits.log import CommitLog
from foil.engine.flow.limits import BreakerSettings
from foil.engine.flow.progress import status
from foil.engine.flow.worker_report import AskedSeeds, SeedEndings
from foil.engine.runtime.breaker import RunBreaker
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


NEVER_GERMAN = "[{kind: shape}, {kind: language, expected: [de], reject: true}]"


def rejected_job(folder, url, seeds):
    job = hosted_job(folder, url, seeds)
    job.write_text(job.read_text().replace("[{kind: shape}]", NEVER_GERMAN))
    return job


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_that_accepts_nothing_stops_with_the_reasons_and_goes_on_with_all(tmp_path, workers):
    strict = ("--set", "limits.breakers.accepted_share=0.2", "--set", f"runtime.workers={workers}")
    with serving(Behaviour(latency=0.05), Character()) as server:
        job = rejected_job(tmp_path, server.url, 150)
        ended = foil("run", job, *strict)
        again = foil("run", job, *strict)
        first = json.loads(foil("status", tmp_path / "out", "--json").stdout)
        gone_on = foil("run", job, *strict, "--all", "--json")
        state = json.loads(gone_on.stdout.splitlines()[-1])
        sent = calls_sent(server)
    assert (ended.returncode, again.returncode) == (TRIPPED, TRIPPED), ended.stderr + again.stderr
    for told in ("none of the last", "limits.breakers.accepted_share (20%)", "other_language 100%", "--all"):
        assert told in ended.stderr
    assert ("planned 150 seeds = 0 accepted" if workers else "the corpus was not read to its end") in ended.stdout
    assert not first["complete"]
    assert first["planned"] == (150 if workers else None)
    assert gone_on.returncode == 0, gone_on.stderr
    assert (state["complete"], state["rejected"], state["accepted"]) == (True, 150, 0)
    assert sent == state["calls"]  # what the stopped sessions paid was not paid again


@pytest.mark.slow
def test_tokens_of_an_accepted_topic_stop_a_run(tmp_path):
    with serving(Behaviour(latency=0.05), Character()) as server:
        job = hosted_job(tmp_path, server.url, 150, ", breakers: {accepted_tokens: 10, at_least: 10, last: 20}")
        ended = foil("run", job)
        state = json.loads(foil("status", tmp_path / "out", "--json").stdout)
    assert ended.returncode == TRIPPED, ended.stderr
    assert "limits.breakers.accepted_tokens (10)" in ended.stderr
    assert not state["complete"]


def ended(accepted: int, rejected: int) -> SeedEndings:
    reasons = Counter(leak=rejected)
    asked = AskedSeeds(
        accepted + rejected, accepted, accepted, 1_000, reasons, "seed 's': leak: ..." if rejected else ""
    )
    return SeedEndings(accepted + rejected, asked_seeds=asked)


@pytest.mark.parametrize(
    ("accepted", "rejected", "stops"),
    [(0, 340, False), (0, 342, True), (1, 450, False), (1, 500, True), (3, 500, False), (20, 480, False)],
)
def test_only_luck_that_is_rarer_than_one_in_a_thousand_is_no_luck(accepted, rejected, stops):
    stopped = RunBreaker(BreakerSettings()).check(ended(accepted, rejected), 0.0)
    assert (stopped is not None) == stops
    assert not stopped or stopped.breaker == "accepted"


def test_a_run_that_turns_bad_stops_whatever_it_accepted_before():
    breaker, seen = RunBreaker(BreakerSettings()), ended(5_000, 5_000)
    assert breaker.check(seen, 0.0) is None
    looks = 0
    while breaker.check(seen, 0.0) is None:
        seen, looks = seen + ended(0, 10), looks + 1
    assert looks <= 55


def test_rejects_that_cost_nothing_stop_no_run():
    assert RunBreaker(BreakerSettings()).check(SeedEndings(ended=100_000), 0.0) is None
