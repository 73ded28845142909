"""A commit entry: what it says of one partition, how its files are called, and which paths it may name.

Promise: an entry that was read is well-formed: every path in it has the one shape that a commit writes. Price: none to
speak of; the counts in the entries are why the state of a run is known without opening a data file.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from datasets_out.commits.schema import SCHEMA_VERSION, TABLES
from engine.errors import CorruptDataError
from engine.flow import progress
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
    `validators` and `validators_usd` what each validator made of them and spent (engine.flow.progress.Counts).

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
class CommitEntry:
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


def parse_entry(path: Path, partition: int, body: Mapping[str, Any]) -> CommitEntry:
    """The entry, every path in it checked against the one shape that a commit writes."""
    try:
        files = {table: FileFact(**fact) for table, fact in body["files"].items()}
        entry = CommitEntry(**{**body, "files": files, "counts": Counts(**body["counts"])})
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


def difference(standing: CommitEntry, attempt: CommitEntry) -> str:
    """What differs between two entries of one partition, their files' names aside; "" if nothing does."""
    parts = [
        name for name in ("fingerprint", "schema_version", "counts", "facts")
        if getattr(standing, name) != getattr(attempt, name)
    ]  # fmt: skip
    return ", ".join(parts + [t for t in TABLES if standing.files[t].sha256 != attempt.files[t].sha256])


def count(topics: Iterable[Topic]) -> Counts:
    """The counts of one partition's topics, as the flow counts them (engine.flow.progress.Counts)."""
    of_seed: dict[str, list[Topic]] = defaultdict(list)
    for topic in topics:
        of_seed[topic.seed_id].append(topic)
    counted, seen = progress.Counts(), set[str]()
    for made in of_seed.values():
        counted.add_seed(made, seen)
    return _stored(counted)


def total(counts: Iterable[Counts]) -> Counts:
    """The counts of several partitions together: what `foil status` shows without opening a data file."""
    return _stored(progress.total(progress.counts_of({"counts": asdict(one)}) for one in counts))


def _stored(counted: progress.Counts) -> Counts:
    """As an entry holds them: every status is named, also one that nothing has."""
    plain = counted.plain()
    named = {name: {status: plain[name].get(status, 0) for status in _RANKED} for name in ("seeds", "topics")}
    return Counts(**{**plain, **named})
