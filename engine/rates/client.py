"""A worker's side of leased rates: what the queue before an endpoint asks, and a task that renews the lease.

    EndpointPool -> LeasedRate.wait, .take        a bucket at the leased rate; nothing is sent for a request
                          | used, waiting
    RateClient._renew ----+---> ask(RateAsk) -> the book of the run or of the cluster -> RateLease

The first request after a pause asks; from then on the task asks every 2 to 10 s, before the lease ends, as the book
says. After `_IDLE_S` without a request it gives the lease back and ends.

Promise: a book that is dead or slow stops nobody. The last rates hold on, or the worker's equal part if it has none;
one warning says so. When the book answers again, it counts again. Price: a few additions a request; one ask a lease,
which is one in 100 requests where the quota is used up by no more than some ten workers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from math import inf

from foil.engine.errors import FoilError
from foil.engine.rates.book import SHORTEST_S, RateAsk, RateLease
from foil.engine.rates.bucket import Bucket

LOG = logging.getLogger(__name__)
AskForRates = Callable[[RateAsk], Awaitable[RateLease]]
"""Reaches the book. Raises a FoilError where it cannot."""
_PATIENCE_S = 3.0
_IDLE_S = 10.0
_HEADROOM = 1.02
_NOTHING = 1e-9


class LeasedRate:
    """The rate of one unit of a lease: an engine.rates.bucket.Rate."""

    def __init__(self, client: RateClient) -> None:
        self.used, self.short = 0.0, False
        self._client = client
        self._bucket = Bucket(_NOTHING)

    def wait(self, amount: float, now: float) -> float:
        """Seconds until this amount may be taken; infinity while the first lease is asked for."""
        if not self._client.has_lease():
            return inf
        seconds = self._bucket.wait(amount, now)
        self.short = self.short or seconds > 0
        return seconds

    def take(self, amount: float) -> None:
        """Takes the amount; a negative one gives back."""
        self.used += amount
        self._bucket.take(amount)

    def learn(self, limit: float, remaining: float, now: float) -> None:
        """Nothing: the settings name the quota."""

    def change(self, rate: float, now: float) -> None:
        self._bucket.change(max(rate, _NOTHING), now)

    def spilt(self, now: float) -> float:
        """What was allowed since the last call, and never taken."""
        self._bucket.wait(0, now)
        spilt, self._bucket.spilt = self._bucket.spilt, 0.0
        return spilt

    def empty(self) -> None:
        """Drops what is left over, so that leases in a row give no more than their rates."""
        self._bucket.drain()
        self._bucket.spilt = 0.0


class RateClient:
    """The rates of one endpoint in one worker; `about` is an ask of this worker that neither holds nor wants anything.

    `backlog` tells what waits in the queue, by unit; `on_change` is called when there are other rates.
    """

    def __init__(
        self,
        about: RateAsk,
        ask: AskForRates,
        backlog: Callable[[], Mapping[str, float]],
        on_change: Callable[[], None],
    ) -> None:
        self.rates = {unit: LeasedRate(self) for unit in about.quotas}
        self._about, self._ask, self._backlog, self._on_change = about, ask, backlog, on_change
        self._held: dict[str, float] = {}
        self._used: dict[str, float] = {}
        self._renewing: asyncio.Task[None] | None = None
        self._asked_at = self._used_at = 0.0
        self._cut_off = False

    def has_lease(self) -> bool:
        """Whether there are rates to send by; asks for some if there are none."""
        if self._renewing is None or self._renewing.done():
            self._asked_at = self._used_at = asyncio.get_running_loop().time()
            self._renewing = asyncio.create_task(self._renew())
        return bool(self._held)

    async def close(self) -> None:
        """Gives the lease back."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
            self._renewing = None
            await self._give_back()

    async def _renew(self) -> None:
        """One lease after the other, as long as requests come."""
        loop = asyncio.get_running_loop()
        while loop.time() - self._used_at < _IDLE_S:
            pause = await self._lease(self._wants(loop.time()))
            await asyncio.sleep(pause)
            self._pace(self._held)
            if any(rate.used or rate.short for rate in self.rates.values()):
                self._used_at = loop.time()
        self._renewing = None
        await self._give_back()

    async def _lease(self, demand: Mapping[str, float]) -> float:
        """Asks once; the seconds until the next ask."""
        now = asyncio.get_running_loop().time()
        unused = {unit: rate.spilt(now) for unit, rate in self.rates.items()} if self._held else {}
        try:
            async with asyncio.timeout(_PATIENCE_S):
                lease = await self._ask(replace(self._about, held=self._held, wanted=demand, unused=unused))
        except (FoilError, TimeoutError) as error:
            if not self._cut_off:
                LOG.warning(
                    "the service that shares rates does not answer (%s); this worker goes on with %s",
                    error or "no answer in time",
                    "the rates that it has" if self._can_send() else "its equal part of them",
                )
            self._cut_off = True
            self._use(self._held if self._can_send() else self._about.equal_part(), {})
            return SHORTEST_S
        if self._cut_off:
            LOG.warning("the service that shares rates answers again")
        self._cut_off = False
        self._use(lease.rates, {unit: amount / lease.ask_again_s for unit, amount in lease.extra.items()})
        return lease.ask_again_s

    async def _give_back(self) -> None:
        """Ends the lease; if nobody hears of it, it runs out."""
        rates, self._held, self._used = self._held, {}, {}
        self._pace({})
        with suppress(FoilError, TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                await self._ask(replace(self._about, held=rates))

    def _can_send(self) -> bool:
        return bool(self._held) and all(self._held.values())

    def _use(self, rates: Mapping[str, float], extra: Mapping[str, float]) -> None:
        """Holds these rates from now on, and until the next ask sends by more."""
        first, self._held = not self._held, dict(rates)
        self._pace({unit: rate + extra.get(unit, 0.0) for unit, rate in rates.items()})
        for rate in self.rates.values() if first else ():
            rate.empty()
        self._on_change()

    def _pace(self, rates: Mapping[str, float]) -> None:
        now = asyncio.get_running_loop().time()
        for unit, rate in self.rates.items():
            rate.change(rates.get(unit, 0.0), now)

    def _wants(self, now: float) -> dict[str, float]:
        """What was used of late and a little more, and what waits because a rate is too low."""
        seconds, waiting = max(now - self._asked_at, SHORTEST_S), self._backlog()
        short = not self._held or any(rate.short for rate in self.rates.values())
        for unit, rate in self.rates.items():
            used = max(rate.used, 0.0) / seconds
            self._used[unit] = (self._used.get(unit, used) + used) / 2
            rate.used, rate.short = 0.0, False
        self._asked_at = now
        return {unit: _HEADROOM * used + short * waiting[unit] / seconds for unit, used in self._used.items()}
