"""Who asks a model again, how often, and how long it waits in between: the one owner of retries (tenacity).

    429                                       waits what Retry-After says, backs off if nothing or 0; costs no attempt
    5xx, timeout, reset, broken body          the same with jitter; at most `attempts` sends
    a sampled reply that was thrown away      is drawn anew, twice at most
    400-class                                 is not tried again
    no endpoint up for `outage_s`             ends the run (engine.errors.ModelOutageError); no seed fails by it

Promise: while a request waits it holds no place among those in flight; no retry is begun later than `deadline_s` after
the first failure, by the monotonic clock, unless nothing at all has passed since: that is an outage, and fails nobody.
Price: none for a request that succeeds at once, since tenacity comes in after a failure.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type
from tenacity.wait import wait_random_exponential

from foil.engine.errors import RETRYABLE, DiscardedReplyError, ModelError, RateLimitedError, TransientModelError
from foil.engine.model_traits import Patience
from foil.engine.protocols import Model
from foil.engine.requests import Reply, Request
from foil.engine.telemetry.metrics import RETRIES

T = TypeVar("T")
_BACKOFF = wait_random_exponential(multiplier=0.5, max=30)
LONGEST_PAUSE_S = 120.0
"""A longer Retry-After is a pause of the provider: the endpoint rests (engine.models.pacing), not this request."""
_SAMPLES = 3
"""Samples of one reply that a provider may throw away."""
_JITTER = 0.1
"""A pause that a provider asks for is stretched by up to this share, so that those who wait do not return as one."""


async def complete(model: Model, request: Request) -> Reply:
    """The model's reply, asked for as often as its `patience` allows; `attempts` and `unsure` are over all sends."""
    try:
        return await model.complete(request)
    except TransientModelError as error:
        failure = error
    return await _complete_after(failure, model, request)


async def _complete_after(failure: TransientModelError, model: Model, request: Request) -> Reply:
    """The reply after a first send that failed."""
    tries, failures = _Tries(model.traits.patience), [failure]

    async def send() -> Reply:
        if failures:
            raise failures.pop()
        return await model.complete(request)

    try:
        reply: Reply = await _retrying(tries)(send)
    except ModelError as error:
        error.unsure = error.unsure or tries.unsure > 0
        raise
    return replace(reply, attempts=reply.attempts + tries.failed, unsure=reply.unsure + tries.unsure)


async def with_patience(call: Callable[[], Awaitable[T]], patience: Patience) -> T:
    """What the call gives, made as often as the patience allows: for what is no Request, such as embeddings."""

    async def attempt() -> T:  # tenacity awaits coroutine functions alone
        return await call()

    return await _retrying(_Tries(patience))(attempt)


def _retrying(tries: "_Tries") -> AsyncRetrying:
    return AsyncRetrying(
        retry=retry_if_exception_type(RETRYABLE), wait=tries.pause, stop=tries.enough, sleep=asyncio.sleep, reraise=True
    )


class _Tries:
    """The failed sends of one request, and what follows from them."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self.failed = self.unsure = self._blamed = self._samples = 0
        self._began = self._silent_s = 0.0

    def pause(self, state: RetryCallState) -> float:
        """Notes a failed send; the seconds to wait before the next. tenacity asks this before `enough`."""
        error = state.outcome.exception() if state.outcome else None
        assert isinstance(error, TransientModelError)
        self._began = self._began or asyncio.get_running_loop().time()
        self.failed += 1
        RETRIES.record(1)
        self.unsure += error.unsure
        self._silent_s = error.silent_s
        self._samples += isinstance(error, DiscardedReplyError)
        self._blamed += not isinstance(error, RateLimitedError | DiscardedReplyError)
        if error.retry_after_s:
            alone = error.retry_after_s if error.retry_after_s <= LONGEST_PAUSE_S else 0.0
            return alone * random.uniform(1.0, 1.0 + _JITTER)
        return _BACKOFF(state)

    def enough(self, state: RetryCallState) -> bool:
        """Whether the request is given up; not while nobody else's passes either."""
        if self._samples >= _SAMPLES:
            return True
        since_s = asyncio.get_running_loop().time() - self._began
        if self._silent_s > since_s:
            return False
        late = since_s + state.upcoming_sleep > self._patience.deadline_s
        return late or self._blamed >= self._patience.attempts
