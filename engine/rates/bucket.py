"""A rate as a token bucket, and what a queue needs of a rate wherever it comes from."""

from typing import Protocol

BURST_S = 0.5


class Rate(Protocol):
    """A bound on amounts over time. Times are in seconds of the event loop's clock."""

    def wait(self, amount: float, now: float) -> float:
        """Seconds until this amount may be taken; infinity where nobody can tell yet."""

    def take(self, amount: float) -> None:
        """Takes the amount; a negative one gives back."""

    def learn(self, limit: float, remaining: float, now: float) -> None:
        """Hears what a provider says of its limit a minute."""


class Bucket:
    """A rate a minute as a token bucket that holds `burst_s` seconds' worth; large amounts leave it in debt.

    `spilt` is what ran over since somebody last set it to 0: allowed, and never taken.
    """

    def __init__(self, per_minute: float | None, burst_s: float = BURST_S) -> None:
        self._set, self._burst_s = per_minute is not None, burst_s
        self._rate = per_minute / 60 if per_minute else 0.0
        self._level, self._at = self._capacity(), 0.0
        self.spilt = 0.0

    def _capacity(self) -> float:
        return max(1.0, self._rate * self._burst_s)

    def _cap(self) -> None:
        if (over := self._level - self._capacity()) > 0:
            self._level -= over
            self.spilt += over

    def wait(self, amount: float, now: float) -> float:
        """Seconds until this amount may be taken."""
        if not self._rate:
            return 0.0
        self._level += (now - self._at) * self._rate
        self._at = now
        self._cap()
        missing = min(amount, self._capacity()) - self._level
        return missing / self._rate if missing > 1e-9 else 0.0

    def take(self, amount: float) -> None:
        """Takes the amount; a negative one gives back."""
        if self._rate:
            self._level -= amount

    def learn(self, limit: float, remaining: float, now: float) -> None:
        """Takes over what a provider says of its limit a minute; nothing if the settings name one, or it is unknown."""
        if self._set or limit < 1 or remaining < 0:
            return
        self.change(limit / 60, now)
        self._level = min(self._level, remaining)

    def change(self, per_second: float, now: float) -> None:
        """Another rate from now on; 0 is none."""
        self.wait(0, now)
        self._at, self._rate = now, per_second
        self._cap()

    def drain(self) -> None:
        """Drops what could be taken at once; a debt stays."""
        self._level = min(self._level, 0.0)
