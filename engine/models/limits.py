"""How much an endpoint takes: requests in flight, found from latency; requests a second, learnt from its 429s.

    latencies of an epoch ------> Concurrency: a new limit of requests in flight, or the same
    sends, 429s of an epoch ----> LearntRate:  a new rate of sends, a pause, or the same

Concurrency: at first the limit grows by one a reply (it doubles each round trip), until the latency leaves its floor.
Later it probes 10 % up now and then, and faster while that pays in goodput. A server that queues (vLLM) shows in the
latency: with a median over twice its floor, no probe goes up.

LearntRate: no bound until more 429s come than strays explain; then what was accepted is the rate (Little's law: a limit
of requests in flight is a rate too). A quiet time later it grows, slowly first, and waits twice as long each time that
the same bound answers. Several refused in a row are a quota that is used up: a pause of 1, 2, 4, 8 s (or Retry-After),
then one request alone. If that is refused as well, the quota is of a window, and what a minute took is the rate. 429s
whose share stays when the rate is cut do not depend on the load: the rate goes back, their share counts as usual.

Promise: in flight never below FLOOR, never above `most`. Price: a few additions an end, one median an epoch.
"""

from dataclasses import dataclass, field
from math import inf, log, sqrt
from typing import Literal

from foil.engine.rates.bucket import Bucket

SendOutcome = Literal["worked", "limited", "failed"]

FLOOR = 2
_START = 32
_EPOCH = 40
_PROBE, _BOLDEST_PROBE = 1.1, 2.0
_FIRST_HOLD, _LONGEST_HOLD = 2, 16
_QUEUEING = 2.0
_FLOOR_DRIFT_A_SECOND = 0.001
_ROUND_TRIPS = 1.5

_LEARNT_BURST_S = 0.1
_MINUTE_S, _BIN_S = 60.0, 0.25
_FEWEST_SENDS, _SHORTEST_S = 20, 1.0
_STRAY, _NOISE_SIGMAS, _LEAST_USUAL = 0.03, 3.0, 0.01
_IN_A_ROW, _IN_A_ROW_AT_FIRST, _CHANCE_OF_A_ROW = 6, 10, 1e-6
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 8.0
_BELOW, _AGAIN_BELOW, _HALF = 0.98, 0.8, 0.5
_VAIN_CUTS, _STAYED = 3, 0.8
_QUIET_S, _LONGEST_QUIET_S, _SAME_BOUND = 5.0, 240.0, 0.15
_GROWTH, _FASTEST_GROWTH, _FASTER = 0.01, 0.2, 1.4
_RAMP = 1.5
_SLOWEST = 0.05


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


