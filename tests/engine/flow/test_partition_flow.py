"""One partition: nothing is dropped, everything is marked, one bad seed never touches another, order is the seeds'."""

import asyncio
from dataclasses import replace

import pytest

from foil.engine.errors import BudgetSpentError, CommitLostError, JudgeUnreliableError, SeedsChangedError
from foil.engine.flow.budget import Budget
from foil.engine.flow.limits import BudgetSettings, RuntimeSettings
from foil.engine.flow.partition_flow import DrainedError, Flow
from foil.engine.flow.seed_outcome import SeedOutcome
from foil.engine.protocols import Cost, Partition
from foil.engine.topic import Topic, Verdict
from tests.support.small_parts import (
    Echo,
    Line,
    Numbers,
    OneTopic,
    Traps,
    build,
    opened,
    prompt_for,
    seed,
    topic_of,
    topics,
)

FREE = BudgetSettings()


class Says:
    """A validator that gives one verdict for the queries it names, and a pass for the others; it notes what it saw."""

    fingerprint = "1"

    def __init__(self, name: str, cost: Cost = Cost.TOPIC, *, rejects: str = "", edits: str = "") -> None:
        self.name, self.cost, self._rejects, self._edits = name, cost, rejects, edits
        self.saw: list[str] = []

    def __call__(self, topic):
        self.saw.append(topic.query)
        if topic.query == self._rejects:
            return topic, [Verdict(self.name, "topic", "reject", f"{self.name} rejects", "evidence")]
        if topic.query == self._edits:
            return replace(topic, attributes={"edited": "yes"}), [Verdict(self.name, "topic", "edit", "mended")]
        return topic, [Verdict(self.name, "topic", "pass")]


class Asks(Says):
    """The same, after a question to the model."""

    async def __call__(self, topic, ask):
        await ask(prompt_for(seed(int(topic.seed_id[1:])), 99), Line)
        return super().__call__(topic)


def partition(count: int, traps: dict[int, str] | None = None, index: int = 0, **screened: Verdict) -> Partition:
    return Partition(index, tuple(Numbers(count, traps or {})), screened)


def flowing(tmp_path, *, recipe=None, validators=(), model=None, budget=FREE, **runtime) -> Flow:
    parts = build(opened(tmp_path), model=model or Echo(delay_s=0.002), validators=tuple(validators))
    parts = replace(parts, recipe=recipe or parts.recipe)
    return Flow(parts, RuntimeSettings(**runtime), Budget(budget), "me", log_seeds=False)


async def make(flow: Flow, work: Partition, poison_seeds=()) -> None:
    await flow.start(work, dict(poison_seeds))
    await flow.make(work.index)


def made(tmp_path, work: Partition, *, poison_seeds=(), **settings) -> list[Topic]:
    async def run() -> None:
        flow = flowing(tmp_path, **settings)
        await make(flow, work, poison_seeds)
        await flow.commit(work.index)

    asyncio.run(run())
    return topics(tmp_path)


def test_topics_stand_in_the_order_of_their_seeds_whatever_finishes_first(tmp_path):
    found = made(tmp_path, partition(60), window=60)
    assert [topic.seed_id for topic in found] == [seed(i).id for i in range(60)]
    assert {topic.status for topic in found} == {"accepted"}


def test_a_recipe_that_raises_fails_its_seed_and_no_other(tmp_path):
    first, bad, last = made(tmp_path, partition(3, {1: "raise"}))
    assert (first.status, last.status) == ("accepted", "accepted")
    assert (bad.status, bad.reason) == ("failed", "recipe_error")
    assert bad.detail == "recipe one: ValueError: a broken recipe, <object object>"
    assert len(bad.calls) == 1


def test_a_rejected_seed_is_a_row_with_its_reason_and_its_calls(tmp_path):
    _, no = made(tmp_path, partition(2, {1: "reject"}))
    assert (no.status, no.reason, no.detail, len(no.calls)) == ("rejected", "unsuitable", "it says so", 1)


