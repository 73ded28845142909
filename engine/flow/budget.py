"""The budget of a run: an amount is reserved before a request is sent, so that no concurrency can overspend.

    a worker elsewhere: LeasedBudget.reserve, .settle       its own sums, no message
                          | what it has left, what it spent, what it wants
                          +---> Budget.lend: enough for up to 500 calls, some ten seconds' worth

Promise: answered calls never exceed the budget; tokens and dollars exceed it by no more than the estimates err. A
request that finds the budget used up waits for what other reservations and leases give back; only then is the budget
spent. Price: one message a lease; the nearer the end of the budget, the smaller the leases. What a worker that dies
held on lease counts as spent until the next session, which counts replies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from foil.engine.errors import BudgetSpentError, FoilError
from foil.engine.flow.limits import BudgetSettings
from foil.engine.requests import Reply

_LEASE_S, _LEASE_CALLS = 10.0, 500
_IDLE_S = 2.0


@dataclass(frozen=True, slots=True)
class Spend:
    """An amount of calls, tokens and US dollars."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: Spend) -> Spend:
        return Spend(self.calls + other.calls, self.tokens + other.tokens, self.usd + other.usd)

    def __sub__(self, other: Spend) -> Spend:
        return Spend(self.calls - other.calls, self.tokens - other.tokens, self.usd - other.usd)

    def times(self, count: int) -> Spend:
        """So many of it."""
        return Spend(self.calls * count, self.tokens * count, self.usd * count)

    def covers(self, cost: Spend) -> bool:
        """Whether the other can be taken from it."""
        return self.calls >= cost.calls and self.tokens >= cost.tokens and self.usd >= cost.usd


def spend_of(reply: Reply) -> Spend:
    """What a reply took."""
    return Spend(1, reply.prompt_tokens + reply.completion_tokens, reply.cost_usd)


class BudgetClient(Protocol):
    """What `ask` needs of a budget, wherever that is kept. `owner` is the worker that spends."""

    async def reserve(self, owner: str, tokens: int, usd: float = 0.0) -> Spend: ...
    async def settle(self, owner: str, reservation: Spend, spent: Spend) -> None: ...


@dataclass(frozen=True, slots=True)
class Settlement:
    """What of a worker's lease is settled: `lease` is given up, `spent` of it was spent, `dearest` on one call."""

    lease: Spend
    spent: Spend
    dearest: float = 0.0


class Budget:
    """The one budget of a run; `spent` is what earlier runs on the same `out` have paid."""

    def __init__(self, limits: BudgetSettings, spent: Spend = Spend()) -> None:
        self._limits, self.spent = limits, spent
        self._reserved = Spend()
        self._held: dict[str, Spend] = {}  # of what is reserved, by owner
        self._dearest = 0.0
        self._dead: set[str] = set()
        self._returned = asyncio.Condition()

    async def reserve(self, owner: str, tokens: int, usd: float = 0.0) -> Spend:
        """Sets aside one call of about `tokens` and `usd`; without a price, as dear as the dearest so far.

        Raises BudgetSpentError.
        """
        return await self.lend(owner, Spend(1, tokens, usd), 1)

    async def settle(self, owner: str, reservation: Spend, spent: Spend) -> None:
        """Replaces a reservation by what was spent."""
        await self.take_back(owner, Settlement(reservation, spent, spent.usd))

    async def lend(self, owner: str, call: Spend, calls: int, settled: Settlement | None = None) -> Spend:
        """Sets aside at least one call like this, and as many as `calls` while that leaves enough for others.

        `settled` is taken back first. Raises BudgetSpentError.
        """
        if settled:
            await self.take_back(owner, settled)
        async with self._returned:
            while over := self._over(need := Spend(1, call.tokens, call.usd or self._dearest)):
                self._check_alive(owner)
                if not self._reserved.calls:
                    raise BudgetSpentError(f"the budget is spent: {over}; raise it under `limits.budget` and run again")
                await self._returned.wait()
            self._check_alive(owner)
            lent = need.times(min(calls, self._fair_calls(need)))
            self._held[owner] = self._held.get(owner, Spend()) + lent
            self._reserved += lent
            return lent

    async def take_back(self, owner: str, settled: Settlement) -> None:
        """Ends a lease, or a part of it."""
        async with self._returned:
            if owner in self._dead:
                return
            self._held[owner] = self._held.get(owner, Spend()) - settled.lease
            self._reserved -= settled.lease
            self.spent += settled.spent
            self._dearest = max(self._dearest, settled.dearest)
            self._returned.notify_all()

    async def forfeit(self, owner: str) -> None:
        """Counts what a dead worker held as spent: its requests may have been answered, and will be asked again."""
        if lease := self._held.get(owner):
            await self.take_back(owner, Settlement(lease, lease))
        async with self._returned:
            self._dead.add(owner)
            self._held.pop(owner, None)
            self._returned.notify_all()

    def _check_alive(self, owner: str) -> None:
        """What a dead worker still waits for would never be given back."""
        if owner in self._dead:
            raise BudgetSpentError(f"{owner} is dead; nothing is reserved for it")

    def _fair_calls(self, call: Spend) -> int:
        """How many such calls one worker may hold: half its part of what is left, one at least."""
        used = self.spent + self._reserved
        room = [
            (limit - getattr(used, name)) / getattr(call, name)
            for name in ("calls", "tokens", "usd")
            if (limit := getattr(self._limits, name)) is not None and getattr(call, name)
        ]
        return max(1, int(min(room, default=_LEASE_CALLS) / (2 * max(1, len(self._held)))))

    def _over(self, requested: Spend) -> str:
        total = self.spent + self._reserved + requested
        for name in ("calls", "tokens", "usd"):
            limit, used = getattr(self._limits, name), getattr(self.spent, name)
            if limit is not None and getattr(total, name) > limit:
                needed = getattr(requested, name)
                return f"{used:.6g} of {limit:.6g} {name} are used, and the next request needs {needed:.6g}"
        return ""


