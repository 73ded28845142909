"""The book of rates: whatever workers ask, die and forget, no moment leases more than the quota."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.engine.rates.book import LONGEST_S, MARGIN_S, SPARE_S, RateAsk, RateBook, RateLease, rate_key

QUOTA = 100.0
LEASE_S = LONGEST_S + MARGIN_S


@dataclass
class Held:
    """A lease as its worker uses it: from one moment until it is replaced, given back, or over."""

    lease: RateLease
    since: float
    until: float

    def granted(self, since: float, until: float) -> float:
        return self.lease.rates["requests"] * max(0.0, min(self.until, until) - max(self.since, since))


@dataclass
class Workers:
    """Workers of one key and all leases that they ever had."""

    book: RateBook = field(default_factory=RateBook)
    now: float = 0.0
    current: dict[str, Held] = field(default_factory=dict)
    past: list[Held] = field(default_factory=list)
    extras: list[tuple[float, float]] = field(default_factory=list)
    unused: list[tuple[float, float]] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)
    died: Counter[str] = field(default_factory=Counter)

    def act(self, what: str, name: str, amount: float, quota: float = QUOTA) -> None:
        name = f"{name}{self.died[name]}"  # who dies comes back under another name
        held = self.current.get(name)
        running = held if held and held.until > self.now else None
        if what == "wait":
            self.now += amount * LEASE_S
        elif what == "restart":
            self.book = RateBook()
            self.restarts.append(self.now)
        elif what == "die":
            self.current.pop(name, None)
            self.died[name[0]] += 1
        else:
            wanted = {"requests": 2 * QUOTA * amount} if what == "ask" else {}
            unused = running.granted(running.since, self.now) * amount if running else 0.0
            rates = running.lease.rates if running else {}
            ask = RateAsk("key", name, {"requests": quota}, 0.25, rates, wanted, {"requests": 2 * unused})
            self.replace(name, self.book.lease(ask, self.now))
            self.unused.append((self.now, 2 * unused))

    def replace(self, name: str, lease: RateLease) -> None:
        if before := self.current.pop(name, None):
            before.until = min(before.until, self.now)
        if lease.rates:
            held = Held(lease, self.now, self.now + lease.ask_again_s + MARGIN_S)
            self.current[name] = held
            self.past.append(held)
            self.extras.append((self.now, lease.extra["requests"]))

    def rate(self, when: float) -> float:
        return sum(held.lease.rates["requests"] for held in self.past if held.since <= when < held.until)


EVENTS = st.tuples(
    st.sampled_from(["ask", "ask", "ask", "wait", "wait", "die", "give back"]),
    st.sampled_from("abcde"),
    st.floats(0, 1),
)


@given(st.lists(EVENTS, max_size=60))
def test_no_moment_leases_more_than_the_quota_and_no_minute_more_than_that_and_what_is_spare(events):
    workers = Workers()
    for event in events:
        workers.act(*event)
    for moment in {held.since for held in workers.past}:
        assert workers.rate(moment) <= QUOTA * 1.000001
        until = moment + 60
        extra = sum(amount for when, amount in workers.extras if moment <= when < until)
        given_back = sum(amount for when, amount in workers.unused if moment <= when < until)
        assert extra <= given_back + SPARE_S * QUOTA + 1e-6
        assert all(amount >= 0 for _, amount in workers.extras)


@given(st.lists(EVENTS | st.just(("restart", "a", 0.0)), max_size=60))
def test_a_lost_book_costs_one_lease_at_most(events):
    workers = Workers()
    for event in events:
        workers.act(*event)
    for moment in {held.since for held in workers.past}:
        granted = sum(held.granted(moment, moment + 60) for held in workers.past)
        restarts = sum(moment - LEASE_S < when < moment + 60 for when in workers.restarts)
        assert granted <= QUOTA * (60 + LEASE_S * restarts) * 1.000001


def test_a_lost_book_changes_nothing_for_workers_that_hold_leases():
    workers = Workers()
    for name, wanted in (("a", 0.45), ("b", 0.05), ("a", 0.45), ("b", 0.05), ("a", 0.45)):
        workers.act("ask", name, wanted)
        workers.now += 1.0
    before = {name: held.lease.rates for name, held in workers.current.items()}
    workers.act("restart", "a", 0.0)
    for name in "ba":
        workers.act("ask", name, 0.5)
    assert {name: held.lease.rates for name, held in workers.current.items()} == before


@pytest.mark.parametrize(
    ("wants", "rates"),
    [
        ({"a": 1.0, "b": 0.05}, {"a0": 90.0, "b0": 10.0}),  # b gets what it wants, a the rest
        ({"a": 1.0, "b": 1.0, "c": 0.1}, {"a0": 40.0, "b0": 40.0, "c0": 20.0}),
        ({"a": 0.1, "b": 0.2}, {"a0": 40.0, "b0": 60.0}),  # what nobody wants is spread
    ],
)
def test_small_wants_are_met_and_the_rest_is_shared(wants, rates):
    workers = Workers()
    for _ in range(4):
        for name, wanted in wants.items():
            workers.act("ask", name, wanted)
    assert {name: held.lease.rates["requests"] for name, held in workers.current.items()} == pytest.approx(rates)


def test_the_smallest_quota_that_a_job_names_holds_for_all():
    workers = Workers()
    for _ in range(3):
        workers.act("ask", "a", 1.0)
        workers.act("ask", "b", 1.0, QUOTA / 2)
    assert workers.rate(workers.now) == pytest.approx(QUOTA / 2)


def test_a_dead_worker_holds_its_part_until_its_lease_ends():
    workers = Workers()
    for name in "abab":
        workers.act("ask", name, 1.0)
    workers.act("die", "b", 0.0)
    shares = defaultdict(float)
    while workers.now < 2 * LEASE_S:
        workers.now += 1.0
        workers.act("ask", "a", 1.0)
        shares[workers.now] = workers.current["a0"].lease.rates["requests"]
    assert shares[1.0] == pytest.approx(QUOTA / 2)
    assert shares[LEASE_S + 1] == pytest.approx(QUOTA)


def test_a_key_is_named_by_endpoint_model_and_place_of_the_api_key():
    one = rate_key("https://api.example.com/v1", "m", "${KEY}")
    assert one == rate_key("https://api.example.com/v1/", "m", "${KEY}")
    others = {
        rate_key("https://b.example.com/v1", "m", "${KEY}"),
        rate_key("https://api.example.com/v1", "n", "${KEY}"),
    }
    assert len(one) == 16
    assert len({one, *others, rate_key("https://api.example.com/v1", "m", "${OTHER}")}) == 4
