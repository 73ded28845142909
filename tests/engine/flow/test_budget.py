"""The budget: never overspent, shared fairly, and told what a dead worker may have spent."""

import asyncio

import pytest

from engine.errors import (
    BudgetSpentError,
)
from engine.flow.budget import Budget, Spend
from engine.flow.limits import BudgetSettings


def test_whoever_finds_the_budget_used_up_waits_for_what_others_give_back():
    async def three() -> list[object]:
        budget = Budget(BudgetSettings(tokens=100))
        first = await budget.reserve("a", 90)
        second = asyncio.create_task(budget.reserve("a", 50))
        await asyncio.sleep(0)
        assert not second.done()
        await budget.settle("a", first, Spend(1, 10, 0.0))
        await second
        with pytest.raises(BudgetSpentError, match="10 of 100 tokens are used, and the next request needs 200"):
            await asyncio.gather(budget.reserve("a", 200), budget.settle("a", second.result(), Spend()))
        return [budget.spent]

    assert asyncio.run(three()) == [Spend(1, 10, 0.0)]


def test_what_a_dead_worker_held_counts_as_spent():
    async def die() -> Spend:
        budget = Budget(BudgetSettings(calls=3))
        await budget.reserve("dead", 5)
        await budget.reserve("dead", 5)
        await budget.reserve("alive", 5)
        await budget.forfeit("dead")
        return budget.spent

    assert asyncio.run(die()) == Spend(2, 10, 0.0)


def test_what_a_dead_worker_waited_for_is_never_reserved():
    async def die() -> list[object]:
        budget = Budget(BudgetSettings(calls=2))
        alive = [await budget.reserve("alive", 1), await budget.reserve("alive", 1)]
        zombie = asyncio.create_task(budget.reserve("dead", 1))
        await asyncio.sleep(0)
        await budget.forfeit("dead")
        await budget.settle("alive", alive[0], Spend())
        with pytest.raises(BudgetSpentError, match="dead is dead"):
            await zombie
        return [await asyncio.wait_for(budget.reserve("alive", 1), 60)]

    assert asyncio.run(die()) == [Spend(1, 1, 0.0)]