class LearntRate:
    """The sends a second that one endpoint accepts, learnt from its 429s; without any, there is no bound.

    Every send gets a number; the epoch since the last change is the sends from `_from` on, and a row of 429s begins at
    the number `_row_from`, so that late replies to earlier sends count for neither.
    """

    def __init__(self) -> None:
        self.rate: float | None = None
        self._bucket = Bucket(None, _LEARNT_BURST_S)
        self._kept: dict[int, int] = {}
        self._sends, self._probe = 0, -1
        self._pause, self._paused_until = 0.0, 0.0
        self._row = self._row_from = 0
        self._from, self._since, self._refused = 0, 0.0, 0
        self._usual = self._found = 0.0
        self._cuts, self._bound = 0, 0.0
        self._vain, self._share = 0, 0.0
        self._before: float | None = None
        self._quiet_since, self._quiet, self._growth = 0.0, _QUIET_S, _GROWTH
        self._good, self._ramping, self._known = 0.0, False, False

    def wait(self, now: float) -> float:
        """Seconds until the next request may go; infinity while one is out alone, to see whether a pause is over."""
        return inf if self._probe >= 0 else max(self._paused_until - now, self._bucket.wait(1, now))

    def send(self, now: float) -> int:
        """Notes a send; its number."""
        if not self._sends:
            self._since = self._quiet_since = now
        number, self._sends = self._sends, self._sends + 1
        self._kept[int(now / _BIN_S)] = self._kept.get(int(now / _BIN_S), 0) + 1
        self._bucket.take(1)
        if self._pause:
            self._probe = number
        return number

    def abandoned(self, number: int) -> None:
        """A request was given up before it ended."""
        if number == self._probe:
            self._probe = -1

    def ended(self, now: float, number: int, sent_at: float, *, refused: bool, pause_s: float | None = None) -> None:
        """Notes the end of the request of this number, `sent_at` then. `pause_s` is what its 429 asks for."""
        alone = number == self._probe
        self.abandoned(number)
        if refused:
            self._kept[int(sent_at / _BIN_S)] = self._kept.get(int(sent_at / _BIN_S), 0) - 1
        elif number >= self._row_from:
            self._row = 0
        if number < self._from:
            return
        if refused:
            self._refused += 1
            self._row_from = self._row_from if self._row else number
            self._row += 1
        else:
            self._pause = 0.0
        if refused and alone:
            self._rest(now, pause_s)
            self._learn_window(now)
        elif refused and self._is_silent():
            self._rest(now, pause_s)
            self._cut(now, used_up=True)
        elif self._sends - self._from >= (2 if self._cuts else 1) * _FEWEST_SENDS and now - self._since >= _SHORTEST_S:
            self._judge(now)

    def _is_silent(self) -> bool:
        """Whether so many 429s in a row are no chance, and most of what was sent since the first of them."""
        row: float = _IN_A_ROW if self.rate is not None else _IN_A_ROW_AT_FIRST
        if self._usual:
            row = max(row, log(_CHANCE_OF_A_ROW) / log(self._usual))
        return self._row >= row and 2 * self._row >= self._sends - self._row_from

    def _rest(self, now: float, pause_s: float | None) -> None:
        self._pause = min(_LONGEST_PAUSE_S, 2 * self._pause or _FIRST_PAUSE_S)
        self._paused_until = now + max(self._pause, pause_s or 0.0)

    def _judge(self, now: float) -> None:
        """The end of an epoch: a cut, or growth, or nothing."""
        sends = self._sends - self._from
        share = self._refused / sends
        usual = max(self._usual, _LEAST_USUAL)
        noise = sqrt(usual * (1 - usual) / sends)
        if share > self._usual + _STRAY + _NOISE_SIGMAS * noise:
            self._cut(now)
            return
        self._usual = min(self._found, self._usual + 0.1 * (share - self._usual))
        if now - self._quiet_since > _QUIET_S:
            self._cuts = self._vain = 0
        if self.rate is not None:
            self._grow(sends, now)
        self._begin_epoch(now)

    def _grow(self, sends: int, now: float) -> None:
        """More, if what there was has been used, and for a while without too many 429s."""
        assert self.rate is not None
        self._good = self.rate
        if sends < 0.8 * self.rate * (now - self._since):
            return
        if self._ramping:
            self._change(self.rate * _RAMP, now)
        elif now - self._quiet_since > self._quiet:
            self._change(self.rate * (1 + self._growth), now)
            self._growth = min(_FASTEST_GROWTH, _FASTER * self._growth)

    def _cut(self, now: float, *, used_up: bool = False) -> None:
        """Too many 429s: down to what was accepted; once more, if they stay; back, if that was in vain."""
        sends = max(1, self._sends - self._from)
        share = self._refused / sends
        if not self._vain or used_up or not 0.5 > share > _STAYED * self._share:
            self._vain, self._before = 0, self.rate
        self._vain, self._share = self._vain + 1, share
        if self._vain > _VAIN_CUTS:
            self._usual = self._found = share
            self._cuts = self._vain = 0
            self._settle(self._before, now)
            return
        rate = self._lower_rate(sends, share, now, used_up=used_up)
        if not self._cuts and abs(rate - self._bound) < _SAME_BOUND * self._bound:
            self._quiet = min(2 * self._quiet, _LONGEST_QUIET_S)
        elif self._cuts != 1:
            self._quiet = _QUIET_S
        self._cuts, self._bound = self._cuts + 1, rate
        self._ramping = used_up and not self._known
        self._known = self._known or not used_up
        self._settle(rate, now)

    def _lower_rate(self, sends: int, share: float, now: float, *, used_up: bool) -> float:
        """What was accepted in a whole epoch, else a part of the rate; not below what held before it grew."""
        most, seconds = self.rate or inf, now - self._since
        whole = seconds >= _SHORTEST_S and sends >= _FEWEST_SENDS
        if not whole and self.rate is not None:
            rate = most * (_HALF if self._cuts else _BELOW)
        else:
            rate = _BELOW * min(most, (1 - share) * sends / max(seconds, _SHORTEST_S))
        if self._cuts and not used_up:
            rate = min(rate, _AGAIN_BELOW * most)
        floor = self._kept_in_a_minute(now) / _MINUTE_S if used_up and not self._cuts else 0.0
        least = _BELOW * self._good if not self._cuts else _AGAIN_BELOW * self._good if self._cuts == 1 else 0.0
        return max(rate, _BELOW * min(most, floor), min(most, least))

    def _learn_window(self, now: float) -> None:
        """The quota is of a window that is not over: what a minute took is the rate, and it is not tried soon."""
        self._quiet = max(self._quiet, _MINUTE_S)
        self._ramping, self._known, self._good = False, True, 0.0
        self._settle(min(self.rate or inf, self._kept_in_a_minute(now) / _MINUTE_S), now)

    def _kept_in_a_minute(self, now: float) -> int:
        """The sends of the last minute that were not refused, so far."""
        oldest = (now - _MINUTE_S) / _BIN_S - 1
        self._kept = {when: sends for when, sends in self._kept.items() if when > oldest}
        return sum(self._kept.values())

    def _settle(self, rate: float | None, now: float) -> None:
        """A new rate after 429s; None is no bound."""
        self.rate = None
        self._change(0.0 if rate is None else max(rate, _SLOWEST), now)
        self._growth = _GROWTH
        self._row, self._quiet_since = 0, now
        self._begin_epoch(now)

    def _change(self, rate: float, now: float) -> None:
        self.rate = rate or None
        self._bucket.change(rate, now)

    def _begin_epoch(self, now: float) -> None:
        self._from, self._since, self._refused = self._sends, now, 0
