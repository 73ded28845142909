"""The budget of a run: an amount is reserved before a request is sent, so that no concurrency can overspend.

Promise: answered calls never exceed the budget; tokens and dollars exceed it by no more than the estimates err. A
request that finds the budget used up waits for what other reservations give back; only then is the budget spent.
Price: two awaits a call. A worker process asks its parent's budget over a pipe, and only if there is a limit.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

from engine.errors import BudgetSpentError
from engine.flow.limits import BudgetSettings


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


class BudgetClient(Protocol):
    """What `ask` needs of a budget, wherever that is kept. `owner` is the worker that spends."""

    async def reserve(self, owner: str, tokens: int, usd: float = 0.0) -> Spend: ...
    async def settle(self, owner: str, reservation: Spend, spent: Spend) -> None: ...


class Budget:
    """The one budget of a run; `spent` is what earlier runs on the same `out` have paid."""

    def __init__(self, limits: BudgetSettings, spent: Spend = Spend()) -> None:
        self._limits, self.spent = limits, spent
        self._reserved = Spend()
        self._reservations: Counter[tuple[str, Spend]] = Counter()
        self._dearest = 0.0
        self._dead: set[str] = set()
        self._returned = asyncio.Condition()

    async def reserve(self, owner: str, tokens: int, usd: float = 0.0) -> Spend:
        """Sets aside one call of about `tokens` and `usd`; without a price, as dear as the dearest so far.

        Raises BudgetSpentError.
        """
        async with self._returned:
            while over := self._over(requested := Spend(1, tokens, usd or self._dearest)):
                self._check_alive(owner)
                if not self._reservations.total():
                    raise BudgetSpentError(f"the budget is spent: {over}; raise it under `limits.budget` and run again")
                await self._returned.wait()
            self._check_alive(owner)
            self._reservations[owner, requested] += 1
            self._reserved += requested
            return requested

    async def settle(self, owner: str, reservation: Spend, spent: Spend) -> None:
        """Replaces a reservation by what was spent."""
        async with self._returned:
            if owner in self._dead:
                return
            self._reservations[owner, reservation] -= 1
            self._reserved -= reservation
            self.spent += spent
            self._dearest = max(self._dearest, spent.usd)
            self._returned.notify_all()

    async def forfeit(self, owner: str) -> None:
        """Counts what a dead worker reserved as spent: its requests may have been answered, and will be asked again."""
        for (name, reservation), times in list(self._reservations.items()):
            for _ in range(times if name == owner else 0):
                await self.settle(owner, reservation, reservation)
        async with self._returned:
            self._dead.add(owner)
            self._returned.notify_all()

    def _check_alive(self, owner: str) -> None:
        """What a dead worker still waits for would never be given back."""
        if owner in self._dead:
            raise BudgetSpentError(f"{owner} is dead; nothing is reserved for it")

    def _over(self, requested: Spend) -> str:
        total = self.spent + self._reserved + requested
        for name in ("calls", "tokens", "usd"):
            limit, used = getattr(self._limits, name), getattr(self.spent, name)
            if limit is not None and getattr(total, name) > limit:
                needed = getattr(requested, name)
                return f"{used:.6g} of {limit:.6g} {name} are used, and the next request needs {needed:.6g}"
        return ""