def test_a_screened_seed_is_a_row_with_that_verdict_and_asks_nothing(tmp_path):
    verdict = Verdict("duplicates", "topic", "reject", "duplicate", "of s000000")
    kept, no = made(tmp_path, partition(2, s000001=verdict))
    assert (no.status, no.reason, no.detail, no.verdicts, no.calls) == (
        "rejected", "duplicate", "of s000000", (verdict,), (),
    )  # fmt: skip
    assert kept.status == "accepted"


def test_a_poison_seed_fails_without_being_tried(tmp_path):
    ending = SeedOutcome("failed", "crashed_worker", "it did")
    found = made(tmp_path, partition(2, {0: "exit"}), poison_seeds={"s000000": ending}, validators=[Traps()])
    assert [(t.status, t.reason, len(t.calls)) for t in found] == [("failed", "crashed_worker", 0), ("accepted", "", 1)]


def test_validators_run_cheap_to_dear_and_after_a_rejection_only_those_that_ask_no_model(tmp_path):
    dear, cheap, middle = Asks("dear", Cost.MODEL), Says("cheap", rejects="bad"), Says("middle", Cost.INDEX)
    bad, good = made(tmp_path, partition(2, {0: "bad"}), validators=[dear, cheap, middle])
    assert [verdict.validator for verdict in good.verdicts] == ["cheap", "middle", "dear"]
    assert [verdict.validator for verdict in bad.verdicts] == ["cheap", "middle"]
    assert (bad.status, bad.reason, bad.detail) == ("rejected", "cheap rejects", "evidence")
    assert (len(bad.intents), len(bad.passages), len(bad.judgments)) == (1, 1, 1)
    assert (len(bad.calls), len(good.calls)) == (1, 2)
    assert dear.saw == ["query 1"]


def test_the_first_rejecting_verdict_gives_the_reason_and_an_edit_stays(tmp_path):
    validators = [Says("a", edits="bad"), Says("b", rejects="bad"), Says("c", rejects="bad")]
    [topic] = made(tmp_path, partition(1, {0: "bad"}), validators=validators)
    assert (topic.reason, topic.attributes) == ("b rejects", {"edited": "yes"})
    assert [verdict.outcome for verdict in topic.verdicts] == ["edit", "reject", "reject"]


def test_a_validator_that_raises_fails_its_topic_with_all_that_was_made(tmp_path):
    validators = [Says("a"), Traps(), Says("z")]
    found = made(tmp_path, partition(4, {1: "shout", 2: "vanish"}), validators=validators)
    assert [topic.status for topic in found] == ["accepted", "failed", "failed", "accepted"]
    assert {topic.reason for topic in found[1:3]} == {"validator_error"}
    assert found[1].detail == "validator traps: RuntimeError: the validator broke"
    assert [(len(t.calls), len(t.intents), [v.validator for v in t.verdicts]) for t in found[1:3]] == [
        (1, 1, ["a"])
    ] * 2


def test_a_seed_that_takes_too_long_fails_with_reason_timeout(tmp_path):
    found = made(tmp_path, partition(3, {1: "sleep"}), validators=[Sleeps("x", Cost.MODEL)], seed_timeout_s=2)
    assert [(topic.status, topic.reason) for topic in found] == [
        ("accepted", ""),
        ("failed", "timeout"),
        ("accepted", ""),
    ]
    assert "runtime.seed_timeout_s" in found[1].detail


@pytest.mark.parametrize("text", ["\ud800", "fine \udfff"])
def test_a_topic_that_no_shard_can_hold_is_a_failed_row(tmp_path, text):
    found = made(tmp_path, partition(3, {1: text}))
    assert [(topic.status, topic.reason) for topic in found] == [
        ("accepted", ""), ("failed", "unstorable"), ("accepted", ""),
    ]  # fmt: skip
    assert found[1].seed_id == "s000001"
    assert len(found[1].calls) == 1


class Swallows(OneTopic):
    """A recipe that catches whatever its question raises, and makes a topic all the same."""

    async def __call__(self, seed, ask):
        try:
            return await super().__call__(seed, ask)
        except BudgetSpentError:
            return [topic_of(seed, "made without an answer")]


