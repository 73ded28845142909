"""A named list of committed files with a digest: what a training run or a release is pinned to.

Promise: a snapshot never changes. Its digest follows from the content alone: the same job gives the same digest on
every machine.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import Any

from foil.datasets_out.commits.entries import CommitEntry, CommittedFile, check_path, partition_of
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.schema import TABLES, from_tables, has_key, record_key
from foil.datasets_out.commits.stored_rows import StoredSpan, TablePart, fetched_ahead
from foil.datasets_out.commits.version_reader import ManifestRows
from foil.datasets_out.commits.versions import NO_PARTITIONS, LogTotals, Pack, PartitionRanges, Version, totals
from foil.engine.errors import CorruptDataError, UsageError
from foil.engine.ids import canonical_json
from foil.engine.storage import bloom_filter
from foil.engine.topic import Topic

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Snapshot:
    """Committed files by table, in order of partition. `name` is "" for what is committed now.

    Of a run with versions it is a version of its log, and the files `listed` beyond it. `stated`: the digest, where it
    is known to be that of the version.
    """

    out: Path
    name: str
    listed: Mapping[str, tuple[CommittedFile, ...]]
    version: Version | None = None
    stated: str = field(default="", compare=False)

    def __reduce__(self) -> tuple[type["Snapshot"], tuple[Any, ...]]:
        return type(self), (self.out, self.name, self.listed, self.version, self.stated)

    @cached_property
    def _log(self) -> CommitLog:
        return CommitLog(self.out)

    @cached_property
    def contents(self) -> Mapping[str, tuple[CommittedFile, ...]]:
        """The files of all partitions by table, in order: 1 kB a partition, so not for large runs."""
        if self.version is None:
            return self.listed
        return {table: tuple(self.committed_files(table)) for table in TABLES}

    def committed_files(self, table: str) -> Iterator[CommittedFile]:
        """The file of each partition as its entry names it, in order; some of them may lie in packs."""
        if self.version is None:
            yield from self.listed[table]
            return
        listed = dict(zip(self._listed_partitions, self.listed[table], strict=True))
        for partition in self.partitions:
            yield listed[partition] if partition in listed else self._rows_of(partition).file(table, partition)

    @cached_property
    def partitions(self) -> PartitionRanges:
        listed = PartitionRanges.of(self._listed_partitions)
        return PartitionRanges.union([self.version.partitions, listed]) if self.version else listed

    @cached_property
    def _listed_partitions(self) -> list[int]:
        return [partition_of(file) for file in self.listed["topics"]]

    @cached_property
    def _listed_topics(self) -> Mapping[int, CommittedFile]:
        return dict(zip(self._listed_partitions, self.listed["topics"], strict=True))

    def _rows_of(self, partition: int) -> ManifestRows:
        assert self.version is not None
        return self._log.versions.rows(self.version, self.version.manifest_of(partition))

    @property
    def digest(self) -> str:
        """sha256 over the sorted list of (table, path, sha256, rows), whatever version or pack they lie in."""
        return self.stated or self._digest

    @cached_property
    def _digest(self) -> str:
        hashed, comma = hashlib.sha256(b"["), b""
        for table in sorted(TABLES):
            for file in sorted(self.committed_files(table), key=attrgetter("path")):
                hashed.update(comma + canonical_json([table, file.path, file.sha256, file.rows]).encode())
                comma = b","
        hashed.update(b"]")
        return hashed.hexdigest()

    def spans(self, table: str) -> Iterator[StoredSpan]:
        """The files in which the table's rows lie, in order of partition; those of all tables are aligned."""
        packed = (StoredSpan(pack.first, pack.last, pack.files[table]) for pack in self._packs)
        return merge(packed, self._loose_spans(table), key=attrgetter("first"))

    @property
    def _packs(self) -> tuple[Pack, ...]:
        return self.version.packs if self.version else ()

    def ruled_out(self, record: str, *, whole: bool) -> PartitionRanges:
        """Partitions with no record of this id, or of none that begins so: what the filters of packs say.

        A pack whose filter is missing may have any. Raises CorruptDataError for a filter that is damaged.
        """
        filters = [(pack, pack.ids) for pack in self._packs if pack.ids]
        if not filters or not (whole or has_key(record)):
            return NO_PARTITIONS
        key = record_key(record)
        places = ((ids, bloom_filter.offset(key, ids.bytes)) for _, ids in filters)
        blocks = self._log.files.read_ranges(places, bloom_filter.BLOCK_BYTES)
        return PartitionRanges(
            (pack.first, pack.last)
            for (pack, ids), block in zip(filters, blocks, strict=True)
            if block is not None and not self._may_hold(ids, block, key)
        )

    def _may_hold(self, ids: CommittedFile, block: bytes, key: str) -> bool:
        try:
            return bloom_filter.may_hold(block, key)
        except ValueError as error:
            raise CorruptDataError(f"{self.out / ids.path} was changed: {error}; restore it from a copy") from error

    def _loose_spans(self, table: str) -> Iterator[StoredSpan]:
        """The files of partitions that lie in no pack."""
        listed = dict(zip(self._listed_partitions, self.listed[table], strict=True))
        for partition in self.partitions.without(self.version.packed) if self.version else self.partitions:
            file = listed[partition] if partition in listed else self._rows_of(partition).file(table, partition)
            yield StoredSpan(partition, partition, file)

    def files(self, table: str) -> list[Path]:
        """Where the table's files lie, in order of partition; a pack holds several. Of all tables in equal number."""
        return self.locate(self.spans(table))

    def locate(self, spans: Iterable[StoredSpan]) -> list[Path]:
        """Where the files of spans lie on this machine; those of a bucket are fetched."""
        return self._log.files.locate_all(span.file for span in spans)

    def parts(self, table: str) -> list[TablePart]:
        """Where the rows of each partition lie, in order; nothing is fetched yet."""
        return [part for span in self.spans(table) for part in self.parts_of(table, span)]

    def parts_of(self, table: str, span: StoredSpan) -> Iterator[TablePart]:
        """Where the rows of each partition of a span lie, in order."""
        if span.first == span.last:
            yield TablePart(self.out, span.file)
            return
        start = 0
        for partition in range(span.first, span.last + 1):
            rows = self._rows_of(partition).file(table, partition).rows
            yield TablePart(self.out, span.file, start, rows)
            start += rows

    def rows(self, table: str) -> int:
        """The number of rows of a table; no file is opened."""
        return sum(file.rows for file in self.listed[table]) + (self.version.rows[table] if self.version else 0)

    def sums(self) -> LogTotals:
        """The sums of the entries of its partitions; of those in a version none is opened."""
        return totals(self.version, [self._entry(partition) for partition in self._listed_partitions])

    def entries(self) -> Iterator[CommitEntry]:
        """The entries of its partitions, in order. Raises CorruptDataError where the log holds another by now."""
        return map(self._entry, self.partitions)

    def _entry(self, partition: int) -> CommitEntry:
        if self.version and partition in self.version.partitions:
            return self._log.folded_entry(self.version, partition)
        entry = self._log.entry(partition)
        if (file := self._listed_topics.get(partition)) and entry.files["topics"] != file:
            raise CorruptDataError(
                f"the snapshot {self.name!r} of {self.out} names {file.path}, and the entry of partition {partition} "
                "another file; take a new snapshot"
            )
        return entry

    def check(self, needed: Iterable[str] = TABLES) -> None:
        """Reads every file once. Raises CorruptDataError where one is not as it was committed.

        Of a bucket those of the tables that are `needed` are fetched, several at a time, and checked as it is done.
        """
        if self._log.files.disk is None:
            self._log.files.locate_all(span.file for table in needed for span in self.spans(table))
            return
        stored = (span.file for table in TABLES for span in self.spans(table))
        damaged = [f"{file.path} is {fault}" for file in stored if (fault := self._log.files.find_fault(file))]
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
    log.files.sync()
    contents = {table: [asdict(file) for file in files] for table, files in now.listed.items()}
    facts: dict[str, Any] = {"contents": contents, "digest": now.digest, "fingerprint": log.fingerprint(), "name": name}
    if now.version:
        facts["version"] = [now.version.number, now.version.sha256]
    log.files.put_sealed(document, facts)
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
        version, entries = log.tail_entries()
        if version and version.fingerprint != log.fingerprint():
            log.entry(next(iter(version.partitions)))  # says of which run it is
        listed = {table: tuple(entry.files[table] for entry in entries) for table in TABLES}
        snapshot = Snapshot(log.out, "", listed, version)
    else:
        snapshot = _load_named(log, name)
    if verify:
        snapshot.check()
    return snapshot


