"""What became of the seeds so far: counts, the progress event, the summary, and the status of a run on disk.

Promise: planned = accepted + rejected + failed, in seeds and in topics, is checked when a run has ended. Price: a few
additions a seed; `status` opens the newest version of the log, the entries beyond it, session files and the last record
of each journal segment, never data.

    out/sessions/STARTED-TOKEN.json     one call of `foil run`: seconds, exit code, and its last progress, each second
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import reduce
from itertools import chain, takewhile
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foil.engine.errors import CorruptDataError
from foil.engine.storage.local_store import LocalStore
from foil.engine.storage.opening import open_store
from foil.engine.storage.store import Store
from foil.engine.topic import Call, Topic

if TYPE_CHECKING:
    from foil.engine.protocols import CommitStore

LOG = logging.getLogger(__name__)
_STATUSES = ("accepted", "failed", "rejected")
_BUCKET_NOTE_S = 5.0
"""Seconds between two notes of a session in a bucket, where each is paid for."""
OUTCOMES = ("reject", "edit", "mark", "pass")
"""What a validator made of a topic, the gravest first."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Seeds and topics by status, reasons of the topics not accepted, and what it took (tokens, US dollars).

    A seed is accepted if one of its topics is, else failed if one failed, else rejected. Equal requests of one
    partition are one call; what was reused from another run was paid there and is not counted. `validators` counts
    topics by (validator, outcome) as `outcomes` has them, `validators_usd` is what the validator's calls cost.
    """

    seeds: Counter[str] = field(default_factory=Counter)
    topics: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    validators: Counter[tuple[str, str]] = field(default_factory=Counter)
    validators_usd: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0

    def plain(self) -> dict[str, Any]:
        """As a commit entry stores it: plain JSON that names every status."""
        tally = {name: {status: getattr(self, name)[status] for status in _STATUSES} for name in ("seeds", "topics")}
        shallow = {name: dict(value) if isinstance(value, Counter) else value for name, value in _fields(self)}
        return shallow | tally | {"validators": spelled(self.validators.items())}


def spelled(validators: Iterable[tuple[tuple[str, str], int]]) -> dict[str, int]:
    """Topics by `VALIDATOR OUTCOME`, which is how JSON has the pair."""
    return {f"{validator} {outcome}": topics for (validator, outcome), topics in validators}


def _pair(spelling: str) -> tuple[str, str]:
    validator, _, outcome = spelling.rpartition(" ")
    return validator, outcome


def counts_of(entry: Mapping[str, Any]) -> Counts:
    """The counts in a commit entry."""
    stored: dict[str, Any] = entry["counts"]
    counters = {name: +Counter(value) for name, value in stored.items() if isinstance(value, Mapping)}
    validators = Counter({_pair(name): topics for name, topics in counters.get("validators", {}).items()})
    return Counts(**{**stored, **counters, "validators": validators})


def count_topics(topics: Iterable[Topic], requests: set[str] | None = None) -> Counts:
    """The counts of topics. `requests` are those of their partition that were counted before; new ones are added."""
    by_seed: dict[str, list[Topic]] = {}
    for topic in topics:
        by_seed.setdefault(topic.seed_id, []).append(topic)
    ordered = list(chain.from_iterable(by_seed.values()))
    calls = list(paid_calls(ordered, set() if requests is None else requests))
    validators_usd: Counter[str] = Counter()
    for validator, usd in chain.from_iterable(map(costs, ordered)):
        validators_usd[validator] += usd
    return Counts(
        seeds=Counter(map(_seed_status, by_seed.values())),
        topics=Counter(topic.status for topic in ordered),
        reasons=Counter(topic.reason for topic in ordered if topic.status != "accepted"),
        validators=Counter(chain.from_iterable(map(outcomes, ordered))),
        validators_usd=validators_usd,
        calls=len(calls),
        prompt_tokens=sum(call.prompt_tokens for call in calls),
        completion_tokens=sum(call.completion_tokens for call in calls),
        cost_usd=reduce(add, (call.cost_usd for call in calls), 0.0),  # `sum` rounds differently since Python 3.12
    )


def _seed_status(topics: Iterable[Topic]) -> str:
    statuses = {topic.status for topic in topics}
    return next(status for status in _STATUSES if status in statuses)


def paid_calls(topics: Iterable[Topic], requests: set[str]) -> Iterator[Call]:
    """The calls that this run paid, each request once; those of `requests` are left out, and new ones are added."""
    for call in chain.from_iterable(topic.calls for topic in topics):
        if call.request_id not in requests and not call.reused:
            requests.add(call.request_id)
            yield call


def unread_requests(topic: Topic) -> Iterator[str]:
    """The requests whose replies failed a topic: the last ones, as far as none could be used."""
    faulty = takewhile(lambda call: call.fault, reversed(topic.calls)) if topic.status == "failed" else ()
    return (call.request_id for call in faulty)


def outcomes(topic: Topic) -> Iterator[tuple[str, str]]:
    """(validator, outcome) for each validator that looked at the topic: reject, edit, mark or pass, the first that is.

    A mark is a verdict that passes and gives a reason all the same.
    """
    results_by_validator: dict[str, set[str]] = {}
    for verdict in topic.verdicts:
        marked = verdict.outcome == "pass" and verdict.reason
        results_by_validator.setdefault(verdict.validator, set()).add("mark" if marked else verdict.outcome)
    for validator, results in results_by_validator.items():
        yield validator, next(outcome for outcome in OUTCOMES if outcome in results)


def total(parts: Iterable[Counts]) -> Counts:
    """The sum of counts."""
    sums = dict(_fields(Counts()))
    for part in parts:
        for name, value in _fields(part):
            if isinstance(value, Counter):
                if value:
                    sums[name].update(value)
            else:
                sums[name] += value
    return Counts(**sums)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands. `planned` is None as long as the number of seeds is not known, `eta_s` too, and in a stall.

    `counts` are of all seeds finished, in this session or an earlier one, committed or not yet. `waiting_for` says in
    words what the run waits for; it is empty where all goes on. `read`: seeds read, and the ledger of their reader.
    """

    planned: int | None
    counts: Counts
    in_flight: int
    seconds: float
    topics_per_s: float
    eta_s: float | None
    workers_lost: int
    workers_placed: int = 0
    workers_wanted: int = 0
    waiting_for: str = ""
    read: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Summary:
    """How a session ended. `exit_code` is what `foil run` ends with, `stopped` the message of what ended it early.

    `complete` says that every planned seed is committed. `planned` is None where the corpus was not read to its end.
    """

    planned: int | None
    counts: Counts
    partitions: int
    complete: bool
    seconds: float
    workers_lost: int
    possibly_paid_twice: int
    exit_code: int
    stopped: str = ""
    read: Mapping[str, Any] = field(default_factory=dict)