class LeasedBudget:
    """A BudgetClient in a worker process: `call` reaches the run's Budget, for many calls at a time.

    What it holds is free, reserved by a request, or spent and not yet reported. It reports at each lease, and gives
    back what is free when no request came for two seconds, or at once while it waits for a lease itself.
    """

    def __init__(self, call: Callable[..., Awaitable[Any]]) -> None:
        self._call = call
        self._free, self._spent, self._dearest = Spend(), Spend(), 0.0
        self._calls, self._leased_at, self._reservations = 1, 0.0, 0
        self._leasing = asyncio.Lock()
        self._idling: asyncio.Task[None] | None = None

    async def reserve(self, owner: str, tokens: int, usd: float = 0.0) -> Spend:
        async with self._leasing:
            call = Spend(1, tokens, usd or self._dearest)
            if not self._free.covers(call):
                await self._lease(owner, call)
            self._free -= call
            self._reservations += 1
        self._watch(owner)
        return call

    async def settle(self, owner: str, reservation: Spend, spent: Spend) -> None:
        self._free += reservation - spent
        self._spent += spent
        self._dearest = max(self._dearest, spent.usd)
        if self._leasing.locked():
            await self._give_back(owner)
        self._watch(owner)

    async def _lease(self, owner: str, call: Spend) -> None:
        """Borrows for as many calls as ten seconds took of late. A cancelled request leaves the lease to others."""
        now = asyncio.get_running_loop().time()
        self._calls = min(_LEASE_CALLS, self._calls * 2) if now - self._leased_at < _LEASE_S else 1 + self._calls // 2
        self._leased_at = now
        lending = asyncio.ensure_future(self._call("lend", owner, call, self._calls, self._settlement()))
        try:
            self._free += await asyncio.shield(lending)
        except asyncio.CancelledError:
            lending.add_done_callback(self._keep)
            self._watch(owner)
            raise

    def _keep(self, lending: asyncio.Future[Spend]) -> None:
        if not lending.cancelled() and not lending.exception():
            self._free += lending.result()

    def _settlement(self) -> Settlement:
        """Gives up all that no request has reserved."""
        settled = Settlement(self._free + self._spent, self._spent, self._dearest)
        self._free = self._spent = Spend()
        return settled

    async def _give_back(self, owner: str) -> None:
        await self._call("take_back", owner, self._settlement())

    def _watch(self, owner: str) -> None:
        if self._idling is None or self._idling.done():
            self._idling = asyncio.create_task(self._return_when_idle(owner))

    async def _return_when_idle(self, owner: str) -> None:
        """Ends once nothing was reserved for two seconds, and all that is free has been given back."""
        reservations = -1
        while reservations != self._reservations or self._free != Spend() or self._spent != Spend():
            reservations = self._reservations
            await asyncio.sleep(_IDLE_S)
            if reservations == self._reservations and not self._leasing.locked():
                with suppress(FoilError):  # the run has ended
                    await self._give_back(owner)
