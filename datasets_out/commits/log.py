"""The commit log of one run: which partitions exist, and which files hold them. The only truth about `out`.

    out/run.json                            what job this is; put once
    out/plan.json                           seeds and partitions, once the seed stream has ended; put once
    out/commits/00000007.json               the entry of partition 7: its files (rows, bytes, sha256), counts and facts
    out/data/TABLE/part-00000007.parquet    its rows
    out/snapshots/NAME.json                 a named list of committed files
    out/staging/  out/orphans/              unfinished files; files that no entry will ever name

Promise: a partition is there once, whole, or not at all, whatever dies when and however many writers try: its entry is
linked into place after its files are durable, and an entry is never changed. Price: 14 fsyncs a partition, no lock.

Two attempts at one partition normally give equal bytes, and share one file. Where the bytes differ (the code changed
between attempts, an orphan rotted) the later attempt leaves the file alone, since a live writer may be about to name
it, and puts its own under a name that carries its sha256. Once an entry stands no other file of its partition can ever
be named, and what it does not name is moved to `orphans/`.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from datasets_out.commits.encoding import Disk, encode, link_if_absent, put_over, seal, stage, sync_folder, unseal
from datasets_out.commits.entries import (
    ENTRY_NAME,
    FILE_NAME,
    CommitEntry,
    FileFact,
    count,
    difference,
    entry_name,
    own_name,
    parse_entry,
    plain_name,
)
from datasets_out.commits.schema import SCHEMA_VERSION, TABLES, to_tables
from engine.crash_points import crash_point
from engine.errors import CommitError, CommitLostError, CommitUnknownError, CorruptDataError, DifferentJobError
from engine.ids import canonical_json, sha256_hex
from engine.topic import Topic

MAX_PARTITION = 99_999_999


class CommitLog:
    """Implements engine.protocols.Store over a local or shared POSIX folder with hard links.

    Reading needs no `open`. A writer process may commit once any process has opened the run.
    """

    def __init__(self, out: Path, disk: Disk | None = None) -> None:
        self.out = Path(out)
        self._disk = disk or Disk()
        self._fingerprint = ""

    def open(self, fingerprint: str, job: Mapping[str, Any]) -> None:
        """Makes `out` the run of this job, or finds that it is. `job` is what the fingerprint was taken over.

        Raises DifferentJobError, showing the difference, if another job's run is there. Clears away what dead attempts
        at committed partitions left behind.
        """
        names = ["commits", "snapshots", "staging", "orphans", *(f"data/{table}" for table in TABLES)]
        with _storage(self.out, 0):
            for name in names:
                self._disk.mkdir(self.out / name)
            for folder in (self.out / "data", self.out, self.out.parent):
                with suppress(PermissionError):  # a parent may be closed to us
                    sync_folder(self._disk, folder)
        wanted = {"fingerprint": fingerprint, "job": job, "schema_version": SCHEMA_VERSION}
        self.put_sealed("run.json", wanted)
        run = self.run()
        if any(run[key] != wanted[key] for key in ("fingerprint", "schema_version")):
            raise DifferentJobError(
                f"{self.out} holds the run of another job ({_job_difference(run, wanted)}); "
                "give this job another `out`, or restore the settings"
            )
        self._fingerprint = fingerprint
        self._sweep_all()

    def run(self) -> Mapping[str, Any]:
        """The run's fingerprint, job and schema version. Raises CommitError if no run was opened here."""
        body = self.sealed("run.json")
        if body is None:
            raise CommitError(f"{self.out} holds no run (no run.json); start one there with `foil run`")
        return body

    def plan(self) -> Mapping[str, int] | None:
        return self.sealed("plan.json")

    def put_plan(self, plan: Mapping[str, int]) -> None:
        """Raises DifferentJobError if another plan stands: the seeds changed under the same job."""
        self.put_sealed("plan.json", plan)
        standing = self.plan()
        if standing != dict(plan):
            raise DifferentJobError(
                f"{self.out} was planned as {standing}, and now as {dict(plan)}: the seeds changed between runs; "
                "restore them, or give this job another `out`"
            )

    def partitions(self) -> list[int]:
        """The committed partitions, ascending, from one listing; no entry is opened."""
        found = map(ENTRY_NAME.fullmatch, self._names("commits"))
        return sorted(int(match["partition"]) for match in found if match)

    def committed(self) -> Mapping[int, Mapping[str, Any]]:
        """Partition -> its entry as plain JSON with the keys of `CommitEntry`."""
        return {partition: asdict(self.entry(partition)) for partition in self.partitions()}

    def entries(self) -> list[CommitEntry]:
        """All entries in order of partition. Raises CorruptDataError for one that is not as it was written."""
        return [self.entry(partition) for partition in self.partitions()]

    def entry(self, partition: int) -> CommitEntry:
        """The entry of a committed partition."""
        body = self.sealed(entry_name(partition))
        if body is None:
            raise CommitError(f"partition {partition} of {self.out} is not committed; run the job again")
        return parse_entry(self.out / entry_name(partition), partition, body)

    def locate(self, fact: FileFact) -> Path:
        """Where a committed file lies. Raises CorruptDataError if a link on the way leaves the run's folder."""
        path = self.out / fact.path
        if not path.resolve().is_relative_to(self.out.resolve()):
            raise CorruptDataError(f"{path} leads out of {self.out}, to {path.resolve()}; remove that link")
        return path

    def fault(self, fact: FileFact) -> str:
        """`missing`, `resized` or `changed` if the file does not hold what was committed; "" if it does."""
        path = self.locate(fact)
        with _storage(path, 0):
            if not path.is_file():
                return "missing"
            if path.stat().st_size != fact.bytes:
                return "resized"
            with path.open("rb") as file:
                return "" if hashlib.file_digest(file, "sha256").hexdigest() == fact.sha256 else "changed"

    def put_sealed(self, name: str, body: Mapping[str, Any]) -> bool:
        """Puts a document (run.json, plan.json, a snapshot) unless one of that name is there; True if it did."""
        return self._put(self.out / name, seal(body))

    def sealed(self, name: str) -> dict[str, Any] | None:
        """A document's body; None if there is none. Raises CorruptDataError if a bit of it has changed."""
        path = self.out / name
        with _storage(path, 0):
            try:
                raw = self._disk.read(path)
            except FileNotFoundError:
                return None
        return unseal(path, raw)

    def commit(self, partition: int, topics: Sequence[Topic], facts: Mapping[str, Any]) -> bool:
        """Commits a partition; see engine.protocols.Store for what is returned, and when CommitLostError is raised.

        Raises CommitError naming path and bytes (disk full, quota): this call's entry does not stand;
        CommitUnknownError where the entry may or may not stand: the same call again settles that.
        """
        attempt, blobs = self._attempt(partition, topics, facts)
        crash_point("commit.encoded")
        unclaimed = self.sealed(entry_name(partition)) is None
        mine = self._publish(attempt, blobs) if unclaimed else None
        crash_point("commit.entered")
        standing = mine or self.entry(partition)
        self._sweep(standing, [name for f in attempt.files.values() for name in (f.path, own_name(f))])
        crash_point("commit.swept")
        if differing := difference(standing, attempt):
            raise CommitLostError(
                f"another writer committed partition {partition} of {self.out} first, and differently ({differing}); "
                "its entry is the truth: go on from there"
            )
        return mine is not None

    def _attempt(
        self, partition: int, topics: Sequence[Topic], facts: Mapping[str, Any]
    ) -> tuple[CommitEntry, dict[str, bytes]]:
        if not 0 <= partition <= MAX_PARTITION:
            raise CommitError(f"partition {partition} is outside 0 to {MAX_PARTITION}; make partitions larger")
        self._fingerprint = self._fingerprint or str(self.run()["fingerprint"])
        tables = to_tables(topics, partition)
        blobs = {table: encode(rows) for table, rows in tables.items()}
        files = {
            table: FileFact(plain_name(table, partition), tables[table].num_rows, len(blob), sha256_hex(blob))
            for table, blob in blobs.items()
        }
        same = json.loads(canonical_json(facts))
        return CommitEntry(partition, self._fingerprint, SCHEMA_VERSION, files, count(topics), same), blobs

    def _publish(self, attempt: CommitEntry, blobs: Mapping[str, bytes]) -> CommitEntry | None:
        """Puts the files, then the entry that names them; None if another entry was first."""
        files = {table: self._place(fact, blobs[table]) for table, fact in attempt.files.items()}
        crash_point("commit.placed")
        mine = replace(attempt, files=files)
        ours = self._put(self.out / entry_name(mine.partition), seal(asdict(mine)), CommitUnknownError)
        return mine if ours else None

    def _place(self, fact: FileFact, blob: bytes) -> FileFact:
        path = self.out / fact.path
        if self._put(path, blob) or self._holds(path, blob):
            return fact
        own = replace(fact, path=own_name(fact))
        with _storage(self.out / own.path, len(blob)):
            put_over(self._disk, stage(self._disk, self.out / "staging", path.name, blob), self.out / own.path)
        return own

    def _holds(self, path: Path, blob: bytes) -> bool:
        with _storage(path, len(blob)):
            try:
                return self._disk.read(path) == blob
            except FileNotFoundError:
                return False

    def _put(self, path: Path, data: bytes, doubt: type[CommitError] = CommitError) -> bool:
        with _storage(path, len(data)):
            staged = stage(self._disk, self.out / "staging", path.name, data)
        with _storage(path, len(data), doubt):
            return link_if_absent(self._disk, staged, path)

    def _names(self, folder: str) -> list[str]:
        with _storage(self.out / folder, 0):
            try:
                return [f"{folder}/{name}" for name in self._disk.listdir(self.out / folder)]
            except FileNotFoundError:
                return []

    def _sweep(self, standing: CommitEntry, names: Iterable[str]) -> None:
        """Moves files of a committed partition aside that its entry does not name: no entry ever can."""
        named = {fact.path for fact in standing.files.values()}
        for name in set(names) - named:
            with suppress(OSError):
                self._disk.replace(self.out / name, self.out / "orphans" / name.removeprefix("data/").replace("/", "-"))

    def _sweep_all(self) -> None:
        """Repeats the sweeps that a crash cut short: a committed partition with more files than tables needs one."""
        found: dict[int, list[str]] = defaultdict(list)
        for table in TABLES:
            for name in self._names(f"data/{table}"):
                if match := FILE_NAME.fullmatch(name):
                    found[int(match["partition"])].append(name)
        committed = set(self.partitions())
        for partition, names in found.items():
            if len(names) > len(TABLES) and partition in committed:
                self._sweep(self.entry(partition), names)