def snapshot_names(out: Path) -> list[str]:
    """The names of the snapshots taken of this run."""
    names = (name.removeprefix("snapshots/") for name in CommitLog(out).files.names("snapshots"))
    return sorted(name[:-5] for name in names if name.endswith(".json") and _NAME.fullmatch(name[:-5]))


def read_partitions(snapshot: Snapshot) -> Iterator[list[Topic]]:
    """All topics of a snapshot, whatever their status, one partition at a time."""
    for parts in fetched_ahead(zip(*map(snapshot.parts, TABLES), strict=True)):
        yield from_tables({table: part.read() for table, part in zip(TABLES, parts, strict=True)})


def read_accepted(snapshot: Snapshot) -> Iterator[Topic]:
    """The accepted topics of a snapshot, in order, one partition in memory."""
    return (topic for topics in read_partitions(snapshot) for topic in topics if topic.status == "accepted")


def _load_named(log: CommitLog, name: str) -> Snapshot:
    document = _document_name(name)
    body = log.files.read_sealed(document)
    if body is None:
        raise UsageError(f"{log.out} has no snapshot {name!r}; it has {snapshot_names(log.out) or 'none'}")
    if body.get("fingerprint", log.fingerprint()) != log.fingerprint():  # snapshots of Foil 0.1 have none
        raise CorruptDataError(f"{log.out / document} is of another run, {body['fingerprint']}; remove it")
    listed = {table: tuple(CommittedFile(**file) for file in body["contents"][table]) for table in TABLES}
    for table, files in listed.items():
        for file in files:
            check_path(log.out / document, table, file)
    if "version" in body:
        return Snapshot(log.out, name, listed, _version_of(log, document, *body["version"]), body["digest"])
    snapshot = Snapshot(log.out, name, listed)
    if snapshot.digest != body["digest"]:
        raise CorruptDataError(f"{log.out / document} does not have the digest that it states; take a new snapshot")
    return snapshot


