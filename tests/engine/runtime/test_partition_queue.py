"""Partitions: cut by position, with every id once."""

import pytest

from engine.errors import UsageError
from engine.flow.limits import Limits
from engine.runtime.partition_queue import split_into_partitions
from tests.support.small_parts import (
    seed,
)


def test_two_seeds_of_one_id_are_refused():
    with pytest.raises(UsageError, match="two seeds of the corpus 'letters' have the id 's000003'"):
        list(split_into_partitions([seed(3), seed(3)], (), Limits()))
