"""Requests a second that an endpoint takes, learnt from its 429s.

    sends, 429s of an epoch ----> LearntRate: a new rate of sends, a pause, or the same

No bound until more 429s come than strays explain; then what was accepted is the rate (Little's law: a limit of requests
in flight is a rate too). A quiet time later it grows, slowly first, and waits twice as long each time that the same
bound answers. Several refused in a row are a quota that is used up: a pause of 1, 2, 4, 8 s (or Retry-After), then one
request alone. If that is refused as well, the quota is of a window, and what a minute took is the rate. 429s whose
share stays when the rate is cut do not depend on the load: the rate goes back, their share counts as usual.

Price: a few additions an end.
"""

from dataclasses import dataclass, field
from math import inf, log, sqrt

from foil.engine.rates.bucket import Bucket

_BURST_S = 0.1
_FEWEST_SENDS, _SHORTEST_S = 20, 1.0
"""An epoch has so many sends and lasts so long, at least."""
_BELOW, _AGAIN_BELOW, _HALF = 0.98, 0.8, 0.5
"""The part of what was accepted that is tried: after a first cut, after another, and within an epoch."""
_SLOWEST = 0.05


@dataclass(slots=True)
class _SendEpoch:
    """The sends since the last change: the number of the first, when, and how many were refused."""

    first: int = 0
    since: float = 0.0
    refused: int = 0


@dataclass(slots=True)
class _KeptSends:
    """The sends that were not refused, so far, by when they were sent."""

    MINUTE_S, BIN_S = 60.0, 0.25
    bins: dict[int, int] = field(default_factory=dict)

    def add(self, at: float, count: int) -> None:
        """Notes sends of that time, or takes them back."""
        bin_ = int(at / self.BIN_S)
        self.bins[bin_] = self.bins.get(bin_, 0) + count

    def per_s(self, now: float) -> float:
        """A second of the last minute."""
        oldest = (now - self.MINUTE_S) / self.BIN_S - 1
        self.bins = {bin_: sends for bin_, sends in self.bins.items() if bin_ > oldest}
        return sum(self.bins.values()) / self.MINUTE_S


@dataclass(slots=True)
class _Rest:
    """A pause, and the number of the request that goes alone after it, to see whether it is over; -1 for none."""

    FIRST_S, LONGEST_S = 1.0, 8.0
    seconds: float = 0.0
    until: float = 0.0
    probe: int = -1

    def begin(self, now: float, asked_s: float | None) -> None:
        """A pause, twice as long as the last, or as long as is asked for."""
        self.seconds = min(self.LONGEST_S, 2 * self.seconds or self.FIRST_S)
        self.until = now + max(self.seconds, asked_s or 0.0)


@dataclass(slots=True)
class _Row:
    """429s in a row, and the number of the first, so that late replies to earlier sends do not end it."""

    FEWEST, FEWEST_AT_FIRST, CHANCE = 6, 10, 1e-6
    length: int = 0
    first: int = 0

    def refused(self, number: int) -> None:
        """One more."""
        self.first = self.first if self.length else number
        self.length += 1

    def is_silence(self, sends: int, usual: float, *, bound: bool) -> bool:
        """Whether so many are no chance, and most of what was sent since the first of them."""
        fewest: float = self.FEWEST if bound else self.FEWEST_AT_FIRST
        if usual:
            fewest = max(fewest, log(self.CHANCE) / log(usual))
        return self.length >= fewest and 2 * self.length >= sends - self.first


@dataclass(slots=True)
class _Strays:
    """The share of 429s that is usual whatever the rate, at most what was found when cuts were in vain."""

    STRAY, NOISE_SIGMAS, LEAST = 0.03, 3.0, 0.01
    usual: float = 0.0
    most: float = 0.0

    def explain(self, share: float, sends: int) -> bool:
        """Whether they explain this share; then it changes what is usual."""
        usual = max(self.usual, self.LEAST)
        noise = sqrt(usual * (1 - usual) / sends)
        if share > self.usual + self.STRAY + self.NOISE_SIGMAS * noise:
            return False
        self.usual = min(self.most, self.usual + 0.1 * (share - self.usual))
        return True


