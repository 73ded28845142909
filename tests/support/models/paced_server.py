"""A model's server in virtual time, with limits of many kinds, and clients behind the real queue."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from foil.engine.errors import ModelOutageError, RateLimitedError
from foil.engine.models.pacing import Endpoint, EndpointPool
from tests.support.virtual_time import run_virtually

LATENCY = 0.2
RETRY_AFTER = 0.3


@dataclass
class Server:
    """Allows `capacity(now)` at once, refuses a share at random, queues beyond `slots`, is down when `down(now)`."""

    capacity: object = lambda _: 10**9
    refuses: float = 0.0
    slots: int = 10**9
    down: object = lambda _: False
    random: random.Random = field(default_factory=lambda: random.Random(1))
    inside: int = 0
    arrivals: list[float] = field(default_factory=list)

    def __post_init__(self):
        self.queue = asyncio.Semaphore(self.slots)

    async def answer(self):
        now = asyncio.get_running_loop().time()
        self.arrivals.append(now)
        if self.down(now):
            await asyncio.sleep(0.01)
            return "failed"
        if self.random.random() < self.refuses:
            await asyncio.sleep(LATENCY)
            return "limited"
        if self.inside >= self.capacity(now):
            await asyncio.sleep(0.01)
            return "limited"
        self.inside += 1
        async with self.queue:
            await asyncio.sleep(LATENCY * self.random.uniform(0.8, 1.2))
        self.inside -= 1
        return "worked"


@dataclass
class Seen:
    """What came of every send: (time, outcome); the limit and the requests in flight each second."""

    ends: list[tuple[float, str]] = field(default_factory=list)
    limits: dict[int, int] = field(default_factory=dict)
    in_flight: dict[int, int] = field(default_factory=dict)
    lost: int = 0

    def share(self, outcome, since, until):
        counts = Counter(what for when, what in self.ends if since <= when < until)
        return counts[outcome] / max(1, counts.total())

    def rate(self, since, until):
        return sum(what == "worked" and since <= when < until for when, what in self.ends) / (until - since)


def simulate(make, seconds, *, most=256, clients=400, rpm=None, tpm=None, outage_s=300.0):
    """Clients that always want an answer, for so many seconds of virtual time."""

    async def run():
        server, seen, loop = make(), Seen(), asyncio.get_running_loop()
        endpoint = Endpoint("one", 1.0, most, rpm, tpm)
        pool = EndpointPool([endpoint], outage_s)

        async def client():
            while loop.time() < seconds:
                try:
                    slot = await pool.acquire(10)
                except ModelOutageError:
                    seen.lost += 1
                    return
                outcome = await server.answer()
                slot.leave(outcome, 8, RateLimitedError("", RETRY_AFTER) if outcome == "limited" else None)
                seen.ends.append((loop.time(), outcome))
                if outcome != "worked":
                    await asyncio.sleep(RETRY_AFTER * server.random.uniform(1.0, 1.1))

        tasks = [asyncio.create_task(client()) for _ in range(clients)]
        while loop.time() < seconds:
            seen.limits[round(loop.time())] = endpoint.concurrency.limit
            seen.in_flight[round(loop.time())] = endpoint.in_flight
            await asyncio.sleep(1.0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return server, seen

    return run_virtually(run())


@dataclass
class Quota:
    """Accepts so many requests a minute: by a bucket of `burst_s` seconds' worth, or in windows of a minute."""

    per_minute: int
    burst_s: float = 0.0
    kind: str = "bucket"
    level: float = 0.0
    at: float = 0.0
    accepted: deque[float] = field(default_factory=deque)

    def __post_init__(self):
        self.level = self.capacity

    @property
    def capacity(self):
        return max(1.0, self.burst_s * self.per_minute / 60)

    def accepts(self, now):
        if self.kind == "bucket":
            self.level = min(self.capacity, self.level + (now - self.at) * self.per_minute / 60)
            self.at = now
            full = self.level < 1
            self.level -= not full
            return not full
        while self.accepted and self.accepted[0] < (now - 60 if self.kind == "sliding" else self.window(now)):
            self.accepted.popleft()
        if len(self.accepted) < self.per_minute:
            self.accepted.append(now)
            return True
        return False

    @staticmethod
    def window(now):
        """When the fixed window began that holds this moment: at second 43 of each minute."""
        return (now + 17) // 60 * 60 - 17


class QuotaServer(Server):
    """Answers in `latency` seconds, more or less, what the quota accepts, and refuses the rest at once; some strays."""

    def __init__(self, quota, latency, strays=0.0):
        super().__init__()
        self.quota, self.latency, self.strays = quota, latency, strays
        self.accepted = []

    async def answer(self):
        now = asyncio.get_running_loop().time()
        self.arrivals.append(now)
        if self.random.random() < self.strays or not self.quota.accepts(now):
            await asyncio.sleep(0.05)
            return "limited"
        self.accepted.append(now)
        await asyncio.sleep(self.latency * self.random.uniform(0.7, 1.6))
        return "worked"


QUOTAS: dict[str, dict[str, Any]] = {
    "bucket of half a second": {"burst_s": 0.5},
    "bucket of ten seconds": {"burst_s": 10.0},
    "bucket of a minute": {"burst_s": 60.0},
    "fixed window": {"kind": "fixed"},
    "sliding window": {"kind": "sliding"},
}
