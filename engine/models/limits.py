"""How many requests in flight an endpoint takes, found from latency.

    latencies of an epoch ------> Concurrency: a new limit of requests in flight, or the same

At first the limit grows by one a reply (it doubles each round trip), until the latency leaves its floor.
Later it probes 10 % up now and then, and faster while that pays in goodput. A server that queues (vLLM) shows in the
latency: with a median over twice its floor, no probe goes up.

Promise: in flight never below FLOOR, never above `most`. Price: one median an epoch.
"""

from dataclasses import dataclass, field
from math import inf
from typing import Literal

SendOutcome = Literal["worked", "limited", "failed"]

FLOOR = 2
_START = 32
_EPOCH = 40
_PROBE, _BOLDEST_PROBE = 1.1, 2.0
_FIRST_HOLD, _LONGEST_HOLD = 2, 16
_QUEUEING = 2.0
_FLOOR_DRIFT_A_SECOND = 0.001
_ROUND_TRIPS = 1.5


@dataclass(slots=True)
class _Epoch:
    """What came back while the limit was the same."""

    began: float
    peak: int = 0
    latencies: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Sample:
    """What an epoch tells: replies a second, the median latency in seconds."""

    goodput: float
    latency: float
    full: bool


@dataclass(frozen=True, slots=True)
class _Probe:
    """A higher limit, to be judged by the epoch that follows it: where it came from, and what held there."""

    limit: float
    sample: _Sample


class Concurrency:
    """The most requests in flight at one endpoint. Times are in seconds of any one clock."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._limit = float(min(_START, most))
        self._ramping, self._floor = True, inf
        self._hold, self._next_hold, self._step = 0, _FIRST_HOLD, _PROBE
        self._probe: _Probe | None = None
        self._stale = 0
        self._epoch: _Epoch | None = None

    @property
    def limit(self) -> int:
        """The most requests in flight."""
        return int(self._limit)

    def worked(self, now: float, latency: float, in_flight: int) -> None:
        """Notes a reply; `in_flight` counts it too."""
        if self._stale > 0:  # it was sent under another limit
            self._stale -= 1
            return
        epoch = self._epoch = self._epoch or _Epoch(now)
        epoch.peak = max(epoch.peak, in_flight)
        epoch.latencies.append(latency)
        if self._ramping and in_flight >= self.limit - 1:
            self._limit = min(self._limit + 1, self.most)
        if len(epoch.latencies) < (_EPOCH if self._ramping else max(_EPOCH, self._limit)):
            return
        if now - epoch.began >= _median(epoch.latencies) * _ROUND_TRIPS:
            self._judge(epoch, now, in_flight)

    def _judge(self, epoch: _Epoch, now: float, in_flight: int) -> None:
        seconds = max(now - epoch.began, 1e-9)
        latency = _median(epoch.latencies)
        sample = _Sample(len(epoch.latencies) / seconds, latency, epoch.peak >= 0.9 * self.limit)
        self._floor = min(self._floor * (1 + _FLOOR_DRIFT_A_SECOND * seconds), latency)
        before = self._limit
        probe, self._probe, self._epoch = self._probe, None, None
        if probe:
            self._judge_probe(probe, sample)
        else:
            self._go_on(sample)
        self._limit = min(max(self._limit, FLOOR), self.most)
        if self._limit != before:
            self._stale = max(in_flight - 1, 0)

    def _judge_probe(self, probe: _Probe, sample: _Sample) -> None:
        needed_gain = 1 + 0.3 * (self._limit / probe.limit - 1)
        if sample.goodput >= probe.sample.goodput * needed_gain:
            self._next_hold, self._step = _FIRST_HOLD, min(1 + 2 * (self._step - 1), _BOLDEST_PROBE)
            self._go_on(sample)
            return
        self._limit, self._step = probe.limit, _PROBE
        self._hold, self._next_hold = self._next_hold, min(2 * self._next_hold, _LONGEST_HOLD)

    def _go_on(self, sample: _Sample) -> None:
        queueing = sample.latency > _QUEUEING * self._floor
        if self._ramping and queueing:
            self._limit = min(self._limit, _QUEUEING * self._floor * sample.goodput)
        self._ramping = self._ramping and not queueing and self._limit < self.most
        self._hold = max(self._hold - 1, 0)
        if self._ramping or self._hold or queueing or not sample.full or self._limit >= self.most:
            return
        self._probe = _Probe(self._limit, sample)
        self._limit = max(self._limit * self._step, self._limit + 1)


def _median(seconds: list[float]) -> float:
    return sorted(seconds)[len(seconds) // 2]
