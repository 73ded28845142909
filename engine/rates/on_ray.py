"""The book of rates of a Ray cluster: one actor that all jobs of the cluster find by its name.

Promise: the first worker that asks starts it; Ray restarts it when it dies, with an empty book (engine.rates.book says
what that changes). It claims no CPU and ends with the cluster, not with a job. Price: one process in a cluster; an ask
is one call of an actor.
"""

import asyncio
import os
import time
from typing import Any

import ray
from ray.exceptions import RayError

from foil.engine.errors import FoilError
from foil.engine.rates.book import RateAsk, RateBook, RateLease

NAME, NAMESPACE = "foil-rates", "foil"
_ASKS_AT_ONCE = 1_000
_current: dict[str, Any] = {}


class _RatesActor:
    """The book as an actor."""

    def __init__(self) -> None:
        self._book = RateBook()

    async def lease(self, ask: RateAsk) -> RateLease:
        return self._book.lease(ask, time.monotonic())

    async def pid(self) -> int:
        """The process that keeps the book."""
        return os.getpid()


async def ask_cluster(ask: RateAsk) -> RateLease:
    """A lease from the cluster's book. Raises FoilError where none can be had now."""
    try:
        if "actor" not in _current:
            _current["actor"] = await asyncio.to_thread(_find_or_start)
        lease: RateLease = await _current["actor"].lease.remote(ask)
    except (RayError, ValueError) as error:  # ValueError: the name is gone
        _current.clear()
        raise FoilError(f"{NAME}: {str(error).splitlines()[0][:200]}") from None
    return lease


def _find_or_start() -> Any:
    actor: Any = ray.remote(_RatesActor)
    return actor.options(
        name=NAME,
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        num_cpus=0,
        max_restarts=-1,
        max_task_retries=0,
        max_concurrency=_ASKS_AT_ONCE,
    ).remote()
