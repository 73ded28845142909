"""The seed stream: cut by position, every id once, and the same in every session of a run."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.engine.errors import SeedsChangedError, UsageError
from foil.engine.flow.limits import Limits
from foil.engine.runtime import seed_stream
from foil.engine.runtime.seed_stream import PastStream, SeedRecord, SeenIds, split_into_partitions
from tests.support.small_parts import seed


def test_two_seeds_of_one_id_are_refused():
    with pytest.raises(UsageError, match="two seeds of the corpus 'letters' have the id 's000003'"):
        list(split_into_partitions([seed(3), seed(3)], (), Limits()))


def test_seeds_of_two_partitions_with_one_id_are_refused():
    seeds = [*map(seed, range(20)), seed(3)]
    with pytest.raises(UsageError, match=r"the id 's000003', the second at position 20; ids must be unique"):
        list(split_into_partitions(seeds, (), Limits(partition_seeds=8)))


@given(st.lists(st.integers(0, 300), max_size=400))
def test_seen_ids_knows_what_is_new(numbers):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seed_stream, "_RECENT_IDS", 16)
        ids, known = SeenIds(), set()
        for number in numbers:
            assert ids.add(str(number)) is (number not in known)
            known.add(number)


def test_nothing_is_made_before_all_partitions_that_were_paid_for_agree():
    limits = Limits(partition_seeds=4)
    partitions = list(split_into_partitions([*map(seed, range(16))], (), limits))
    other = [*map(seed, range(16))]
    other[13] = seed(1000)
    past = PastStream({}, {3: partitions[3].digests}, None, ends=True)
    with pytest.raises(SeedsChangedError, match="number 1 of partition 3, 's001000' since replies for it were paid"):
        next(past.check(split_into_partitions(other, (), limits)))
    assert [p.index for p in past.check(iter(partitions))] == [0, 1, 2, 3]


@given(st.integers(1, 40), st.integers(1, 9), st.sets(st.integers(0, 12)), st.booleans(), st.data())
def test_the_past_lets_the_same_stream_through_and_stops_every_other(seeds, size, committed, planned, data):
    """Every partition that is not committed comes out once, in order; any other stream ends in a refusal first."""
    limits = Limits(partition_seeds=size)
    partitions = list(split_into_partitions([*map(seed, range(seeds))], (), limits))
    records = {p.index: SeedRecord(p.digests, p.stream) for p in partitions if p.index in committed}
    plan = {"seeds": seeds, "partitions": len(partitions), "stream": partitions[-1].stream} if planned else None
    past = PastStream(records, {}, plan, ends=True)
    made = [p.index for p in past.check(iter(partitions)) if p.index not in committed]
    assert made == [p.index for p in partitions if p.index not in committed]
    known = seeds if planned else min(seeds, (max(records, default=-1) + 1) * size)
    if not known:
        return
    place = data.draw(st.integers(0, known - 1))
    other = [*map(seed, range(seeds))]
    match data.draw(st.sampled_from(["change", "remove", "insert"])):
        case "change":
            other[place] = replace(other[place], licence="other")
        case "remove":
            del other[place]
        case "insert":
            other.insert(place, seed(1000))
    to_make = (p for p in past.check(split_into_partitions(other, (), limits)) if p.index not in committed)
    with pytest.raises(SeedsChangedError):
        next(to_make)