class Several(OneTopic):
    """A recipe whose number of topics is in the query."""

    async def __call__(self, seed, ask):
        [topic] = await super().__call__(seed, ask)
        count = int(seed.query)
        return [replace(topic, id=f"{topic.id}-{i}", query=f"topic {i}") for i in range(count)]


class Strays(OneTopic):
    """A recipe whose topic names another seed."""

    async def __call__(self, seed, ask):
        return [replace(topic_of(seed), seed_id="another")]


class Sleeps(Says):
    """A judge that takes an hour over the query `sleep`."""

    async def __call__(self, topic, ask):
        await asyncio.sleep(3600 if topic.query == "sleep" else 0.1)
        return super().__call__(topic)


class Unreliable(Says):
    """A judge that stops the run."""

    async def __call__(self, topic, ask):
        raise JudgeUnreliableError("3 of 4 canaries were answered wrongly")


@pytest.mark.parametrize("recipe", [OneTopic(), Swallows()])
def test_a_spent_budget_stops_the_partition_and_commits_nothing(tmp_path, recipe):
    with pytest.raises(BudgetSpentError, match="2 of 2 calls are used"):
        made(tmp_path, partition(5), recipe=recipe, budget=BudgetSettings(calls=2))
    assert topics_or_none(tmp_path) == []


def test_an_unreliable_judge_stops_the_partition(tmp_path):
    with pytest.raises(JudgeUnreliableError, match="3 of 4 canaries"):
        made(tmp_path, partition(5), validators=[Unreliable("judge", Cost.MODEL)])
    assert topics_or_none(tmp_path) == []


def topics_or_none(out):
    from foil.datasets_out.commits.log import CommitLog

    return topics(out) if CommitLog(out).partitions() else []


def test_a_seed_may_make_several_topics_or_none_and_each_is_judged_alone(tmp_path):
    validators = [Says("a", rejects="topic 1")]
    found = made(tmp_path, partition(2, {0: "3", 1: "0"}), recipe=Several(), validators=validators)
    assert [(topic.status, topic.reason) for topic in found] == [
        ("accepted", ""), ("rejected", "a rejects"), ("accepted", ""), ("rejected", "no_topic"),
    ]  # fmt: skip
    assert [len(topic.calls) for topic in found] == [1, 1, 1, 1]


def test_a_topic_that_names_another_seed_is_an_error_of_its_recipe(tmp_path):
    [topic] = made(tmp_path, partition(1), recipe=Strays())
    assert (topic.status, topic.reason, topic.seed_id) == ("failed", "recipe_error", "s000000")


def test_two_topics_of_one_id_are_both_rows_and_the_later_one_failed(tmp_path):
    class Twins(Several):
        async def __call__(self, seed, ask):
            return [topic_of(seed), topic_of(seed)]

    found = made(tmp_path, partition(1), recipe=Twins())
    assert [(topic.status, topic.reason) for topic in found] == [("accepted", ""), ("failed", "unstorable")]


def test_the_end_of_one_partition_overlaps_the_start_of_the_next_and_the_window_holds(tmp_path):
    class Counting(Echo):
        now = most = 0
        seen: tuple[str, ...] = ()

        async def complete(self, request):
            begun.set()
            self.now += 1
            self.most = max(self.most, self.now)
            self.seen += (request.messages[0].content,)
            reply = await super().complete(request)
            self.now -= 1
            return reply

    async def make_two(model) -> None:
        flow = flowing(tmp_path, model=model, window=6)
        first = partition(10)
        second = replace(partition(20), index=1, seeds=partition(20).seeds[10:])
        making = asyncio.create_task(make(flow, first))
        await begun.wait()
        await asyncio.gather(making, make(flow, second))

    model, begun = Counting(delay_s=0.01), asyncio.Event()
    asyncio.run(make_two(model))
    assert model.most == 6
    assert list(model.seen) == sorted(model.seen)


def test_draining_finishes_what_is_in_flight_and_starts_nothing_more(tmp_path):
    class Heard(Echo):
        async def complete(self, request):
            asked.set()
            return await super().complete(request)

    async def drained() -> list[object]:
        flow = flowing(tmp_path, model=Heard(delay_s=0.1), window=4)
        makes = [asyncio.create_task(make(flow, partition(3, index=3)))]
        await asked.wait()
        makes.append(asyncio.create_task(make(flow, partition(50, index=50))))
        await asyncio.sleep(0.02)
        await flow.drain()
        return await asyncio.gather(*makes, return_exceptions=True)

    asked = asyncio.Event()
    complete, stopped = asyncio.run(drained())
    assert complete is None
    assert isinstance(stopped, DrainedError)