def _version_of(log: CommitLog, document: str, number: int, sha256: str) -> Version:
    """The version that a snapshot names."""
    version = log.read_version(number)
    if version.sha256 != sha256:
        raise CorruptDataError(
            f"{log.out / document} names another version {number} of the log than stands there; restore the one or the "
            "other from a copy"
        )
    return version


def _document_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot name a snapshot; use letters, digits, dot, dash and underscore")
    return f"snapshots/{name}.json"


@dataclass(frozen=True, slots=True)
class SnapshotDiff:
    """Files of the topics that only one has, rows by table (first, second), and topics by status and reason."""

    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    rows: Mapping[str, tuple[int, int]]
    outcomes: Mapping[str, tuple[int, int]]


def diff(first: Snapshot, second: Snapshot) -> SnapshotDiff:
    """Compares two snapshots; only the topic files that they do not share are opened."""
    files = [set(each.contents["topics"]) for each in (first, second)]
    only = [sorted(own - counterpart, key=lambda file: file.path) for own, counterpart in (files, files[::-1])]
    outcomes = [_outcomes(each, own) for each, own in zip((first, second), only, strict=True)]
    names = sorted(outcomes[0].keys() | outcomes[1].keys())
    paths = [tuple(file.path for file in own) for own in only]
    return SnapshotDiff(
        paths[0],
        paths[1],
        {table: (first.rows(table), second.rows(table)) for table in TABLES},
        {name: (outcomes[0][name], outcomes[1][name]) for name in names},
    )


def _outcomes(snapshot: Snapshot, files: Iterable[CommittedFile]) -> Counter[str]:
    parts, counts = dict(zip(snapshot.partitions, snapshot.parts("topics"), strict=True)), Counter[str]()
    for file in files:
        rows = parts[partition_of(file)].read(["status", "reason"]).to_pylist()
        counts.update(" ".join(filter(None, (row["status"], row["reason"]))) for row in rows)
    return counts
