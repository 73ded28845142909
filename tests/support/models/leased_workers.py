"""Workers in virtual time that share one quota: the real queue, clients and book; the server only counts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from foil.engine.errors import FoilError
from foil.engine.models.pacing import Endpoint, EndpointPool
from foil.engine.rates.book import RateAsk, RateBook, RateLease, rate_key
from foil.engine.rates.client import RateClient
from tests.support.virtual_time import run_virtually

KEY = rate_key("http://127.0.0.1/v1", "test-model", "${KEY}")
TOKENS = 10


@dataclass
class Service:
    """The book behind a wire that takes a moment; `down(now)` says when it is dead. It comes back empty."""

    down: Callable[[float], bool] = lambda _: False
    asks: list[tuple[float, RateAsk]] = field(default_factory=list)
    book: RateBook = field(default_factory=RateBook)

    async def lease(self, ask: RateAsk) -> RateLease:
        await asyncio.sleep(0.002)
        now = asyncio.get_running_loop().time()
        self.asks.append((now, ask))
        if self.down(now):
            self.book = RateBook()
            raise FoilError("the book is dead")
        return self.book.lease(ask, now)


@dataclass
class Worker:
    """One worker. `demand(now)`: the requests a second that it wants to send, infinity for as many as it may."""

    demand: Callable[[float], float]
    latency: float = 0.5
    dies_at: float = inf
    wanted: int = 0
    sends: list[float] = field(default_factory=list)

    async def run(self, number: int, service: Service, quotas: dict[str, float], share: float, seconds: float) -> None:
        loop, draw = asyncio.get_running_loop(), random.Random(number)
        endpoint = Endpoint("one", 1.0, 1_000, None, None)
        pool = EndpointPool([endpoint], 300.0)
        about = RateAsk(KEY, f"worker {number}", quotas, share)
        client = RateClient(about, service.lease, pool.backlog, pool.serve)
        endpoint.requests = client.rates.get("requests", endpoint.requests)
        endpoint.tokens = client.rates.get("tokens", endpoint.tokens)
        requests: set[asyncio.Task[None]] = set()

        async def send() -> None:
            slot = await pool.acquire(TOKENS)
            self.sends.append(loop.time())
            await asyncio.sleep(self.latency * draw.uniform(0.5, 1.5))
            slot.leave("worked", TOKENS)

        while loop.time() < min(seconds, self.dies_at):
            rate = self.demand(loop.time())
            wanted = rate if rate < inf else 2 * max(quotas.get("requests", 0), quotas.get("tokens", 0) / TOKENS)
            if rate and len(requests) < 400:
                self.wanted += 1
                task = asyncio.create_task(send())
                requests.add(task)
                task.add_done_callback(requests.discard)
            await asyncio.sleep(draw.expovariate(wanted) if rate else 0.1)
        for task in requests:
            task.cancel()
        if client._renewing and self.dies_at < inf:
            client._renewing.cancel()
        await asyncio.gather(*requests, return_exceptions=True)


def work_virtually(
    workers: Sequence[Worker], seconds: float, *, shares: Sequence[float] = (), service: Any = None, **quotas: float
) -> Service:
    """Lets the workers run for so many seconds. `quotas` are a minute."""
    service = service or Service()
    shares = shares or [1 / len(workers)] * len(workers)
    per_second = {unit: quota / 60 for unit, quota in quotas.items()}

    async def run() -> None:
        works = (
            worker.run(number, service, per_second, share, seconds)
            for number, (worker, share) in enumerate(zip(workers, shares, strict=True))
        )
        await asyncio.gather(*works)

    run_virtually(run())
    return service


def sent(workers: Sequence[Worker], since: float, until: float) -> int:
    return sum(since <= when < until for worker in workers for when in worker.sends)


def most_in_a_minute(workers: Sequence[Worker]) -> int:
    """The most sends of all workers within any 60 seconds."""
    times, first, most = sorted(when for worker in workers for when in worker.sends), 0, 0
    for last, when in enumerate(times):
        while times[first] <= when - 60:
            first += 1
        most = max(most, last - first + 1)
    return most