def test_a_partition_has_started_once_its_last_seed_has_a_place(tmp_path):
    """Three seeds wait for one that holds the only place: the first two of them must be done before the last begins."""
    model = Echo(delay_s=0.02)

    async def start() -> tuple[int, int]:
        flow = flowing(tmp_path, model=model, window=1)
        await flow.start(partition(3), {})
        await asyncio.sleep(0)  # the last task begins
        started = (await flow.live()).in_flight
        await flow.make(0)
        return started, (await flow.live()).in_flight

    assert asyncio.run(start()) == (1, 0)


def test_another_writers_entry_is_the_truth(tmp_path):
    class Late:
        """The store, where a writer of other topics was first."""

        def __init__(self, store):
            self.store = store

        def __getattr__(self, name):
            return getattr(self.store, name)

        def commit(self, index, topics, facts):
            self.store.commit(index, [replace(topic, detail="another writer's") for topic in topics], facts)
            return self.store.commit(index, topics, facts)

    async def commit() -> object:
        flow = flowing(tmp_path)
        flow._parts = replace(flow._parts, store=Late(flow._parts.store))
        with pytest.raises(CommitLostError, match="first, and differently"):
            flow._parts.store.commit(1, [topic_of(seed(1))], {})
        await make(flow, partition(2))
        return await flow.commit(0)

    assert asyncio.run(commit()).seeds["accepted"] == 2
    assert [topic.detail for topic in topics(tmp_path)] == ["another writer's"] * 3


def test_waiting_for_a_model_takes_no_time_of_the_seed(tmp_path):
    found = made(tmp_path, partition(3), model=Echo(delay_s=2.0), recipe=OneTopic(asks=3), seed_timeout_s=1.0)
    assert [topic.status for topic in found] == ["accepted"] * 3


def test_a_seed_that_dawdles_between_two_waits_still_times_out(tmp_path):
    class Dawdles(OneTopic):
        async def __call__(self, seed, ask):
            await ask(prompt_for(seed, 0), Line)
            await asyncio.sleep(0.4)
            await asyncio.gather(ask(prompt_for(seed, 1), Line), ask(prompt_for(seed, 2), Line))
            await asyncio.sleep(0.4)
            return [topic_of(seed)]

    [topic] = made(tmp_path, partition(1), model=Echo(delay_s=0.3), recipe=Dawdles(), seed_timeout_s=0.6)
    assert (topic.status, topic.reason) == ("failed", "timeout")


def test_an_ask_that_is_left_behind_takes_no_time_of_the_validators(tmp_path):
    class Impatient(OneTopic):
        async def __call__(self, seed, ask):
            asks = [asyncio.create_task(ask(prompt_for(seed, i), Line)) for i in range(2)]
            await asyncio.wait(asks, timeout=0.05)
            for one in asks:
                one.cancel()
            return [topic_of(seed)]

    slow = Sleeps("slow", Cost.MODEL)

    [topic] = made(tmp_path, partition(1), model=Echo(delay_s=30.0), recipe=Impatient(), validators=[slow])
    assert topic.status == "accepted"


def test_two_runs_over_different_seeds_do_not_share_a_partition(tmp_path):
    """Both read their seeds before either committed; the second learns it at its commit."""

    async def commit(digests: str) -> None:
        flow = flowing(tmp_path)
        work = replace(partition(2, {0: f"query {digests}"}), digests=digests, stream=digests)
        await make(flow, work)
        await flow.commit(0)

    asyncio.run(commit("aaaaaaaabbbbbbbb"))
    with pytest.raises(SeedsChangedError, match=r"another run committed partition 0 of .* with other seeds"):
        asyncio.run(commit("aaaaaaaacccccccc"))
    assert topics(tmp_path)[0].query == "query aaaaaaaabbbbbbbb"
