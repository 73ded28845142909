"""How many broken inputs a fuzz test tries: few in `make test`, many times as many in `make test-long`."""

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings


def fuzzed(inputs: int) -> Callable[[Any], Any]:
    """Marks a hypothesis test as a fuzz test of so many inputs, times `FOIL_FUZZ` (1 if it is not set)."""
    many = settings(max_examples=inputs * int(os.environ.get("FOIL_FUZZ", "1")))

    def mark(test: Any) -> Any:
        return pytest.mark.fuzz(many(test))

    return mark
