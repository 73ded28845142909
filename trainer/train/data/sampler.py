"""The topics of each batch: a pure function of (seed, step), so that resuming needs no state but the step.

    topics of each source --shuffled, pass after pass--> its share of every batch

A topic is never split, and a batch is never short: the last few topics of a pass, fewer than the batch wants of their
source, are left out of it. Topics are shuffled within windows of a few partitions, and windows among each other, so
that a batch reads few files however large the set; with one window the shuffle is complete.
Price: 8 bytes a topic for the order of a pass. A resume counts the steps before it again, some 10 microseconds each.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from foil.engine.errors import UsageError

Indices = NDArray[np.int64]

_TURN = (math.sqrt(5) - 1) / 2
"""The golden section: its multiples, modulo 1, fill [0, 1) most evenly."""


class Sampler:
    """Batches over topics whose partitions are `partition_of`, [topics]; the same arguments give the same batches.

    `sources`: the topics of each source, as positions in `partition_of`; none = one source that has all. `shares`: the
    part of the batches that each source makes up; they sum to 1.
    """

    def __init__(
        self,
        partition_of: NDArray[np.int32],
        topics_per_batch: int,
        seed: int,
        window: int,
        *,
        sources: Sequence[Indices] = (),
        shares: Sequence[float] = (1.0,),
    ) -> None:
        sources = sources or [np.arange(len(partition_of))]
        self._edges = topics_per_batch * np.cumsum([0, *shares])
        for topics, needed in zip(sources, np.ceil(np.diff(self._edges) - 1e-9), strict=True):
            _check_size(len(topics), int(needed))
        self.steps_per_epoch = sum(map(len, sources)) // topics_per_batch
        self._size = topics_per_batch
        self._sources = [
            _Source(topics, partition_of[topics], seed, number, window) for number, topics in enumerate(sources)
        ]
        self._next_step = 0

    def batch(self, step: int) -> Indices:
        """The topics of a step, [topics_per_batch], those of the first source first."""
        if step < self._next_step:
            self._next_step = 0
            for source in self._sources:
                source.restart()
        for earlier in range(self._next_step, step):
            self._advance(earlier)
        self._next_step = step + 1
        begins = self._advance(step)
        return np.concatenate([source.read(*begin) for source, begin in zip(self._sources, begins, strict=True)])

    def _advance(self, step: int) -> list[tuple[int, int]]:
        """Moves every source past a step; where each of them began, and how many topics it gives."""
        return [source.advance(count) for source, count in zip(self._sources, self.counts(step), strict=True)]

    def counts(self, step: int) -> list[int]:
        """How many topics a step takes of each source: their shares, rounded now up and now down."""
        edges = np.floor(self._edges + step * _TURN % 1).astype(np.int64)
        edges[0], edges[-1] = 0, self._size
        return [int(count) for count in np.diff(edges)]


class _Source:
    """The topics of one source, in a new order each pass over them."""

    def __init__(self, topics: Indices, partition_of: NDArray[np.int32], seed: int, number: int, window: int) -> None:
        self._topics, self._partition_of, self._window = topics, partition_of, window
        self._seed, self._number = seed, number
        self._order_of, self._order = -1, np.empty(0, dtype=np.int64)
        self.restart()

    def restart(self) -> None:
        self._pass, self._offset = 0, 0

    def advance(self, count: int) -> tuple[int, int]:
        """Takes `count` topics, of the next pass where this one has too few left; where they begin, and the count."""
        if self._offset + count > len(self._topics):
            self._pass, self._offset = self._pass + 1, 0
        self._offset += count
        return self._offset - count, count

    def read(self, begin: int, count: int) -> Indices:
        """The topics that were taken last."""
        if self._order_of != self._pass:
            order = epoch_order(self._partition_of, self._seed, self._pass, self._window, self._number)
            self._order_of, self._order = self._pass, self._topics[order]
        return self._order[begin : begin + count]


def mixture(weights: Sequence[float | None], topics: Sequence[int], temperature: float) -> list[float]:
    """Each source's share of every batch: by its weight, or by its number of topics to the power of 1 / temperature.

    (Temperature sampling, Devlin, multilingual BERT, 2018; Arivazhagan et al., arXiv 1907.05019, section 4.)

    >>> mixture([3, 1], [10, 90], 1), mixture([None, None], [10, 90], 2)
    ([0.75, 0.25], [0.25, 0.75])
    """
    parts = [
        count ** (1 / temperature) if weight is None else weight for weight, count in zip(weights, topics, strict=True)
    ]
    return [part / (sum(parts) or 1.0) for part in parts]


def _check_size(topics: int, needed: int) -> None:
    if topics < max(needed, 1):
        raise UsageError(
            f"a batch takes {needed} topics and there are {topics}; "
            "lower `topics_per_batch` (or `plain_topics`, or the source's `weight`), or make more topics"
        )


def epoch_order(partition_of: NDArray[np.int32], seed: int, epoch: int, window: int, source: int = 0) -> Indices:
    """A permutation of the topics: partitions shuffled, cut into windows of `window`, topics shuffled in each."""
    generator = np.random.default_rng([seed, epoch, source])
    partitions, position = np.unique(partition_of, return_inverse=True)
    window_of = (generator.permutation(len(partitions)) // window)[position]
    order: Indices = np.lexsort((generator.random(len(partition_of)), window_of)).astype(np.int64)
    return order


def share_of(batch: Indices, rank: int, workers: int) -> Indices:
    """The slice of a batch that worker `rank` of `workers` takes; the slices of all workers make up the batch."""
    return np.array_split(batch, workers)[rank]
