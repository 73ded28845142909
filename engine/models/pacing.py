"""Which endpoint takes a request, and when: the one queue before the network.

    request -> EndpointPool.acquire -> the endpoint of its seed, or the least loaded -> a RequestSlot -> leave(outcome)
                  waits while every endpoint is full, paced, paused or broken

An endpoint takes a request if it has room, if its requests and tokens a minute allow it (from the settings, else from
x-ratelimit-* headers), if the rate that its 429s taught does (engine.models.sending.learnt_rate), and if its circuit
breaker is closed. An open breaker lets one request through at a time, ever less often; the one that probes is not to
blame if that fails. A 429 neither opens nor closes one; it closes an open one that is probed.

Promise: first come, first served; all times are of the event loop's monotonic clock; requests a minute never pass the
setting by more than half a second's worth. Without an endpoint for `outage_s`, all who wait get ModelOutageError: where
breakers are open so long, or nothing but failures and 429s came back (engine.models.pacing).
Price: a few microseconds a request; no task, one timer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, log

import xxhash

from foil.engine.errors import ModelOutageError, TransientModelError
from foil.engine.models.limits import Concurrency, SendOutcome
from foil.engine.models.reading import header_number
from foil.engine.models.retry import LONGEST_PAUSE_S
from foil.engine.models.sending.learnt_rate import LearntRate
from foil.engine.rates.bucket import Bucket, Rate
from foil.engine.telemetry.metrics import (
    CONCURRENCY_LIMIT,
    ENDPOINT_BREAKER_OPEN,
    LEARNT_RATE,
    REQUEST_SECONDS,
    REQUESTS,
    REQUESTS_IN_FLIGHT,
)

FAILED_IN_A_ROW = 10
_FEW = 8
_PROBES_S = (3.0, 6.0, 12.0, 15.0)
_SPILL = 1.5
_NEVER = float("inf")


class FewAreStuckError(ModelOutageError):
    """An outage that a handful of requests alone may have caused: each fails whenever it is sent."""


class Breaker:
    """Closed while an endpoint answers, open after failures in a row; then it is probed ever less often."""

    def __init__(self, failures: int = FAILED_IN_A_ROW) -> None:
        self.opened: float | None = None
        self._allowed = min(max(failures, 1), FAILED_IN_A_ROW)
        self._failures = self._probes = 0
        self._next = _NEVER
        self._probing = False

    def ready_at(self) -> float:
        """When it lets a request through: 0 if closed."""
        if self.opened is None:
            return 0.0
        return _NEVER if self._probing else self._next

    def probe(self) -> bool:
        """Whether the request now let through is a probe."""
        self._probing = self.opened is not None
        return self._probing

    def ended(self, now: float, *, worked: bool, probe: bool, pause_s: float = 0.0) -> None:
        """Notes how a request ended; one that was sent before the breaker opened can only close it.

        `pause_s`: no probe goes sooner.
        """
        if probe:
            self._probing = False
        if worked:
            self.opened, self._failures, self._probes, self._probing = None, 0, 0, False
            return
        self._failures += 1
        if self.opened is None and self._failures >= self._allowed:
            self.opened, self._next = now, now + max(pause_s, _PROBES_S[0])
        elif probe:
            self._probes += 1
            self._next = now + max(pause_s, _PROBES_S[min(self._probes, len(_PROBES_S) - 1)])

    def abandoned(self, *, probe: bool) -> None:
        """A request was given up before it ended."""
        if probe:
            self._probing = False


class Endpoint:
    """The state of one URL, as far as pacing goes. `failures` in a row open its breaker, FAILED_IN_A_ROW at most.

    `label` names it in metrics.
    """

    def __init__(
        self,
        name: str,
        weight: float,
        most: int,
        rpm: float | None,
        tpm: float | None,
        *,
        failures: int = FAILED_IN_A_ROW,
        label: str = "other",
    ) -> None:
        self.name, self.weight, self.label = name, weight, label
        self.concurrency, self.breaker = Concurrency(most), Breaker(failures)
        self.requests: Rate = Bucket(rpm)
        self.tokens: Rate = Bucket(tpm)
        self.in_flight = 0
        self.learnt = LearntRate()
        self.paused_until = 0.0
        self.silence = Silence(name)
        self.worked_at, self.slowest_s = -_NEVER, 0.0

    @property
    def load(self) -> float:
        """What balancing compares: requests in flight by weight."""
        return (self.in_flight + 1) / self.weight

    def ready_at(self, tokens: int, now: float) -> float:
        """When a request of so many tokens may go; infinity if only the end of another one can tell."""
        if self.in_flight >= self.concurrency.limit:
            return _NEVER
        paced = now + max(self.requests.wait(1, now), self.tokens.wait(tokens, now), self.learnt.wait(now))
        return max(paced, self.paused_until, self.breaker.ready_at())

    def down_until(self, now: float, outage_s: float) -> float:
        """When it will have been down for `outage_s`; infinity if it is up, now if its pause is longer than that."""
        if self.paused_until - now > outage_s or self.silence.seconds() >= outage_s:
            return now
        return _NEVER if self.breaker.opened is None else self.breaker.opened + outage_s

    def ended(self, slot: RequestSlot, now: float, outcome: SendOutcome, failure: TransientModelError | None) -> None:
        """Learns from the end of a request. One that asks for a long pause rests the whole endpoint at once."""
        limited, pause_s = outcome == "limited", failure.retry_after_s if failure else None
        if outcome == "worked":
            self.concurrency.worked(now, now - slot.since, self.in_flight)
            self.slowest_s = max(self.slowest_s, now - slot.since)
            self.revive(now)
        else:
            self.silence.lasts(slot.since, now, failure, limited=limited)
        if outcome == "failed" or slot.probe:
            self.breaker.ended(now, worked=outcome != "failed", probe=slot.probe, pause_s=pause_s or 0.0)
        self.learnt.ended(now, slot.number, slot.since, refused=limited, pause_s=pause_s)
        if pause_s is not None and pause_s > LONGEST_PAUSE_S:
            self.paused_until = max(self.paused_until, now + pause_s)

    def revive(self, now: float) -> None:
        """Something has passed here: it is up."""
        self.breaker.ended(now, worked=True, probe=False)
        self.silence.broken()
        self.worked_at = now

    def record_end(self, outcome: SendOutcome | None, seconds: float) -> None:
        """Tells the meter how a request ended, and the state that it leaves."""
        REQUESTS.record(1, self.label, outcome or "abandoned")
        if outcome == "worked":
            REQUEST_SECONDS.record(seconds, self.label)
        REQUESTS_IN_FLIGHT.record(self.in_flight, self.label)
        CONCURRENCY_LIMIT.record(self.concurrency.limit, self.label)
        ENDPOINT_BREAKER_OPEN.record(self.breaker.opened is not None, self.label)
        LEARNT_RATE.record(60 * (self.learnt.rate or 0.0), self.label)

    def learn(self, headers: Mapping[str, str], now: float) -> None:
        """Reads x-ratelimit-limit-* and x-ratelimit-remaining-*; what is absent, unreadable or 0 is unknown."""
        for bucket, unit in ((self.requests, "requests"), (self.tokens, "tokens")):
            limit = header_number(headers, f"x-ratelimit-limit-{unit}")
            remaining = header_number(headers, f"x-ratelimit-remaining-{unit}")
            if limit is not None and remaining is not None:
                bucket.learn(limit, remaining, now)


@dataclass(slots=True)
class RequestSlot:
    """The right to have one request in flight at an endpoint. `leave` must be called once."""

    pool: EndpointPool
    endpoint: Endpoint
    tokens: int
    probe: bool
    since: float
    number: int

    def leave(
        self, outcome: SendOutcome | None, tokens: int | None = None, failure: TransientModelError | None = None
    ) -> None:
        """Releases the slot. `outcome` is None where nothing was learnt; `tokens` is what was really used."""
        self.pool.release(self, outcome, tokens, failure)


@dataclass(slots=True)
class _Waiter:
    slot: asyncio.Future[RequestSlot]
    tokens: int
    affinity: str
    avoid: str


class EndpointPool:
    """The endpoints of one model and the queue before them."""

    def __init__(self, endpoints: Sequence[Endpoint], outage_s: float) -> None:
        self.endpoints, self._outage_s = list(endpoints), outage_s
        self._queue: deque[_Waiter] = deque()
        self._timer: asyncio.TimerHandle | None = None

    async def acquire(self, tokens: int, affinity: str = "", avoid: str = "") -> RequestSlot:
        """Waits for a slot for a request of about `tokens`. `avoid` is the endpoint that has just failed it."""
        waiter = _Waiter(asyncio.get_running_loop().create_future(), tokens, affinity, avoid)
        self._queue.append(waiter)
        self.serve()
        try:
            return await waiter.slot
        except asyncio.CancelledError:
            if waiter.slot.done() and not waiter.slot.cancelled() and not waiter.slot.exception():
                waiter.slot.result().leave(None)
            raise

    def release(
        self, slot: RequestSlot, outcome: SendOutcome | None, tokens: int | None, failure: TransientModelError | None
    ) -> None:
        """The end of a request; see RequestSlot.leave."""
        endpoint, now = slot.endpoint, self._now()
        if outcome is None:
            endpoint.breaker.abandoned(probe=slot.probe)
            endpoint.learnt.abandoned(slot.number)
        else:
            endpoint.ended(slot, now, outcome, failure)
        endpoint.in_flight -= 1
        endpoint.record_end(outcome, now - slot.since)
        endpoint.tokens.take((tokens if tokens is not None else 0) - slot.tokens)
        self.serve()

    def serve(self) -> None:
        """Gives slots to the waiting requests, in order, until one must wait; to be called when a rate has changed."""
        now = self._now()
        while self._queue:
            waiter = self._queue[0]
            if waiter.slot.done():
                self._queue.popleft()
                continue
            if (given_up := self._down_until(now)) <= now:
                self._give_up(now)
                return
            endpoint = self._choose(waiter, now)
            if endpoint is None:
                self._wait(waiter, now, given_up)
                return
            self._queue.popleft()
            waiter.slot.set_result(self._occupy(endpoint, waiter.tokens, now))

    def _occupy(self, endpoint: Endpoint, tokens: int, now: float) -> RequestSlot:
        endpoint.in_flight += 1
        REQUESTS_IN_FLIGHT.record(endpoint.in_flight, endpoint.label)
        endpoint.requests.take(1)
        endpoint.tokens.take(tokens)
        return RequestSlot(self, endpoint, tokens, endpoint.breaker.probe(), now, endpoint.learnt.send(now))

    def backlog(self) -> dict[str, float]:
        """The requests that wait, and their tokens."""
        return {"requests": len(self._queue), "tokens": sum(waiter.tokens for waiter in self._queue)}

    def _choose(self, waiter: _Waiter, now: float) -> Endpoint | None:
        ready = [endpoint for endpoint in self.endpoints if endpoint.ready_at(waiter.tokens, now) <= now]
        if len(ready) > 1:
            ready = [endpoint for endpoint in ready if endpoint.name != waiter.avoid]
        if len(ready) < 2:
            return ready[0] if ready else None
        least_loaded = min(ready, key=lambda endpoint: endpoint.load)
        if waiter.affinity:
            home = max(ready, key=lambda endpoint: _draw(endpoint, waiter.affinity))
            if home.load <= _SPILL * least_loaded.load + 2 / home.weight:
                return home
        return least_loaded

    def _down_until(self, now: float) -> float:
        """When every endpoint will have been down for `outage_s`."""
        return max(endpoint.down_until(now, self._outage_s) for endpoint in self.endpoints)

    def silent_s(self) -> float:
        """For how long nothing has passed at any endpoint, though each was asked."""
        return min(endpoint.silence.seconds() for endpoint in self.endpoints)

    def _wait(self, waiter: _Waiter, now: float, given_up: float) -> None:
        """Sets the timer for the first moment that could change anything."""
        at = min(given_up, *(endpoint.ready_at(waiter.tokens, now) for endpoint in self.endpoints))
        if self._timer:
            self._timer.cancel()
        self._timer = None if at == _NEVER else asyncio.get_running_loop().call_at(at, self.serve)

    def _give_up(self, now: float) -> None:
        names = ", ".join(endpoint.name for endpoint in self.endpoints)
        paused = min(max(endpoint.paused_until - now, 0.0) for endpoint in self.endpoints)
        why = f"asks to wait {paused:.0f} s" if paused else f"has let nothing pass for {self._outage_s:g} s"
        last = next((endpoint.silence.why for endpoint in self.endpoints if endpoint.silence.why), "")
        quota = any(endpoint.silence.is_quota for endpoint in self.endpoints)
        few = not quota and len(self._queue) + sum(endpoint.in_flight for endpoint in self.endpoints) <= _FEW
        kind = FewAreStuckError if few else ModelOutageError
        message = (
            f"the endpoint {names} {why}{last and f' ({last})'}; run again when it answers (`patience.outage_s` is how "
            "long to wait)"
        )
        while self._queue:
            waiter = self._queue.popleft()
            if not waiter.slot.done():
                waiter.slot.set_exception(kind(message))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _draw(endpoint: Endpoint, affinity: str) -> float:
    """The endpoint with the highest draw is home: weighted rendezvous hashing, so that few move when one falls out."""
    uniform = (xxhash.xxh3_64_intdigest(f"{endpoint.name} {affinity}".encode()) + 1) / 2**64
    return -endpoint.weight / log(uniform) if uniform < 1 else _NEVER


LOG = logging.getLogger(__name__)
_SOON_S = 5.0


class Silence:
    """Begins with the send of the first request that fails, ends with one that passes. Times are of any one clock.

    It is said once: at once where nobody listens at the URL, else after a few seconds.
    """

    def __init__(self, name: str) -> None:
        self._name, self._told = name, False
        self._since, self._until = inf, -inf
        self.why = ""
        self.is_quota = False

    def seconds(self) -> float:
        """From the first send that failed to the end of the last one; 0 where the last one passed."""
        return max(0.0, self._until - self._since)

    def broken(self) -> None:
        """A request has passed."""
        self._since, self._until = inf, -inf

    def lasts(self, sent_at: float, now: float, failure: TransientModelError | None, *, limited: bool) -> None:
        """A request that was sent then has failed; `limited`: by a 429."""
        self._since, self._until = min(self._since, sent_at), now
        self.why, self.is_quota = str(failure or ""), limited
        if failure and not self._told and (not failure.reached or self.seconds() > _SOON_S):
            self._told = True
            LOG.warning("%s lets nothing pass: %s; it is asked on", self._name, failure)
