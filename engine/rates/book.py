"""Who may send how much of a quota: rates leased to workers by what they need, for some seconds at a time.

    worker: RateAsk (what it holds, what it wants) -> RateBook.lease -> RateLease (rates, when to ask again)

A quota belongs to a key (`rate_key`): a model at an endpoint under one API key, whatever job asks. Workers that want
less than an equal part get what they want, the others share the rest; what nobody wants is spread over all.

Promise: the rates leased at any moment never exceed the quota, so no minute is granted more than the quota; what was
given back unused goes to others, at most half a second's worth later than in its minute. A worker that is gone holds
its part until its lease ends. A book that was lost starts empty: a first ask gets what the worker
says that it holds, or its equal part if it is new. Only workers that are new in that moment can get too much, and no
more than one lease. Price: one look at each worker of the key an ask; nothing is written.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from foil.engine.ids import canonical_json, sha256_hex

SHORTEST_S, LONGEST_S, MARGIN_S = 2.0, 10.0, 4.0
"""Seconds between two asks of a worker, and those that its lease runs on."""
SPARE_S = 0.5
"""Seconds' worth of a quota that is kept, at most, of what was given back."""
_LEAST = 0.02
"""The part of an equal part that a worker gets even if it wants nothing, so that it can go on if the book dies."""
_SETTLING_S = 4.0
_REQUESTS_AN_ASK, _TOKENS_A_REQUEST = 150, 1_000


def rate_key(url: str, model: str, key_source: str) -> str:
    """What names a quota: jobs that name the same endpoint, model and place of the API key share it."""
    return sha256_hex(canonical_json([url.rstrip("/"), model, key_source]))[:16]


@dataclass(frozen=True, slots=True)
class RateAsk:
    """What a worker tells of itself. All amounts are per second, by unit: "requests", "tokens".

    `share` is its equal part of the quotas in its own job. `unused` are amounts that its last lease allowed and nobody
    took. One that wants nothing gives back what it holds.
    """

    key: str
    client: str
    quotas: Mapping[str, float]
    share: float
    held: Mapping[str, float] = field(default_factory=dict)
    wanted: Mapping[str, float] = field(default_factory=dict)
    unused: Mapping[str, float] = field(default_factory=dict)

    def equal_part(self) -> dict[str, float]:
        """Its rates if it had one part of the quotas for each worker of its job."""
        return {unit: self.share * quota for unit, quota in self.quotas.items()}


@dataclass(frozen=True, slots=True)
class RateLease:
    """Amounts per second by unit, and the seconds after which to ask again; `extra` are amounts until then."""

    rates: Mapping[str, float]
    ask_again_s: float
    extra: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Held:
    """A lease that runs, and the ask that it answers."""

    ask: RateAsk
    rates: Mapping[str, float]
    since: float
    until: float


@dataclass(slots=True)
class _Account:
    """The leases of one key by worker, by unit what was given back of them, and when the last worker joined."""

    leases: dict[str, _Held] = field(default_factory=dict)
    spare: dict[str, float] = field(default_factory=dict)
    joined: float = 0.0


class RateBook:
    """All leases of all keys. Times are in seconds of any one clock."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}

    def lease(self, ask: RateAsk, now: float) -> RateLease:
        """Replaces the lease of this worker."""
        account = self._accounts.setdefault(ask.key, _Account())
        account.leases = {client: lease for client, lease in account.leases.items() if lease.until > now}
        before = account.leases.pop(ask.client, None)
        other_asks = [lease.ask for lease in account.leases.values()]
        if before:
            self._take_back(account, ask, before, now)
        if not ask.wanted:
            if not other_asks:
                del self._accounts[ask.key]
            return RateLease({}, SHORTEST_S)
        rates = {unit: self._rate(unit, ask, account.leases, had_lease=before is not None) for unit in ask.quotas}
        again = _pause([ask, *other_asks])
        if not before:
            account.joined = now
        if now - account.joined < _SETTLING_S:
            again = SHORTEST_S
        if not before and ask.held:  # a book that was lost changes nothing before it has heard of all leases that run
            again = LONGEST_S
        extra = {unit: self._extra(account, unit, again * (ask.wanted.get(unit, 0.0) - rates[unit])) for unit in rates}
        account.leases[ask.client] = _Held(ask, rates, now, now + again + MARGIN_S)
        return RateLease(rates, again, extra)

    @staticmethod
    def _take_back(account: _Account, ask: RateAsk, before: _Held, now: float) -> None:
        """Adds what a lease allowed and nobody took to what is spare."""
        for unit, rate in before.rates.items():
            unused = min(ask.unused.get(unit, 0.0), rate * (now - before.since))
            most = SPARE_S * before.ask.quotas[unit]
            account.spare[unit] = min(account.spare.get(unit, 0.0) + max(unused, 0.0), most)

    @staticmethod
    def _extra(account: _Account, unit: str, missing: float) -> float:
        """What is spare, as far as it is missing."""
        extra = max(0.0, min(missing, account.spare.get(unit, 0.0)))
        account.spare[unit] = account.spare.get(unit, 0.0) - extra
        return extra

    @staticmethod
    def _rate(unit: str, ask: RateAsk, leases: Mapping[str, _Held], *, had_lease: bool) -> float:
        """As much of one unit as is right, out of what no other worker holds."""
        asks = [ask, *(lease.ask for lease in leases.values())]
        quota = _quota(unit, asks)
        free = quota - sum(lease.rates.get(unit, 0.0) for lease in leases.values())
        fair = ask.held.get(unit, ask.share * quota)
        if had_lease:
            least = _LEAST * quota / len(asks)
            fair = _fair_share([max(least, min(each.wanted.get(unit, 0.0), quota)) for each in asks], quota)
        return max(0.0, min(fair, free))


def _quota(unit: str, asks: list[RateAsk]) -> float:
    """The smallest that any of them names."""
    return min(ask.quotas[unit] for ask in asks if unit in ask.quotas)


def _fair_share(wants: list[float], quota: float) -> float:
    """What the first of them gets: its want, at most an equal part of what smaller wants leave, and its part of what
    nobody wants.
    """
    rest, share = quota, 0.0
    for served, index in enumerate(sorted(range(len(wants)), key=wants.__getitem__)):
        part = min(wants[index], rest / (len(wants) - served))
        rest -= part
        share = part if index == 0 else share
    return share + rest / len(wants)


def _pause(asks: list[RateAsk]) -> float:
    """Seconds between asks, so that all workers together ask once in so many requests; 2 at least, 10 at most."""
    unit, each = ("requests", 1.0) if "requests" in asks[0].quotas else ("tokens", _TOKENS_A_REQUEST)
    demand = sum(ask.wanted.get(unit, 0.0) for ask in asks)
    requests_per_s = min(demand, _quota(unit, asks)) / each
    return min(LONGEST_S, max(SHORTEST_S, _REQUESTS_AN_ASK * len(asks) / max(requests_per_s, 1e-9)))
