"""A commit entry: what it says of one partition, how its files are called, and which paths it may name.

Promise: every path in an entry that was read has the one shape that a commit writes. The counts in the entries tell
the state of a run without opening a data file.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from foil.datasets_out.commits.schema import SCHEMA_VERSION, TABLES
from foil.engine.errors import CorruptDataError
from foil.engine.flow.progress import Counts, counts_of

FILE_NAME = re.compile(r"data/(?P<table>[a-z]+)/part-(?P<partition>[0-9]{8})(-[0-9a-f]{64})?\.parquet")
ENTRY_NAME = re.compile(r"commits/(?P<partition>[0-9]{8})\.json")


@dataclass(frozen=True, slots=True)
class CommittedFile:
    """A file that an entry or a version names: `path` relative to the run's folder, and what it must hold."""

    path: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class CommitEntry:
    """The commit of one partition. `facts` are the flow's own (digests of indexes); they are equal in every attempt."""

    partition: int
    fingerprint: str
    schema_version: int
    files: Mapping[str, CommittedFile]
    counts: Counts
    facts: Mapping[str, Any]

    def plain(self) -> dict[str, Any]:
        """As plain JSON: what is stored."""
        shallow = {name: getattr(self, name) for name in self.__slots__}
        files = {table: asdict(file) for table, file in self.files.items()}
        return {**shallow, "files": files, "counts": self.counts.plain()}


def shared_name(table: str, partition: int) -> str:
    """The name of a partition's file, the same in every attempt."""
    return f"data/{table}/part-{partition:08d}.parquet"


def content_name(file: CommittedFile) -> str:
    """The name under which only these bytes can ever lie."""
    return f"{file.path.removesuffix('.parquet')}-{file.sha256}.parquet"


def entry_name(partition: int) -> str:
    """The name of a partition's entry."""
    return f"commits/{partition:08d}.json"


def partition_of(file: CommittedFile) -> int:
    """The partition whose rows a file holds."""
    if not (match := FILE_NAME.fullmatch(file.path)):
        raise CorruptDataError(f"{file.path!r} is the name of no committed file")
    return int(match["partition"])


def parse_entry(path: Path, partition: int, body: Mapping[str, Any]) -> CommitEntry:
    """The entry, every path in it checked against the one shape that a commit writes."""
    try:
        files = {table: CommittedFile(**file) for table, file in body["files"].items()}
        entry = CommitEntry(**{**body, "files": files, "counts": counts_of(body)})
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptDataError(f"{path} is not a commit entry ({error}); was it written by another version?") from error
    if entry.schema_version != SCHEMA_VERSION:
        raise CorruptDataError(
            f"{path} has schema version {entry.schema_version}, and this Foil reads {SCHEMA_VERSION}; "
            "use the version that wrote it"
        )
    if entry.partition != partition or set(files) != set(TABLES):
        raise CorruptDataError(f"{path} is the entry of partition {entry.partition} with the tables {sorted(files)}")
    for table, file in files.items():
        check_path(path, table, file, partition)
    return entry


def check_path(document: Path, table: str, file: CommittedFile, partition: int | None = None) -> None:
    """Raises CorruptDataError unless `file.path` is one that a commit of this table (and partition) writes."""
    match = FILE_NAME.fullmatch(str(file.path))
    if not match or match["table"] != table or partition not in (None, int(match["partition"])):
        raise CorruptDataError(
            f"{document} names {file.path!r} as a file of {table}, which no commit does; do not use it"
        )


def difference(standing: CommitEntry, attempt: CommitEntry) -> str:
    """What differs between two entries of one partition, their files' names aside; "" if nothing does."""
    names = ("fingerprint", "schema_version", "counts", "facts")
    fields = [name for name in names if getattr(standing, name) != getattr(attempt, name)]
    return ", ".join(fields + [t for t in TABLES if standing.files[t].sha256 != attempt.files[t].sha256])
