"""Two requests of one seed side by side, so that the outcome does not depend on which ends first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

First = TypeVar("First")
Second = TypeVar("Second")


async def together(first: Awaitable[First], second: Awaitable[Second]) -> tuple[First, Second]:
    """Both results. Where one fails the other is still awaited, and the first failure in this order is raised: a row
    that says why a seed failed then holds the same calls in every run.
    """
    one, other = await asyncio.gather(first, second, return_exceptions=True)
    if isinstance(one, BaseException):
        raise one
    if isinstance(other, BaseException):
        raise other
    return one, other