def check_conservation(planned: int, counts: Counts) -> None:
    """Raises CorruptDataError unless every planned seed, and every topic, has exactly one end."""
    ended, topics = counts.seeds.total(), counts.topics.total()
    if ended != planned or topics < ended or counts.reasons.total() + counts.topics["accepted"] != topics:
        raise CorruptDataError(
            f"{planned} seeds were planned, yet the commits hold {dict(counts.seeds)} seeds and {dict(counts.topics)} "
            "topics: seeds were lost, doubled, or share an id; run `foil verify`, and check that seed ids are unique"
        )


def costs(topic: Topic) -> Iterator[tuple[str, Any]]:
    """(validator, US dollars) of each verdict that cost something."""
    return ((verdict.validator, verdict.cost_usd) for verdict in topic.verdicts if verdict.cost_usd)


class SessionFile:
    """The file of one session, put over itself as the run goes on; the last one stays after a kill.

    It only informs, so it never ends a run: where it cannot be written, one warning says so.
    """

    def __init__(self, store: Store) -> None:
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        self._store, self._key = store, f"sessions/{stamp}-{secrets.token_hex(4)}.json"
        self._every_s = 0.0 if isinstance(store, LocalStore) else _BUCKET_NOTE_S
        self._noted, self._warned = -_BUCKET_NOTE_S, False

    def note(self, state: Progress | Summary) -> None:
        """Puts the state, how a session ended and in a bucket now and then how it goes on; not synced."""
        if isinstance(state, Progress) and time.monotonic() - self._noted < self._every_s:
            return
        self._noted = time.monotonic()
        facts = {name: value.plain() if isinstance(value, Counts) else value for name, value in _fields(state)}
        try:
            self._store.put(self._key, json.dumps({"pid": os.getpid(), **facts}).encode(), durable=False)
        except OSError as error:
            if not self._warned:
                LOG.warning("%s cannot be written (%s); the run goes on, and `foil status` lags", self._key, error)
            self._warned = True


def read_sessions(store: Store) -> list[dict[str, Any]]:
    """What the sessions of a run noted, in order; what does not read is left out, with a warning."""
    sessions = []
    try:
        keys = [each.key for each in store.list_objects("sessions")]
    except OSError as error:
        keys = []
        LOG.warning("the folder sessions does not read (%s) and is left out; it only informs", error)
    for key in keys:
        try:
            session = json.loads(store.get(key) or b"")
            sessions.append({**session, "seconds": float(session["seconds"])})
        except (OSError, ValueError, TypeError, KeyError) as error:
            LOG.warning("%s does not read (%s) and is left out; it only informs and may be deleted", key, error)
    return sessions


def last_read(sessions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The seeds read and the ledger of their reader, of the newest session that read any."""
    return next((dict(session["read"]) for session in reversed(sessions) if session.get("read")), {})


def _fields(state: Any) -> list[tuple[str, Any]]:
    return [(f.name, getattr(state, f.name)) for f in fields(state)]


def status(store: CommitStore, out: Path) -> dict[str, Any]:
    """The state of a run on disk, as plain JSON: planned, accepted, rejected, failed, topics, calls, cost, seconds."""
    from foil.engine.flow.journal_reading import possibly_paid_twice  # a query of the counts needs neither
    from foil.engine.storage.lease import holder_of

    totals, plan, place = store.totals(), store.plan(), open_store(out)
    counts, partitions = counts_of(totals), totals["partitions"]
    sessions = read_sessions(place)
    last = sessions[-1] if sessions else {}
    return {
        "planned": plan["seeds"] if plan else last.get("planned"),
        "complete": plan is not None and partitions == plan["partitions"],
        **{status: counts.seeds[status] for status in _STATUSES},
        "topics": {status: counts.topics[status] for status in _STATUSES},
        "reasons": dict(counts.reasons.most_common()),
        "validators": spelled(counts.validators.most_common()),
        "validators_usd": dict(counts.validators_usd.most_common()),
        "partitions": partitions,
        "calls": counts.calls,
        "tokens": counts.prompt_tokens + counts.completion_tokens,
        "cost_usd": counts.cost_usd,
        "seconds": round(sum(session["seconds"] for session in sessions), 3),
        "sessions": len(sessions),
        "waiting_for": last.get("waiting_for", ""),
        "read": last_read(sessions),
        "held_by": holder_of(place),
        "possibly_paid_twice": possibly_paid_twice(place),
        "last_session": last,
    }
