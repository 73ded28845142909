"""What a simulated worker sends by on a virtual clock: the real client of rates and the real leased budget.

    Sender.send(n) -> LeasedBudget.reserve, a call each -> LeasedRate.wait, .take, a chunk each -> settled later
                            | lend                                   | lease
                            +---> Budget                             +---> RateBook, which may be dead for a while

A chunk is what the worker could send in CHUNK_S. That ten million requests take minutes is all that it is for.
"""

import asyncio
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from math import inf
from typing import Any

from foil.engine.errors import FoilError
from foil.engine.flow.budget import Budget, LeasedBudget, Spend
from foil.engine.rates.book import RateAsk, RateBook, RateLease, rate_key
from foil.engine.rates.client import RateClient

CHUNK_S = 0.25
WIRE_S = 0.002
COST = Spend(1, 500, 0.001)
_KEY = rate_key("http://127.0.0.1/v1", "test-model", "${KEY}")


@dataclass
class SharedServices:
    """What all workers share: a quota of so many requests a second, and money.

    `dead` is when the book is dead; it comes back empty. `sent` has the requests of each second.
    """

    quota: float
    budget: Budget
    dead: tuple[float, float] = (inf, inf)
    messages: Counter[str] = field(default_factory=Counter)
    sent: Counter[int] = field(default_factory=Counter)
    book_cpu_s: float = 0.0
    _book: RateBook = field(default_factory=RateBook)

    async def lease(self, ask: RateAsk) -> RateLease:
        self.messages["rates"] += 1
        await asyncio.sleep(WIRE_S)
        now, cpu = _now(), time.process_time()
        if self.dead[0] <= now < self.dead[1]:
            self._book = RateBook()
            raise FoilError("the book is dead")
        lease = self._book.lease(ask, now)
        self.book_cpu_s += time.process_time() - cpu
        return lease

    async def spend(self, method: str, *args: Any) -> Any:
        self.messages["money"] += 1
        await asyncio.sleep(WIRE_S)
        return await getattr(self.budget, method)(*args)

    def used(self, since: float, until: float) -> float:
        """The share of the quota that was sent within whole seconds."""
        first, last = int(since) + 1, int(until)
        return sum(self.sent[second] for second in range(first, last)) / (self.quota * max(1, last - first))

    def most_in_a_minute(self) -> float:
        """The same within any 60 seconds: the most."""
        ends = range(60, max(self.sent, default=0) + 2)
        return max((self.used(end - 61, end) for end in ends), default=0.0)


class Sender:
    """One worker: it could send `own_rate` requests a second, each `latency_s` long; `share` is its equal part."""

    def __init__(self, services: SharedServices, name: str, share: float, own_rate: float, latency_s: float) -> None:
        self._services, self._name, self.own_rate, self._latency_s = services, name, own_rate, latency_s
        self.sent = 0
        self._changed, self._gone = asyncio.Event(), False
        about = RateAsk(_KEY, name, {"requests": services.quota}, share)
        self._client = RateClient(about, self._ask, self._backlog, self._changed.set)
        self._rate = self._client.rates["requests"]
        self._budget = LeasedBudget(self._spend)
        self._flying: deque[tuple[float, int]] = deque()
        self._ready = 0.0

    async def send(self, left: int) -> None:
        """Sends so many, `sent` of them by now; the last of them are not answered yet."""
        self.sent = 0
        while left:
            chunk = min(left, max(1, round(self.own_rate * CHUNK_S)))
            for _ in range(chunk):
                await self._budget.reserve(self._name, COST.tokens, COST.usd)
            await self._wait_turn(chunk)
            self._rate.take(chunk)
            self._services.sent[int(_now())] += chunk
            self._flying.append((_now() + self._latency_s, chunk))
            self.sent, left = self.sent + chunk, left - chunk
            await self.settle(_now())

    async def settle(self, now: float) -> None:
        """Pays for what is answered by then."""
        while self._flying and self._flying[0][0] <= now:
            for _ in range(self._flying.popleft()[1]):
                await self._budget.settle(self._name, COST, COST)

    def in_flight(self) -> int:
        """Requests sent and not answered."""
        return sum(chunk for _, chunk in self._flying)

    def die(self) -> None:
        """It asks for nothing more, and gives nothing back."""
        self._gone = True

    async def close(self) -> None:
        """Gives its rates back, unless it is dead; the run takes back its money."""
        if not self._gone:
            await self._client.close()
        await self._services.budget.forfeit(self._name)

    async def _wait_turn(self, chunk: int) -> None:
        while (seconds := max(self._ready - (now := _now()), self._rate.wait(chunk, now))) > 0:
            if seconds < inf:
                await asyncio.sleep(min(seconds, 2 * CHUNK_S))
            else:
                self._changed.clear()
                await self._changed.wait()
        self._ready = max(now, self._ready) + chunk / self.own_rate

    def _backlog(self) -> dict[str, float]:
        return {"requests": max(0.0, self.own_rate * self._latency_s - self.in_flight())}

    async def _spend(self, method: str, *args: Any) -> Any:
        self._check_alive()
        return await self._services.spend(method, *args)

    async def _ask(self, ask: RateAsk) -> RateLease:
        self._check_alive()
        return await self._services.lease(ask)

    def _check_alive(self) -> None:
        if self._gone:
            raise FoilError("this worker is dead")


def _now() -> float:
    return asyncio.get_running_loop().time()
