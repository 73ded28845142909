"""Since when nothing has passed at an endpoint, though it was asked, and why."""

import logging
from math import inf

from foil.engine.errors import TransientModelError

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