@dataclass(slots=True)
class _Cuts:
    """Cuts in a row, the rate after the last; those that changed no share, that share, and the rate before them."""

    MOST_VAIN, STAYED = 3, 0.8
    count: int = 0
    rate: float = 0.0
    vain: int = 0
    share: float = 0.0
    before: float | None = None

    def are_vain(self, share: float, rate: float | None, *, used_up: bool) -> bool:
        """Notes one more; whether too many changed nothing."""
        if not self.vain or used_up or not 0.5 > share > self.STAYED * self.share:
            self.vain, self.before = 0, rate
        self.vain, self.share = self.vain + 1, share
        return self.vain > self.MOST_VAIN

    def forget(self) -> None:
        """The next is a first one."""
        self.count = self.vain = 0


@dataclass(slots=True)
class _Growth:
    """When a rate grows: once it was quiet for so long, by a step that gets larger, or at once while it is `ramping`;
    the last rate that held, and whether a bound was ever found."""

    QUIET_S, LONGEST_S, SAME_BOUND = 5.0, 240.0, 0.15
    FIRST_STEP, LARGEST_STEP, FASTER, RAMP = 0.01, 0.2, 1.4, 1.5
    since: float = 0.0
    quiet_s: float = QUIET_S
    step: float = FIRST_STEP
    good: float = 0.0
    ramping: bool = False
    is_found: bool = False

    def cut(self, rate: float, cuts: _Cuts, *, used_up: bool) -> None:
        """Notes a cut to this rate, before `cuts` has it."""
        if not cuts.count and abs(rate - cuts.rate) < self.SAME_BOUND * cuts.rate:
            self.quiet_s = min(2 * self.quiet_s, self.LONGEST_S)
        elif cuts.count != 1:
            self.quiet_s = self.QUIET_S
        self.ramping = used_up and not self.is_found
        self.is_found = self.is_found or not used_up

    def grown(self, rate: float, now: float) -> float:
        """The rate, or a higher one where it is time."""
        if self.ramping:
            return rate * self.RAMP
        if now - self.since <= self.quiet_s:
            return rate
        step, self.step = self.step, min(self.LARGEST_STEP, self.FASTER * self.step)
        return rate * (1 + step)


