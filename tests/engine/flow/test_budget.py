"""The budget: never overspent, shared fairly, and told what a dead worker may have spent."""

import asyncio
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foil.engine.errors import BudgetSpentError
from foil.engine.flow import budget as budget_module
from foil.engine.flow.budget import Budget, LeasedBudget, Spend
from foil.engine.flow.limits import BudgetSettings
from tests.support.virtual_time import run_virtually


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


class Line:
    """The run's budget as workers reach it, with the messages counted."""

    def __init__(self, budget):
        self.budget, self.messages = budget, 0

    async def __call__(self, method, *arguments):
        self.messages += 1
        await asyncio.sleep(0)
        return await getattr(self.budget, method)(*arguments)


async def spend_all(client, owner, sent, tokens, *, dice=None, most=10**9):
    """One request after the other until the budget is spent; some are refused, some cost less than they might."""
    while len(sent) < most:
        try:
            reservation = await client.reserve(owner, tokens)
        except BudgetSpentError:
            return
        await asyncio.sleep(dice.choice([0, 0.0005]) if dice else 0)
        cost = Spend() if dice and dice.random() < 0.1 else Spend(1, tokens if len(sent) % 3 else tokens // 2)
        sent += [owner] * cost.calls
        await client.settle(owner, reservation, cost)


@pytest.mark.parametrize("limits", [{"calls": 300}, {"tokens": 9_000}, {"calls": 250, "tokens": 9_000}])
@settings(max_examples=10, deadline=None)
@given(workers=st.integers(1, 6), at_once=st.integers(1, 12), seed=st.integers(0, 10**6))
def test_leases_never_exceed_the_budget_and_use_all_of_it(limits, workers, at_once, seed):
    dice = Random(seed)

    async def run():
        budget = Budget(BudgetSettings(**limits))
        line, sent = Line(budget), []
        clients = [(LeasedBudget(line), f"w{n}") for n in range(workers)]
        tasks = [
            spend_all(client, owner, sent, tokens=30, dice=dice) for client, owner in clients for _ in range(at_once)
        ]
        await asyncio.wait_for(asyncio.gather(*tasks), 60)
        await asyncio.sleep(0.03)  # what is idle is given back
        return budget.spent, len(sent)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget_module, "_IDLE_S", 0.01)
        spent, sent = asyncio.run(run())
    assert spent.calls == sent
    assert spent.calls <= limits.get("calls", 10**9)
    assert spent.tokens <= limits.get("tokens", 10**9)
    assert spent.calls == limits.get("calls") or spent.tokens > limits.get("tokens", 10**9) - 30


def test_a_fast_worker_sends_one_message_in_a_hundred_requests():
    async def run():
        line, sent = Line(Budget(BudgetSettings(calls=10**6))), []
        client = LeasedBudget(line)
        await asyncio.gather(*(spend_all(client, "w", sent, 30, most=20_000) for _ in range(64)))
        return line.messages, len(sent)

    messages, sent = asyncio.run(run())
    assert messages <= sent / 100


@pytest.mark.parametrize("per_second", [15, 25, 100])
def test_so_does_a_slow_one_of_hundreds(per_second):
    """Requests of 2.5 s each, as many a second as one of a thousand workers may send of a quota."""

    async def one(client):
        reservation = await client.reserve("w", 30)
        await asyncio.sleep(2.5)
        await client.settle("w", reservation, Spend(1, 30))

    async def run():
        line = Line(Budget(BudgetSettings(calls=10**6)))
        client, sent = LeasedBudget(line), 300 * per_second
        async with asyncio.TaskGroup() as group:
            for _ in range(sent):
                group.create_task(one(client))
                await asyncio.sleep(1 / per_second)
        return line.messages, sent

    messages, sent = run_virtually(run())
    assert messages <= sent / 100


def test_a_lease_that_comes_too_late_serves_the_next_request():
    async def run():
        gate = asyncio.Event()
        budget = Budget(BudgetSettings(calls=1))

        async def line(method, *arguments):
            await gate.wait()
            return await getattr(budget, method)(*arguments)

        client = LeasedBudget(line)
        late = asyncio.create_task(client.reserve("w", 1))
        await asyncio.sleep(0)
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)
        gate.set()
        await asyncio.sleep(0.01)
        return await asyncio.wait_for(client.reserve("w", 1), 10)

    assert asyncio.run(run()) == Spend(1, 1)


def test_what_a_dead_worker_had_on_lease_counts_as_spent():
    async def run():
        budget = Budget(BudgetSettings(calls=100))
        client = LeasedBudget(Line(budget))
        reservations = [await client.reserve("dead", 1) for _ in range(20)]
        await client.settle("dead", reservations[0], Spend(1, 1))
        await budget.forfeit("dead")
        assert 20 <= budget.spent.calls <= 75
        left = 100 - budget.spent.calls
        assert [await budget.reserve("alive", 1) for _ in range(left)]
        return budget.spent.calls

    asyncio.run(run())
