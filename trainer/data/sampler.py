"""The topics of each batch: a pure function of (seed, epoch, step), so that resuming needs no state but the step.

A topic is never split, and a batch is never short: the last few topics of an epoch are left out of it. Topics are
shuffled within windows of a few partitions, and windows among each other, so that a batch reads few files however large
the set; with one window the shuffle is complete. Price: 8 bytes a topic for the order of an epoch.
"""

import numpy as np
from numpy.typing import NDArray

from engine.errors import UsageError

Indices = NDArray[np.int64]


class Sampler:
    """Batches over topics whose partitions are `partition_of`, [topics]; the same arguments give the same batches."""

    def __init__(self, partition_of: NDArray[np.int32], topics_per_batch: int, seed: int, window: int) -> None:
        if len(partition_of) < topics_per_batch:
            raise UsageError(
                f"a batch takes {topics_per_batch} topics and there are {len(partition_of)}; "
                "lower `topics_per_batch` (or `plain_topics`), or make more topics"
            )
        self.steps_per_epoch = len(partition_of) // topics_per_batch
        self._partition_of, self._size, self._seed, self._window = partition_of, topics_per_batch, seed, window
        self._epoch, self._order = -1, np.empty(0, dtype=np.int64)

    def batch(self, step: int) -> Indices:
        """The topics of a step counted over all epochs, [topics_per_batch]."""
        epoch, offset = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._order, self._epoch = epoch_order(self._partition_of, self._seed, epoch, self._window), epoch
        return self._order[offset * self._size : (offset + 1) * self._size]


def epoch_order(partition_of: NDArray[np.int32], seed: int, epoch: int, window: int) -> Indices:
    """A permutation of the topics: partitions shuffled, cut into windows of `window`, topics shuffled in each."""
    generator = np.random.default_rng([seed, epoch])
    partitions, position = np.unique(partition_of, return_inverse=True)
    window_of = (generator.permutation(len(partitions)) // window)[position]
    order: Indices = np.lexsort((generator.random(len(partition_of)), window_of)).astype(np.int64)
    return order


def share_of(batch: Indices, rank: int, workers: int) -> Indices:
    """The slice of a batch that worker `rank` of `workers` takes; the slices of all workers make up the batch."""
    return np.array_split(batch, workers)[rank]
