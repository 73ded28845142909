"""Workers that share a quota, in virtual time: the real queue, clients and book; and over real child processes."""

from __future__ import annotations

import json
import subprocess
import sys
from math import inf

import pytest

from tests.support.models.leased_workers import TOKENS, Service, Worker, most_in_a_minute, sent, work_virtually
from tests.support.paths import REPO

RPM = 6_000


def always(rate):
    return lambda _: rate


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rpm", "demands"),
    [
        (6_000, [inf, 9.0]),
        (6_000, [inf, 8.0, 8.0, 8.0, 8.0]),
        (6_000, [inf, inf, inf, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0]),
        (600, [inf, 0.6, 0.6, 0.6]),
        (60, [inf, inf]),
    ],
)
def test_uneven_workers_use_a_quota_and_no_more(rpm, demands):
    workers = [Worker(always(demand)) for demand in demands]
    service = work_virtually(workers, 120, requests=rpm)
    assert sent(workers, 20, 120) >= 0.95 * 100 * rpm / 60
    assert most_in_a_minute(workers) <= rpm + rpm / 60 + len(workers)
    assert len(service.asks) <= 120 / 2 * len(workers)
    for worker, demand in zip(workers, demands, strict=True):
        if demand < inf:
            assert len(worker.sends) >= 0.9 * worker.wanted


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_there_is_one_ask_in_a_hundred_requests(workers):
    crew = [Worker(always(inf if index == 0 else 4.0)) for index in range(workers)]
    service = work_virtually(crew, 120, requests=RPM)
    assert len(service.asks) * 100 <= sum(len(worker.sends) for worker in crew)


def test_tokens_are_leased_as_well():
    workers = [Worker(always(inf)), Worker(always(5.0))]
    work_virtually(workers, 180, tokens=RPM * TOKENS)
    assert 0.95 * 160 * RPM / 60 <= sent(workers, 20, 180) <= 1.01 * 160 * RPM / 60


@pytest.mark.slow
def test_nobody_stops_while_the_book_is_dead_and_its_return_changes_nothing():
    workers = [Worker(always(inf)), Worker(always(9.0)), Worker(always(9.0))]
    work_virtually(workers, 180, requests=RPM, service=Service(lambda now: 60 <= now < 90))
    for since in range(60, 120, 5):
        for worker in workers:
            assert sent([worker], since, since + 5) > 0.5 * sent([worker], 30, 60) / 6, since
    assert sent(workers, 60, 120) >= 0.93 * RPM
    assert most_in_a_minute(workers) <= RPM + RPM / 60 + len(workers)


@pytest.mark.slow
def test_without_any_book_each_worker_has_its_equal_part():
    workers = [Worker(always(inf)), Worker(always(inf))]
    work_virtually(workers, 120, requests=RPM, service=Service(lambda _: True))
    for worker in workers:
        assert sent([worker], 20, 120) == pytest.approx(100 * RPM / 60 / 2, rel=0.02)


@pytest.mark.slow
def test_two_jobs_under_one_key_share_its_quota():
    workers = [Worker(always(inf)), Worker(always(inf)), Worker(lambda now: inf if now > 60 else 0.0)]
    work_virtually(workers, 180, requests=RPM, shares=[1 / 2, 1 / 2, 1.0])
    assert sent(workers[:2], 20, 60) >= 0.95 * 40 * RPM / 60
    assert most_in_a_minute(workers) <= RPM + RPM / 60 + len(workers)
    for worker in workers:
        assert sent([worker], 80, 180) >= 0.95 * 100 * RPM / 60 / 3


@pytest.mark.slow
def test_the_part_of_a_worker_that_dies_or_rests_goes_to_the_others():
    workers = [Worker(always(inf)), Worker(always(inf), dies_at=60), Worker(lambda now: 30.0 if now < 60 else 0.0)]
    work_virtually(workers, 150, requests=RPM)
    assert sent(workers[:1], 80, 150) >= 0.95 * 70 * RPM / 60


@pytest.mark.long
def test_fifty_workers_that_lose_a_node_each_minute_use_a_quota_and_outlive_the_book():
    """The simulation of a cluster, in small; money is leased beside."""
    command = [sys.executable, str(REPO / "benchmarks" / "simulate_scale.py"), "--quick", "--json"]
    told = subprocess.run(command, capture_output=True, text=True, cwd=REPO, check=True).stdout
    found = json.loads(told.splitlines()[-1])
    assert found["quota_used"] >= 0.95
    assert min(found["quota_used_book_dead"], found["quota_used_minute_after"]) >= 0.9
    assert found["quota_most_in_a_minute"] <= 1.02
    assert found["money_messages_per_100"] <= 1
    assert found["rate_messages_per_100"] <= 1.1, "one in 100 but for those after a worker has joined"
    assert found["recovery_most_s"] < 30
