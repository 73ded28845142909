"""Batches are a pure function of (seed, epoch, step), whatever the number of workers."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from foil.engine.errors import UsageError
from foil.trainer.train.data.sampler import Sampler, epoch_order, mixture, share_of

partitions = st.lists(st.integers(0, 5), min_size=1, max_size=40).map(
    lambda found: np.array(sorted(found), dtype=np.int32)
)


@given(partitions, st.integers(0, 9), st.integers(1, 4), st.integers(1, 8))
def test_an_epoch_holds_no_topic_twice_and_misses_only_its_last_few(partition_of, seed, window, size):
    size = min(size, len(partition_of))
    sampler = Sampler(partition_of, size, seed, window)
    steps = sampler.steps_per_epoch
    drawn = np.concatenate([sampler.batch(steps + step) for step in range(steps)])
    assert len(drawn) == len(set(drawn.tolist())) == steps * size
    assert len(partition_of) - len(drawn) < size


@given(partitions, st.integers(0, 9), st.integers(1, 4), st.lists(st.integers(0, 30), max_size=6))
def test_a_batch_depends_on_its_step_and_not_on_what_was_drawn_before(partition_of, seed, window, before):
    used, fresh = Sampler(partition_of, 1, seed, window), Sampler(partition_of, 1, seed, window)
    for step in before:
        used.batch(step)
    assert np.array_equal(used.batch(7), fresh.batch(7))


@given(partitions, st.integers(1, 12), st.integers(1, 5))
def test_the_shares_of_all_workers_make_up_the_batch_in_order(batch, workers, size):
    shares = [share_of(batch, rank, workers) for rank in range(workers)]
    assert np.array_equal(np.concatenate(shares), batch)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(partitions, st.integers(0, 9), st.integers(1, 4))
def test_a_stretch_of_the_order_touches_one_window_of_partitions_at_a_time(partition_of, seed, window):
    visited = partition_of[epoch_order(partition_of, seed, 0, window)].tolist()
    runs, seen = [], set()
    for partition in visited:
        if partition not in seen and len(seen) == window:
            runs, seen = [*runs, seen], set()
        seen.add(partition)
    everywhere = [*runs, seen]
    assert sum(len(run) for run in everywhere) == len(set(visited))


def test_seeds_and_epochs_differ():
    partition_of = np.zeros(50, dtype=np.int32)
    orders = {tuple(epoch_order(partition_of, seed, epoch, 1)) for seed in (0, 1) for epoch in (0, 1)}
    assert len(orders) == 4


def test_a_batch_of_more_topics_than_there_are_is_refused():
    with pytest.raises(UsageError, match="a batch takes 4 topics and there are 3"):
        Sampler(np.zeros(3, dtype=np.int32), 4, 0, 1)


sizes = st.lists(st.integers(1, 60), min_size=2, max_size=4)


def mixed(counts, weights, size, seed=0):
    """A sampler over sources of so many topics, a partition each."""
    partition_of = np.repeat(np.arange(len(counts)), counts).astype(np.int32)
    sources = np.split(np.arange(len(partition_of)), np.cumsum(counts)[:-1])
    return Sampler(partition_of, size, seed, 4, sources=sources, shares=mixture(weights, counts, 1)), partition_of


@given(sizes, st.data())
def test_every_batch_has_each_source_by_its_share_and_no_topic_twice(counts, data):
    weights = data.draw(st.lists(st.floats(0.1, 10), min_size=len(counts), max_size=len(counts)))
    shares, size = mixture(weights, counts, 1), data.draw(st.integers(1, 24))
    assume(all(count >= size for count in counts))
    sampler, partition_of = mixed(counts, weights, size)
    drawn = [sampler.batch(step) for step in range(30)]
    taken = np.array([np.bincount(partition_of[batch], minlength=len(counts)) for batch in drawn])
    assert all(len(set(batch.tolist())) == size for batch in drawn)
    assert np.abs(taken - size * np.array(shares)).max() < 1 + 1e-6
    assert np.abs(taken.sum(0) - 30 * size * np.array(shares)).max() < 5


@given(st.integers(0, 99), st.lists(st.integers(0, 40), max_size=5))
def test_a_mixed_batch_depends_on_its_step_alone(seed, before):
    used, fresh = (mixed([30, 7, 50], [1, 1, 2], 5, seed)[0] for _ in range(2))
    for step in before:
        used.batch(step)
    assert np.array_equal(used.batch(17), fresh.batch(17))


def test_a_pass_over_a_source_has_all_of_its_topics_whatever_the_others_do():
    sampler, partition_of = mixed([12, 90], [1, 3], 8)
    small = np.concatenate([batch[partition_of[batch] == 0] for batch in map(sampler.batch, range(6))])
    assert sorted(small.tolist()) == list(range(12))


def test_a_source_alone_has_the_batches_that_it_had_before_there_were_mixtures():
    partition_of = np.repeat(np.arange(3), 5).astype(np.int32)
    generator = np.random.default_rng([7, 1])
    window_of = np.repeat(generator.permutation(3) // 2, 5)
    assert np.array_equal(epoch_order(partition_of, 7, 1, 2), np.lexsort((generator.random(15), window_of)))


def test_a_source_smaller_than_its_share_is_refused():
    with pytest.raises(UsageError, match="a batch takes 6 topics and there are 3"):
        mixed([3, 90], [3, 1], 8)
