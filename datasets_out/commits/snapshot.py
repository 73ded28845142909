"""A named list of committed files with a digest: what a training run or a release is pinned to.

Promise: a snapshot never changes. Its digest follows from the content alone: the same job gives the same digest on
every machine.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow.parquet as pq

from datasets_out.commits.entries import CommittedFile, check_path
from datasets_out.commits.log import CommitLog
from datasets_out.commits.schema import TABLES, from_tables
from engine.atomic_files import sync
from engine.errors import CorruptDataError, UsageError
from engine.ids import canonical_json, sha256_hex
from engine.topic import Topic

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Committed files by table, in order of partition. `name` is "" for what is committed now."""

    out: Path
    name: str
    contents: Mapping[str, tuple[CommittedFile, ...]]

    @property
    def digest(self) -> str:
        """sha256 over the sorted list of (table, path, sha256, rows)."""
        rows = [[table, f.path, f.sha256, f.rows] for table, files in self.contents.items() for f in files]
        return sha256_hex(canonical_json(sorted(rows)))

    def files(self, table: str) -> list[Path]:
        """Where the table's files lie, in order of partition."""
        return CommitLog(self.out).locate_all(self.contents[table])

    def rows(self, table: str) -> int:
        """The number of rows of a table; no file is opened."""
        return sum(file.rows for file in self.contents[table])

    def check(self) -> None:
        """Reads every file once. Raises CorruptDataError naming each that is not as it was committed."""
        log = CommitLog(self.out)
        faults = [(file.path, log.find_fault(file)) for files in self.contents.values() for file in files]
        damaged = [f"{path} is {fault}" for path, fault in faults if fault]
        if damaged:
            more = f" and {len(damaged) - 5} more" if len(damaged) > 5 else ""
            raise CorruptDataError(
                f"{self.out}: {', '.join(damaged[:5])}{more}; restore them from a copy, or run the job into a new `out`"
            )


def take_snapshot(out: Path, name: str) -> Snapshot:
    """Names what is committed now. Taking the same again changes nothing; a name is never given to other content."""
    document = _document_name(name)
    log = CommitLog(out)
    now = load_snapshot(out, None)
    sync(log.out / "commits")
    contents = {table: [asdict(file) for file in files] for table, files in now.contents.items()}
    facts = {"contents": contents, "digest": now.digest, "fingerprint": log.fingerprint(), "name": name}
    log.put_sealed(document, facts)
    standing = load_snapshot(out, name)
    if standing.digest != now.digest:
        raise UsageError(
            f"snapshot {name!r} of {out} stands with digest {standing.digest[:16]}, and what is committed now has "
            f"{now.digest[:16]}; give this snapshot another name"
        )
    return standing


def load_snapshot(out: Path, name: str | None, *, verify: bool = False) -> Snapshot:
    """The snapshot of that name, or of all that is committed now (None). `verify` reads every file and checks it.

    Raises NoRunError, UsageError if there is none of that name, CorruptDataError if it or (with `verify`) a file has
    changed.
    """
    log = CommitLog(out)
    if name is None:
        log.run()  # or there is none
        entries = log.entries()
        snapshot = Snapshot(log.out, "", {table: tuple(entry.files[table] for entry in entries) for table in TABLES})
    else:
        snapshot = _load_named(log, name)
    if verify:
        snapshot.check()
    return snapshot


def snapshot_names(out: Path) -> list[str]:
    """The names of the snapshots taken of this run."""
    return sorted(path.stem for path in (Path(out) / "snapshots").glob("*.json") if _NAME.fullmatch(path.stem))


def read_partitions(snapshot: Snapshot) -> Iterator[list[Topic]]:
    """All topics of a snapshot, whatever their status, one partition at a time."""
    for paths in zip(*map(snapshot.files, TABLES), strict=True):
        yield from_tables({table: pq.read_table(path) for table, path in zip(TABLES, paths, strict=True)})


def read_accepted(snapshot: Snapshot) -> Iterator[Topic]:
    """The accepted topics of a snapshot, in order, one partition in memory."""
    return (topic for topics in read_partitions(snapshot) for topic in topics if topic.status == "accepted")


def _load_named(log: CommitLog, name: str) -> Snapshot:
    document = _document_name(name)
    body = log.read_sealed(document)
    if body is None:
        raise UsageError(f"{log.out} has no snapshot {name!r}; it has {snapshot_names(log.out) or 'none'}")
    if body.get("fingerprint", log.fingerprint()) != log.fingerprint():  # snapshots of Foil 0.1 have none
        raise CorruptDataError(f"{log.out / document} is of another run, {body['fingerprint']}; remove it")
    contents = {table: tuple(CommittedFile(**file) for file in body["contents"][table]) for table in TABLES}
    for table, files in contents.items():
        for file in files:
            check_path(log.out / document, table, file)
    snapshot = Snapshot(log.out, name, contents)
    if snapshot.digest != body["digest"]:
        raise CorruptDataError(f"{log.out / document} does not have the digest that it states; take a new snapshot")
    return snapshot


def _document_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot name a snapshot; use letters, digits, dot, dash and underscore")
    return f"snapshots/{name}.json"
