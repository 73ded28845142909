"""How many requests to keep in flight at an endpoint: found by trying, from what comes back.

    replies, 429s, latencies of an epoch --> goodput, share of 429s, median latency --> a new limit, or the same

At first the limit grows by one a reply (it doubles each round trip), until 429s come or the latency leaves its floor.
Later it probes 10 % up now and then, and faster while that pays in goodput. When more 429s come than usual, it is cut
to what the endpoint answers at a time (Little's law: goodput x latency). If that leaves their share as it was, they do
not depend on the load: the limit goes back, and the share counts as usual from then on. A server that queues instead of
refusing (vLLM) shows in the latency: with a median over twice its floor, no probe goes up.

Promise: never below FLOOR, never above `most`. Price: two additions an end, one median an epoch.
"""

from dataclasses import dataclass, field
from math import sqrt
from typing import Literal

SendOutcome = Literal["worked", "limited", "failed"]

FLOOR = 2
_START = 32
_EPOCH = 40
_PROBE, _BOLDEST_PROBE = 1.1, 2.0
_FIRST_HOLD, _LONGEST_HOLD = 2, 16
_QUEUEING = 2.0
_FLOOR_DRIFT_A_SECOND = 0.001
_NOISE_SIGMAS, _STRAY = 3.0, 0.03
_HOPELESS = 0.5
_ROUND_TRIPS = 1.5


@dataclass(slots=True)
class _Epoch:
    """What came back while the limit was the same."""

    began: float
    worked: int = 0
    limited: int = 0
    ends: int = 0
    peak: int = 0
    latencies: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Sample:
    """What an epoch tells: replies a second, the share of 429s, the median latency in seconds (0 without a reply)."""

    goodput: float
    limited: float
    latency: float
    full: bool


@dataclass(frozen=True, slots=True)
class _Move:
    """A change of the limit, to be judged by the epoch that follows it: where it came from, and what held there."""

    up: bool
    limit: float
    sample: _Sample


class Concurrency:
    """The limit of one endpoint. Times are in seconds of any one clock."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._limit = float(min(_START, most))
        self._ramping, self._usual, self._floor = True, 0.0, float("inf")
        self._hold, self._next_hold, self._probe = 0, _FIRST_HOLD, _PROBE
        self._move: _Move | None = None
        self._stale = 0
        self._epoch: _Epoch | None = None

    @property
    def limit(self) -> int:
        """The most requests in flight."""
        return int(self._limit)

    def ended(self, now: float, latency: float, outcome: SendOutcome, in_flight: int) -> None:
        """Notes the end of one request; `in_flight` counts it too."""
        if self._stale > 0:  # it was sent under another limit
            self._stale -= 1
            return
        epoch = self._epoch = self._epoch or _Epoch(now)
        epoch.ends += 1
        epoch.peak = max(epoch.peak, in_flight)
        if outcome == "worked":
            epoch.worked += 1
            epoch.latencies.append(latency)
            if self._ramping and in_flight >= self.limit - 1:
                self._limit = min(self._limit + 1, self.most)
        elif outcome == "limited":
            epoch.limited += 1
        if self._is_over(epoch, now):
            self._judge(epoch, now, in_flight)

    def _is_over(self, epoch: _Epoch, now: float) -> bool:
        if self._move and self._move.up and epoch.limited >= 2 and self._excess(epoch) > 0:
            return True  # a probe that meets more 429s than usual need not be finished
        enough = _EPOCH if self._ramping else max(_EPOCH, self._limit)
        if not epoch.latencies or epoch.ends < enough:
            return epoch.ends >= 4 * enough
        return now - epoch.began >= _median(epoch.latencies) * _ROUND_TRIPS

    def _excess(self, epoch: _Epoch) -> float:
        """The share of 429s above the usual share, and above the noise of a sample of this size."""
        noise = _NOISE_SIGMAS * sqrt(self._usual * (1 - self._usual) / epoch.ends) + _STRAY
        return epoch.limited / epoch.ends - self._usual - noise

    def _judge(self, epoch: _Epoch, now: float, in_flight: int) -> None:
        seconds = max(now - epoch.began, 1e-9)
        latency = _median(epoch.latencies) if epoch.latencies else 0.0
        full = epoch.peak >= 0.9 * self.limit
        sample = _Sample(epoch.worked / seconds, epoch.limited / epoch.ends, latency, full)
        self._floor = min(self._floor * (1 + _FLOOR_DRIFT_A_SECOND * seconds), latency or self._floor)
        before, excess = self._limit, self._excess(epoch)
        move, self._move, self._epoch = self._move, None, None
        if move and move.up:
            self._judge_probe(move, sample, excess)
        elif move and self._was_vain(move, sample):
            self._limit = move.limit
        elif excess > 0:
            self._cut(sample)
        else:
            self._usual += 0.1 * (sample.limited - self._usual)
            self._go_on(sample)
        self._limit = min(max(self._limit, FLOOR), self.most)
        if self._limit != before:
            self._stale = max(in_flight - 1, 0)

    def _was_vain(self, cut: _Move, sample: _Sample) -> bool:
        """Whether a cut did not help: the 429s stayed, or there were none too many and goodput fell with the limit."""
        if _HOPELESS > sample.limited > (cut.sample.limited + self._usual) / 2:
            self._usual = sample.limited
            return True
        less = sample.goodput < cut.sample.goodput * (1 + self._limit / cut.limit) / 2
        return less and sample.limited <= self._usual + _STRAY

    def _judge_probe(self, probe: _Move, sample: _Sample, excess: float) -> None:
        needed_gain = 1 + 0.3 * (self._limit / probe.limit - 1)
        if excess <= 0 and sample.goodput >= probe.sample.goodput * needed_gain:
            self._next_hold, self._probe = _FIRST_HOLD, min(1 + 2 * (self._probe - 1), _BOLDEST_PROBE)
            self._go_on(sample)
            return
        self._limit, self._probe = probe.limit, _PROBE
        self._hold, self._next_hold = self._next_hold, min(2 * self._next_hold, _LONGEST_HOLD)

    def _cut(self, sample: _Sample) -> None:
        self._ramping = False
        self._hold = _FIRST_HOLD
        self._move = _Move(False, self._limit, sample)
        answered = sample.goodput * sample.latency if sample.latency else self._limit / 2
        self._limit = min(answered, 0.9 * self._limit)

    def _go_on(self, sample: _Sample) -> None:
        queueing = sample.latency > _QUEUEING * self._floor
        if self._ramping and queueing:
            self._limit = min(self._limit, _QUEUEING * self._floor * sample.goodput)
        self._ramping = self._ramping and not queueing and self._limit < self.most
        self._hold = max(self._hold - 1, 0)
        if self._ramping or self._hold or queueing or not sample.full or self._limit >= self.most:
            return
        self._move = _Move(True, self._limit, sample)
        self._limit = max(self._limit * self._probe, self._limit + 1)


def _median(seconds: list[float]) -> float:
    return sorted(seconds)[len(seconds) // 2]