class LearntRate:
    """The sends a second that one endpoint accepts, learnt from its 429s; without any, there is no bound.

    Every send gets a number, by which its end counts in the epoch and the row that it belongs to.
    """

    def __init__(self) -> None:
        self.rate: float | None = None
        self._bucket = Bucket(None, _BURST_S)
        self._sends = 0
        self._epoch, self._kept, self._row, self._rest = _SendEpoch(), _KeptSends(), _Row(), _Rest()
        self._strays, self._cuts, self._growth = _Strays(), _Cuts(), _Growth()

    def wait(self, now: float) -> float:
        """Seconds until the next request may go; infinity while one is out alone, to see whether a pause is over."""
        return inf if self._rest.probe >= 0 else max(self._rest.until - now, self._bucket.wait(1, now))

    def send(self, now: float) -> int:
        """Notes a send; its number."""
        if not self._sends:
            self._epoch.since = self._growth.since = now
        number, self._sends = self._sends, self._sends + 1
        self._kept.add(now, 1)
        self._bucket.take(1)
        if self._rest.seconds:
            self._rest.probe = number
        return number

    def abandoned(self, number: int) -> None:
        """A request was given up before it ended."""
        if number == self._rest.probe:
            self._rest.probe = -1

    def ended(self, now: float, number: int, sent_at: float, *, refused: bool, pause_s: float | None = None) -> None:
        """Notes the end of the request of this number, `sent_at` then. `pause_s` is what its 429 asks for."""
        alone = number == self._rest.probe
        self.abandoned(number)
        if refused:
            self._kept.add(sent_at, -1)
        elif number >= self._row.first:
            self._row.length = 0
        if number < self._epoch.first:
            return
        if refused:
            self._epoch.refused += 1
            self._row.refused(number)
        else:
            self._rest.seconds = 0.0
        if refused and alone:
            self._rest.begin(now, pause_s)
            self._learn_window(now)
        elif refused and self._row.is_silence(self._sends, self._strays.usual, bound=self.rate is not None):
            self._rest.begin(now, pause_s)
            self._cut(now, used_up=True)
        else:
            self._end_epoch(now)

    def _end_epoch(self, now: float) -> None:
        """A cut, or growth, or nothing, once the epoch has lasted long enough."""
        sends, epoch = self._sends - self._epoch.first, self._epoch
        if sends < (2 if self._cuts.count else 1) * _FEWEST_SENDS or now - epoch.since < _SHORTEST_S:
            return
        if not self._strays.explain(epoch.refused / sends, sends):
            self._cut(now)
            return
        if now - self._growth.since > self._growth.QUIET_S:
            self._cuts.forget()
        if self.rate is not None:
            self._growth.good = self.rate
            is_used = sends >= 0.8 * self.rate * (now - epoch.since)
            if is_used and (rate := self._growth.grown(self.rate, now)) != self.rate:
                self._change(rate, now)
        self._begin_epoch(now)

    def _cut(self, now: float, *, used_up: bool = False) -> None:
        """Too many 429s: down to what was accepted; once more, if they stay; back, if that was in vain."""
        sends = max(1, self._sends - self._epoch.first)
        share = self._epoch.refused / sends
        if self._cuts.are_vain(share, self.rate, used_up=used_up):
            self._strays.usual = self._strays.most = share
            self._cuts.forget()
            self._settle(self._cuts.before, now)
            return
        rate = self._lower_rate(sends, share, now, used_up=used_up)
        self._growth.cut(rate, self._cuts, used_up=used_up)
        self._cuts.count, self._cuts.rate = self._cuts.count + 1, rate
        self._settle(rate, now)

    def _lower_rate(self, sends: int, share: float, now: float, *, used_up: bool) -> float:
        """What was accepted in a whole epoch, else a part of the rate; not below what held before it grew."""
        most, seconds, cuts = self.rate or inf, now - self._epoch.since, self._cuts.count
        whole = seconds >= _SHORTEST_S and sends >= _FEWEST_SENDS
        if not whole and self.rate is not None:
            rate = most * (_HALF if cuts else _BELOW)
        else:
            rate = _BELOW * min(most, (1 - share) * sends / max(seconds, _SHORTEST_S))
        if cuts and not used_up:
            rate = min(rate, _AGAIN_BELOW * most)
        floor = self._kept.per_s(now) if used_up and not cuts else 0.0
        least = _BELOW * self._growth.good if not cuts else _AGAIN_BELOW * self._growth.good if cuts == 1 else 0.0
        return max(rate, _BELOW * min(most, floor), min(most, least))

    def _learn_window(self, now: float) -> None:
        """The quota is of a window that is not over: what a minute took is the rate, and it is not tried soon."""
        growth = self._growth
        growth.quiet_s = max(growth.quiet_s, _KeptSends.MINUTE_S)
        growth.ramping, growth.is_found, growth.good = False, True, 0.0
        self._settle(min(self.rate or inf, self._kept.per_s(now)), now)

    def _settle(self, rate: float | None, now: float) -> None:
        """A new rate after 429s; None is no bound."""
        self._change(0.0 if rate is None else max(rate, _SLOWEST), now)
        self._growth.step, self._growth.since = _Growth.FIRST_STEP, now
        self._row.length = 0
        self._begin_epoch(now)

    def _change(self, rate: float, now: float) -> None:
        self.rate = rate or None
        self._bucket.change(rate, now)

    def _begin_epoch(self, now: float) -> None:
        self._epoch = _SendEpoch(self._sends, now)
