"""What stops a run that would only go on to cost: too many failed seeds, too many dollars an hour.

Promise: only what this session asks anew counts, so a run that was stopped goes on once the cause is mended, however
many failures it holds. Price: it looks twice a second, so what ends between two looks, and the windows of the workers,
come on top of a limit.
"""

from collections import deque

from engine.errors import BreakerTrippedError
from engine.flow.limits import BreakerSettings
from engine.flow.worker_report import SeedEndings
from engine.visible_text import visible

_HOUR_S = 3600.0


class RunBreaker:
    """Holds a session against its limits. `check` is given what ended so far, over all workers."""

    def __init__(self, settings: BreakerSettings) -> None:
        self._settings = settings
        self._looks = deque([SeedEndings()])  # the first is from before the last seeds
        self._spent = deque([(0.0, 0.0)])  # (seconds, US dollars so far), within the last hour

    def check(self, endings: SeedEndings, now_s: float) -> BreakerTrippedError | None:
        """The error to stop with, or None."""
        return self._check_failures(endings) or self._check_money(endings.usd, now_s)

    def _check_failures(self, now: SeedEndings) -> BreakerTrippedError | None:
        settings, looks = self._settings, self._looks
        looks.append(now)
        while len(looks) > 2 and now.ended - looks[1].ended >= settings.last:
            looks.popleft()
        ended, failed = now.ended - looks[0].ended, now.failed - looks[0].failed
        if ended < settings.at_least or failed <= settings.share * ended:
            return None
        return BreakerTrippedError(
            f"{failed:,} of the last {ended:,} seeds failed, more than limits.breakers.share ({settings.share:.0%}); "
            f"the last is {visible(now.example)}; mend the cause (model, prompt, key) and run again",
            "failures",
        )

    def _check_money(self, usd: float, now_s: float) -> BreakerTrippedError | None:
        limit, spent = self._settings.usd_per_hour, self._spent
        if limit is None:
            return None
        if len(spent) > 1 and spent[-1][1] == usd:
            spent.pop()
        spent.append((now_s, usd))
        while len(spent) > 2 and spent[1][0] < now_s - _HOUR_S:
            spent.popleft()
        within = usd - spent[0][1]
        if within <= limit:
            return None
        return BreakerTrippedError(
            f"${within:.2f} were spent within an hour, more than limits.breakers.usd_per_hour (${limit:.2f}); "
            "see why, raise it if that is meant, and run again",
            "money",
        )