@contextmanager
def _storage(path: Path, need: int, error_class: type[CommitError] = CommitError) -> Iterator[None]:
    """Turns what the file system raises into an error that says where, how much, and what to do."""
    try:
        yield
    except OSError as error:
        room = f"; {need:,} bytes are needed there" if need else ""
        advice = {
            errno.ENOSPC: "free some space",
            errno.EDQUOT: "raise the quota",
            errno.EFBIG: "raise the file size limit",
            errno.EMFILE: "raise the limit of open files",
            errno.EPERM: "use a file system with hard links that this user may write",
        }.get(error.errno or 0, "see to the storage")
        doubt = "the entry may or may not stand, " if error_class is CommitUnknownError else ""
        raise error_class(f"{path}: {error.strerror or error}{room}; {doubt}{advice} and run again") from error


def _job_difference(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """The first settings in which two runs differ, as `key: there -> here`."""
    old, new = (dict(_flat({**run["job"], "schema_version": run["schema_version"]})) for run in (there, here))
    keys = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    shown = ", ".join(f"{key}: {old.get(key, 'unset')} -> {new.get(key, 'unset')}" for key in keys[:8])
    more = f" and {len(keys) - 8} more" if len(keys) > 8 else ""
    return shown + more or "same settings, other code, templates or indexes"


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, canonical_json(value)
