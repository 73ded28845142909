"""Pacing in virtual time: the real queue, limits, rates and breakers against a simulated server."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from foil.engine.errors import RateLimitedError
from foil.engine.models.pacing import Endpoint, EndpointPool
from foil.engine.rates.bucket import Bucket
from tests.support.models.paced_server import LATENCY, QUOTAS, Quota, QuotaServer, Server, simulate
from tests.support.virtual_time import run_virtually


@pytest.mark.slow
def test_what_is_in_flight_follows_a_capacity_that_changes():
    def capacity(now):
        return 50 if now < 60 else 10 if now < 120 else 80

    _, seen = simulate(lambda: Server(capacity), 180)
    for since, until, wanted in ((30, 60, 50), (90, 120, 10), (150, 180, 80)):
        for second in range(since, until):
            assert seen.in_flight[second] <= 1.2 * wanted, second
        assert seen.share("limited", since, until) < 0.05
        assert seen.rate(since, until) > 0.8 * wanted / LATENCY


def test_429s_that_do_not_depend_on_the_load_do_not_slow_it_down():
    _, seen = simulate(lambda: Server(refuses=0.2), 60, most=64, clients=128)
    assert min(seen.limits[second] for second in range(10, 60)) >= 0.8 * 64
    assert seen.rate(10, 60) > 0.9 * 64 / LATENCY * 0.8


def test_a_server_that_queues_is_not_buried():
    _, seen = simulate(lambda: Server(slots=40), 60)
    assert seen.rate(10, 60) > 0.95 * 40 / LATENCY
    assert max(seen.limits[second] for second in range(5, 60)) < 4 * 40


def test_a_free_server_is_used_to_the_setting():
    _, seen = simulate(Server, 20, most=256)
    assert seen.limits[5] == 256
    assert seen.rate(5, 20) > 0.97 * 256 / LATENCY


@pytest.mark.slow
@pytest.mark.parametrize(("per_minute", "latency"), [(120, 4.0), (600, 0.5), (600, 4.0)])
@pytest.mark.parametrize("kind", QUOTAS)
def test_an_unknown_quota_is_learnt_and_used(kind, per_minute, latency):
    minutes = 7
    quota = Quota(per_minute, **QUOTAS[kind])
    server, _ = simulate(lambda: QuotaServer(quota, latency), 43 + 60 * minutes)
    sends = Counter(quota.window(now) for now in server.arrivals if now >= 43)
    used = sum(now >= 43 for now in server.accepted) / minutes / per_minute
    spare = quota.capacity if quota.kind == "bucket" else 0
    for window, count in sends.items():
        assert count <= 1.15 * per_minute + spare, (window, count)
    assert sum(sends.values()) <= 1.1 * per_minute * minutes + spare
    assert used >= 0.9


def test_strays_beside_a_quota_neither_break_it_nor_stop_the_run():
    quota = Quota(1200, burst_s=2.0)
    server, _ = simulate(lambda: QuotaServer(quota, 0.5, strays=0.2), 420)
    sends = [now for now in server.arrivals if now >= 60]
    assert len(sends) <= 1.1 * 1200 * 6 / 0.8
    assert sum(now >= 60 for now in server.accepted) >= 0.45 * 1200 * 6


def test_requests_a_minute_are_used_and_never_passed():
    server, seen = simulate(Server, 300, most=64, clients=100, rpm=1800)
    busiest = max(sum(start <= other < start + 60 for other in server.arrivals) for start in server.arrivals[::97])
    assert busiest <= 1800 * 1.02
    assert len(server.arrivals) / 5 >= 0.97 * 1800
    assert seen.share("limited", 0, 300) == 0


def test_tokens_a_minute_are_used_and_never_passed():
    server, _ = simulate(Server, 300, most=64, clients=100, tpm=14_400)  # 10 are reserved, 8 used: 1,800 requests
    busiest = max(sum(start <= other < start + 60 for other in server.arrivals) for start in server.arrivals[::97])
    assert 8 * busiest <= 14_400 * 1.02
    assert 8 * len(server.arrivals) / 5 >= 0.97 * 14_400


def test_an_outage_of_a_minute_burns_nothing_and_is_hardly_probed():
    server, seen = simulate(lambda: Server(down=lambda now: 30 <= now < 90), 150, most=64, clients=100)
    opened = next(when for when, what in seen.ends if what == "failed")
    probes = [when for when in server.arrivals if 40 <= when < 90]
    assert opened < 40
    assert len(probes) <= 5
    assert seen.lost == 0
    assert seen.rate(120, 150) > 0.9 * 64 / LATENCY


def test_an_outage_longer_than_the_patience_ends_all_waits():
    _, seen = simulate(lambda: Server(down=lambda now: now >= 5), 100, clients=50, outage_s=30.0)
    assert seen.lost == 50


@pytest.mark.parametrize("seed", range(40))
def test_no_slot_is_lost_whatever_happens(seed):
    chance = random.Random(seed)

    async def run():
        loop = asyncio.get_running_loop()
        rates = chance.choice([None, 600.0]), chance.choice([None, 60_000.0])
        endpoints = [Endpoint(f"e{i}", chance.uniform(0.5, 3), chance.randint(2, 40), *rates) for i in range(3)]
        pool, ended = EndpointPool(endpoints, 1e9), 0

        async def client(i):
            nonlocal ended
            for _ in range(10):
                slot = await pool.acquire(chance.randint(1, 500), chance.choice(["", f"seed {i % 7}"]), "e0")
                try:
                    await asyncio.sleep(chance.expovariate(5.0))
                except asyncio.CancelledError:
                    slot.leave(None)
                    raise
                kind = chance.choices(["worked", "limited", "failed", None], [8, 1, 1, 0.3])[0]
                pause = chance.choice([None, 0.5, 200.0]) if kind == "limited" else None
                slot.leave(kind, chance.randint(0, 500), RateLimitedError("", pause))
            ended += 1

        async def fickle(i):
            task = asyncio.create_task(client(i))
            await asyncio.sleep(chance.expovariate(0.05))
            if chance.random() < 0.3:
                task.cancel()
            return await asyncio.gather(task, return_exceptions=True)

        work = asyncio.gather(*(fickle(i) for i in range(30)))
        ends = [end for (end,) in await asyncio.wait_for(work, 1e6)]
        assert {type(end) for end in ends} <= {type(None), asyncio.CancelledError}
        assert loop.time() < 1e6
        await asyncio.sleep(1)
        return ended, [one.in_flight for one in endpoints], len(pool._queue)

    ended, in_flight, queued = run_virtually(run())
    assert ended > 10
    assert queued == 0
    assert in_flight == [0, 0, 0]


def test_a_slot_that_is_granted_while_its_client_is_cancelled_goes_back():
    async def run():
        endpoint = Endpoint("one", 1.0, 2, None, None)
        pool = EndpointPool([endpoint], 1e9)
        held = [await pool.acquire(1), await pool.acquire(1)]
        waiting = asyncio.create_task(pool.acquire(1))
        await asyncio.sleep(0)
        held.pop().leave("worked")  # grants the slot
        waiting.cancel()  # before the client could take it
        await asyncio.gather(waiting, return_exceptions=True)
        held.pop().leave("worked")
        return endpoint.in_flight

    assert run_virtually(run()) == 0


def test_a_seed_leaves_its_endpoint_only_for_one_that_is_far_less_busy():
    async def run():
        pool = EndpointPool([Endpoint(name, 1.0, 64, None, None) for name in ("one", "two")], 1e9)
        slots = [await pool.acquire(1, "seed 7") for _ in range(30)]
        names = [slot.endpoint.name for slot in slots]
        for slot in slots:
            slot.leave("worked")
        return names, (await pool.acquire(1, "seed 7")).endpoint.name

    names, later = run_virtually(run())
    home, away = Counter(names)
    assert names[:4] == [home, home, home, away]
    assert 1.3 * names.count(away) < names.count(home) < 2 * names.count(away)
    assert later == home


def test_a_bucket_lends_to_a_request_larger_than_itself_and_waits_for_the_debt():
    bucket = Bucket(60_000)
    assert bucket.wait(5_000, 0.0) == 0.0
    bucket.take(5_000)
    assert bucket.wait(1, 1.0) == pytest.approx(3.5, abs=0.01)


def test_unknown_limits_of_a_provider_are_not_believed():
    bucket = Bucket(None)
    for limit, remaining in ((0, 0), (-1, 5), (100, -1)):
        bucket.learn(limit, remaining, 0.0)
    assert bucket.wait(10**6, 1.0) == 0.0
    bucket.learn(600, 0, 10.0)
    assert bucket.wait(1, 10.0) == pytest.approx(0.1)
