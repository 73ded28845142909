"""A commit entry: what it says of one partition, how its files are called, and which paths it may name.

Promise: an entry that was read is well-formed: every path in it has the one shape that a commit writes. Price: none to
speak of; the counts in the entries are why the state of a run is known without opening a data file.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datasets_out.schema import SCHEMA_VERSION, TABLES
from engine.errors import CorruptDataError
from engine.progress import costs, outcomes
from engine.topic import Topic

FILE_NAME = re.compile(r"data/(?P<table>[a-z]+)/part-(?P<partition>[0-9]{8})(-[0-9a-f]{64})?\.parquet")
ENTRY_NAME = re.compile(r"commits/(?P<partition>[0-9]{8})\.json")
_RANKED = ("accepted", "failed", "rejected")


@dataclass(frozen=True, slots=True)
class FileFact:
    """A committed file: `path` relative to the run's folder, and what it must hold."""

    path: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of seeds and topics, by status, and what it took; `reasons` are those of topics not accepted,
    `validators` and `validators_usd` what each validator made of them and spent (engine.progress.Counts).

    A seed is accepted if one of its topics is, else failed if one failed, else rejected. A call that made several
    topics is counted once.
    """

    seeds: Mapping[str, int]
    topics: Mapping[str, int]
    reasons: Mapping[str, int]
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    validators: Mapping[str, int] = field(default_factory=dict)
    validators_usd: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entry:
    """The commit of one partition. `facts` are the flow's own (digests of indexes); they are equal in every attempt."""

    partition: int
    fingerprint: str
    schema_version: int
    files: Mapping[str, FileFact]
    counts: Counts
    facts: Mapping[str, Any]


def plain_name(table: str, partition: int) -> str:
    """The name of a partition's file, the same in every attempt."""
    return f"data/{table}/part-{partition:08d}.parquet"


def own_name(fact: FileFact) -> str:
    """The name under which only these bytes can ever lie."""
    return f"{fact.path.removesuffix('.parquet')}-{fact.sha256}.parquet"


def entry_name(partition: int) -> str:
    """The name of a partition's entry."""
    return f"commits/{partition:08d}.json"


def parse_entry(path: Path, partition: int, body: Mapping[str, Any]) -> Entry:
    """The entry, every path in it checked against the one shape that a commit writes."""
    try:
        files = {table: FileFact(**fact) for table, fact in body["files"].items()}
        entry = Entry(**{**body, "files": files, "counts": Counts(**body["counts"])})
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptDataError(f"{path} is not a commit entry ({error}); was it written by another version?") from error
    if entry.schema_version != SCHEMA_VERSION:
        raise CorruptDataError(
            f"{path} has schema version {entry.schema_version}, and this Foil reads {SCHEMA_VERSION}; "
            "use the version that wrote it"
        )
    if entry.partition != partition or set(files) != set(TABLES):
        raise CorruptDataError(f"{path} is the entry of partition {entry.partition} with the tables {sorted(files)}")
    for table, fact in files.items():
        check_path(path, table, fact, partition)
    return entry


def check_path(document: Path, table: str, fact: FileFact, partition: int | None = None) -> None:
    """Raises CorruptDataError unless `fact.path` is one that a commit of this table (and partition) writes."""
    match = FILE_NAME.fullmatch(str(fact.path))
    if not match or match["table"] != table or partition not in (None, int(match["partition"])):
        raise CorruptDataError(
            f"{document} names {fact.path!r} as a file of {table}, which no commit does; do not use it"
        )


def difference(standing: Entry, attempt: Entry) -> str:
    """What differs between two entries of one partition, their files' names aside; "" if nothing does."""
    parts = [
        name for name in ("fingerprint", "schema_version", "counts", "facts")
        if getattr(standing, name) != getattr(attempt, name)
    ]  # fmt: skip
    return ", ".join(parts + [t for t in TABLES if standing.files[t].sha256 != attempt.files[t].sha256])


def count(topics: Iterable[Topic]) -> Counts:
    """The counts of one partition's topics."""
    topics = list(topics)
    statuses: dict[str, set[str]] = defaultdict(set)
    for topic in topics:
        statuses[topic.seed_id].add(topic.status)
    seeds = Counter(next(s for s in _RANKED if s in found) for found in statuses.values())
    calls = {call.request_id: call for topic in topics for call in topic.calls}.values()
    per_topic: Counter[str] = Counter(topic.status for topic in topics)
    return Counts(
        seeds={status: seeds[status] for status in _RANKED},
        topics={status: per_topic[status] for status in _RANKED},
        reasons=dict(Counter(topic.reason for topic in topics if topic.status != "accepted")),
        validators=dict(Counter(outcome for topic in topics for outcome in outcomes(topic))),
        validators_usd=_spent(topics),
        calls=len(calls),
        prompt_tokens=sum(call.prompt_tokens for call in calls),
        completion_tokens=sum(call.completion_tokens for call in calls),
        cost_usd=math.fsum(call.cost_usd for call in calls),
    )


def total(counts: Iterable[Counts]) -> Counts:
    """The counts of several partitions together: what `foil status` shows without opening a data file."""
    counts = list(counts)
    return Counts(
        seeds=_sum((c.seeds for c in counts), _RANKED),
        topics=_sum((c.topics for c in counts), _RANKED),
        reasons=_sum(c.reasons for c in counts),
        validators=_sum(c.validators for c in counts),
        validators_usd={name: math.fsum(c.validators_usd.get(name, 0.0) for c in counts) for name in _names(counts)},
        calls=sum(c.calls for c in counts),
        prompt_tokens=sum(c.prompt_tokens for c in counts),
        completion_tokens=sum(c.completion_tokens for c in counts),
        cost_usd=math.fsum(c.cost_usd for c in counts),
    )


def _spent(topics: Iterable[Topic]) -> dict[str, float]:
    spent: dict[str, list[float]] = defaultdict(list)
    for topic in topics:
        for validator, usd in costs(topic):
            spent[validator].append(usd)
    return {name: math.fsum(costs) for name, costs in spent.items()}


def _names(counts: Iterable[Counts]) -> list[str]:
    return sorted({name for one in counts for name in one.validators_usd})


def _sum(counters: Iterable[Mapping[str, int]], keys: Iterable[str] = ()) -> dict[str, int]:
    merged: Counter[str] = Counter(dict.fromkeys(keys, 0))
    for counter in counters:
        merged.update(counter)
    return dict(merged)
