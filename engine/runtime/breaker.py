"""What stops a run that would only go on to cost: too many failed seeds, too few accepted ones, too many dollars.

Promise: only what this session asks anew counts, so a run that was stopped goes on once the cause is mended, however
many failures it holds. Price: it looks twice a second, so what ends between two looks, and the windows of the workers,
come on top of a limit.
"""

import math
from collections import deque

from foil.engine.errors import BreakerTrippedError
from foil.engine.flow.limits import BreakerSettings
from foil.engine.flow.worker_report import AskedSeeds, SeedEndings
from foil.engine.visible_text import visible

_HOUR_S = 3600.0
_CHANCE = 0.001
"""How rarely a run that holds `accepted_share` may be stopped by its luck."""
_EXPECTED = 10
"""Accepted seeds that the last ones would have by `accepted_share`: so many of them are looked at."""
_REASONS_SHOWN = 3


class RunBreaker:
    """Holds a session against its limits. `check` is given what ended so far, over all workers."""

    def __init__(self, settings: BreakerSettings) -> None:
        self._settings = settings
        self._looks = deque([SeedEndings()])  # the first is from before the last seeds
        self._spent = deque([(0.0, 0.0)])  # (seconds, US dollars so far), within the last hour
        self._asked, self._paid = deque([AskedSeeds()]), deque([AskedSeeds()])  # as `_looks`

    def check(self, endings: SeedEndings, now_s: float) -> BreakerTrippedError | None:
        """The error to stop with, or None."""
        return (
            self._check_failures(endings)
            or self._check_accepted(endings.asked_seeds)
            or self._check_tokens(endings.asked_seeds)
            or self._check_money(endings.usd, now_s)
        )

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

    def _check_accepted(self, now: AskedSeeds) -> BreakerTrippedError | None:
        share = self._settings.accepted_share
        if not share:
            return None
        last = _last(self._asked, now, math.ceil(_EXPECTED / share))
        if _at_most(last.accepted, last.seeds, share) >= _CHANCE:
            return None
        return BreakerTrippedError(
            f"{last.accepted or 'none'} of the last {last.seeds:,} seeds that asked a model "
            f"{'was' if last.accepted < 2 else 'were'} accepted, surely less than limits.breakers.accepted_share "
            f"({share:.0%}): {_reasons(last)}; mend the cause (model, prompt, checks) and run again, or add --all "
            "to go on all the same",
            "accepted",
        )

    def _check_tokens(self, now: AskedSeeds) -> BreakerTrippedError | None:
        limit = self._settings.accepted_tokens
        if limit is None:
            return None
        last = _last(self._paid, now, self._settings.last)
        if last.seeds < self._settings.at_least or last.tokens <= limit * last.topics:
            return None
        each = f"{last.tokens / last.topics:,.0f} for each of {last.topics:,}" if last.topics else "for none"
        return BreakerTrippedError(
            f"the last {last.seeds:,} seeds that asked a model took {last.tokens:,} tokens, {each} accepted, more than "
            f"limits.breakers.accepted_tokens ({limit:,}){': ' if last.reasons else ''}{_reasons(last)}; "
            "mend the cause and run again, or add --all to go on all the same",
            "tokens",
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


def _last(looks: deque[AskedSeeds], now: AskedSeeds, seeds: int) -> AskedSeeds:
    """What the last seeds came to: at least so many, where there are."""
    looks.append(now)
    while len(looks) > 2 and now.seeds - looks[1].seeds >= seeds:
        looks.popleft()
    return now.since(looks[0])


def _at_most(accepted: int, seeds: int, share: float) -> float:
    """How likely no more than so many of the seeds are accepted where each is with the chance `share`; 1 from the
    mean on."""
    if accepted >= share * seeds:
        return 1.0
    chances = (
        math.lgamma(seeds + 1) - math.lgamma(k + 1) - math.lgamma(seeds - k + 1)
        + k * math.log(share) + (seeds - k) * math.log1p(-share)
        for k in range(accepted + 1)
    )  # fmt: skip
    return sum(map(math.exp, chances))


def _reasons(asked_seeds: AskedSeeds) -> str:
    """The commonest reasons against the seeds, and the last one of them with its words."""
    common = asked_seeds.reasons.most_common(_REASONS_SHOWN)
    shares = ", ".join(f"{reason} {count / asked_seeds.seeds:.0%}" for reason, count in common)
    return f"{shares}; the last is {visible(asked_seeds.example)}" if shares else ""
