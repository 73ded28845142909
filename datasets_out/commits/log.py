"""The commit log of one run: which partitions exist, and which files hold them. Nothing else says what `out` holds.

    out/run.json                            what job this is; put once
    out/plan.json                           seeds and partitions, once the seed stream has ended; put once
    out/growth-00000001.json                larger limits of the same job; from then on plan-00000001.json is the plan
    out/commits/00000007.json               the entry of partition 7: its files (rows, bytes, sha256), counts and facts
    out/versions/00000003.json              entries of many partitions (datasets_out.commits.versions)
    out/data/TABLE/part-00000007.parquet    its rows
    out/snapshots/NAME.json                 a named list of committed files
    out/staging/  out/orphans/              unfinished files; files that no entry will ever name

Promise: a partition is there once and whole, or not at all, whatever dies when and however many writers try. We put
the data files, then the commit entry if none exists; an entry is never changed. No lock is taken. Price: 7 puts a
partition, on a disk 14 fsyncs.

Two attempts at one partition normally give equal bytes, and share one file. Where the bytes differ (the code changed
between attempts, an orphan rotted) the later attempt leaves the file alone: a live writer may be about to name it. It
puts its own file under a name that carries the sha256. Once an entry stands, no other file of its partition can ever be
named, and what it does not name is moved to `orphans/`, or deleted from a bucket. Files that it had before its failed
rows were asked again stay: an earlier version names them.
"""

import errno
import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import metadata
from operator import attrgetter
from pathlib import Path
from typing import Any

from foil.datasets_out.commits.encoding import encode, read_rows, seal, unseal
from foil.datasets_out.commits.entries import (
    ENTRY_NAME,
    FILE_NAME,
    CommitEntry,
    CommittedFile,
    content_name,
    difference,
    entry_name,
    parse_entry,
    shared_name,
)
from foil.datasets_out.commits.schema import SCHEMA_VERSION, TABLES, from_tables, to_tables
from foil.datasets_out.commits.version_reader import VersionReader
from foil.datasets_out.commits.versions import (
    FOLDER,
    LogTotals,
    PartitionRanges,
    StoredFile,
    Version,
    totals,
    version_name,
)
from foil.engine.atomic_files import FileSystem, sync
from foil.engine.crash_points import crash_point
from foil.engine.errors import (
    CommitError,
    CommitLostError,
    CommitUnknownError,
    CorruptDataError,
    DifferentJobError,
    NoRunError,
)
from foil.engine.flow.progress import count_topics, paid_calls, unread_requests
from foil.engine.ids import canonical_json, sha256_hex
from foil.engine.storage.links import inside
from foil.engine.storage.local_store import LocalStore
from foil.engine.storage.opening import open_store
from foil.engine.storage.store import Store, StoredObject
from foil.engine.topic import Call, Topic

_NUMBERED = re.compile(r"(?:growth|plan)-(?P<number>[0-9]{8})\.json")
FETCHES = 16
MAX_PARTITION = 99_999_999
_READ_BYTES = 8 << 20


class CommitLog:
    """Implements engine.protocols.CommitStore over a folder with hard links, or over a bucket.

    `out`: a folder, as `open_store` takes it, or a store. Reading needs no `open`. A writer process may commit once any
    process has opened the run. `run`: the fingerprint of the run that it commits for; then nothing is committed where
    another's lies by now.
    """

    def __init__(self, out: Path | Store, file_system: FileSystem | None = None, *, run: str = "") -> None:
        if file_system:
            assert isinstance(out, Path)
            self.store: Store = LocalStore(out, file_system)
        else:
            self.store = open_store(out) if isinstance(out, str | Path) else out
        self.out, self._run = self.store.folder, run
        self.versions = VersionReader(self.store)
        self._disk = (file_system or FileSystem()) if isinstance(self.store, LocalStore) else None
        self._inside: set[Path] = set()  # folders, each looked at once
        self._fingerprint = ""  # of the run that lies here, once it was read

    def open(self, fingerprint: str, job: Mapping[str, Any]) -> None:
        """Makes `out` the run of this job, or finds that it is. The fingerprint was taken over `job`.

        `limits.seeds` and `limits.accept` may be larger than those of the run: then they are its limits from now on.
        Raises DifferentJobError, showing the difference, if another job's run is there. Moves aside what dead attempts
        at committed partitions left behind.
        """
        names = ["commits", "journal", "snapshots", "staging", "orphans", *(f"data/{table}" for table in TABLES)]
        with self._storage("", 0):
            if self._disk:
                for name in names:
                    self._disk.mkdir(self.out / name)
        self.sync()
        new = {"fingerprint": fingerprint, "job": job, "schema_version": SCHEMA_VERSION}
        self.put_sealed("run.json", {**new, "begun_with": _foil_here()})
        while not self._is_run_of(new):
            self._grow(new)
        self._sweep_all()

    def sync(self) -> None:
        """Makes durable what stands here: a commit whose own sync failed may be seen, and still be lost."""
        with self._storage("", 0):
            if self._disk:
                for folder in (self.out / "commits", self.out / "data", self.out, self.out.parent):
                    with suppress(PermissionError):  # a parent may be closed to us
                        sync(folder, self._disk)

    def stands_for(self, fingerprint: str, job: Mapping[str, Any]) -> bool:
        """Whether this job's run is here, with these limits; then it is durable. Raises DifferentJobError as `open`."""
        if self.read_sealed("run.json") is None or self._is_unused(fingerprint):
            return False
        self.sync()
        return self._is_run_of({"fingerprint": fingerprint, "job": job, "schema_version": SCHEMA_VERSION})

    def _is_unused(self, fingerprint: str) -> bool:
        """Whether another job's run was opened here, and nothing was committed, asked or named in it."""
        run = self.read_sealed("run.json")
        kept = ("commits", "journal", "batches", "snapshots", "versions")
        return not (run is None or run["fingerprint"] == fingerprint or self._growths() or any(map(self._holds, kept)))

    def discard_unused(self, fingerprint: str) -> None:
        """Makes way where another job's run was opened, and nothing was committed, asked or named in it."""
        if not self._is_unused(fingerprint):
            return
        with self._storage("", 0):
            for name in ("plan.json", "sources.json", "run.json"):
                self.store.delete([name])

    def _is_run_of(self, new: Mapping[str, Any]) -> bool:
        """Whether the run that lies here is of this job; False where its limits must grow first."""
        run, growths = self.run(), self._growths()
        standing = {**run, "job": {**run["job"], "limits": growths[-1]["limits"]}} if growths else run
        same_schema = run["schema_version"] == new["schema_version"]
        if same_schema and (standing["job"] == new["job"] if growths else run["fingerprint"] == new["fingerprint"]):
            return True
        if same_schema and may_grow(standing["job"], new["job"]):
            return False
        raise DifferentJobError(
            f"{self.out} holds the run of another job{_begun_with(run)} ({_job_difference(standing, new)}); give this "
            f"job another `out` with `--reuse {self.out}`, so that no reply that still fits is paid for again, or go "
            "on with the settings, templates and version of Foil that began it (of a run, limits.seeds, limits.accept "
            "and the budget may grow)"
        )

    def _grow(self, new: Mapping[str, Any]) -> None:
        """Puts the larger limits. From this one file on the plan of the smaller run counts no more."""
        limits, growths = new["job"]["limits"], self._growths()
        sizes = {entry.partition: entry.counts.seeds.total() for entry in self.entries()}
        short = {str(partition): seeds for partition, seeds in sizes.items() if seeds < limits["partition_seeds"]}
        earlier = growths[-1]["short"] if growths else {}
        self._put_own(_growth_name(len(growths) + 1), {"limits": limits, "short": {**earlier, **short}})

    def _growths(self) -> list[dict[str, Any]]:
        """Each growth of the limits, in order. Raises CorruptDataError where one is missing or of another run."""
        growths: list[dict[str, Any]] = []
        while (growth := self._read_own(_growth_name(len(growths) + 1))) is not None:
            growths.append(growth)
        if (later := self.last_growth()) > len(growths):
            raise CorruptDataError(
                f"{self.out / _growth_name(len(growths) + 1)} is missing, and the limits of this run grew {later} "
                "times; restore it from a copy"
            )
        return growths

    def last_growth(self) -> int:
        """How often the limits grew, as the names of growths and their plans tell."""
        last = 0
        with self._storage("", 0):
            for kind in ("growth-", "plan-"):
                for found in self.store.list_objects("", after=kind):
                    if not (match := _NUMBERED.fullmatch(found.key)):
                        break
                    last = max(last, int(match["number"]))
        return last

    def limits(self) -> Mapping[str, Any]:
        """The limits that the run has by now."""
        growths = self._growths()
        limits: Mapping[str, Any] = growths[-1]["limits"] if growths else self.run()["job"].get("limits", {})
        return limits

    def growth_names(self) -> list[str]:
        """The documents of the growths that should stand here, with their plans."""
        return [name(number) for number in range(1, self.last_growth() + 1) for name in (_growth_name, _plan_name)]

    def short_partitions(self) -> Mapping[int, int] | None:
        growths = self._growths()
        return {int(partition): seeds for partition, seeds in growths[-1]["short"].items()} if growths else None

    def run(self) -> Mapping[str, Any]:
        """The run's fingerprint, job and schema version. Raises NoRunError if no run was opened here."""
        body = self.read_sealed("run.json")
        if body is None:
            raise NoRunError(f"{self.out} holds no run (no run.json); start one there with `foil run`")
        return body

    def fingerprint(self) -> str:
        """The run's fingerprint, read once."""
        self._fingerprint = self._fingerprint or str(self.run()["fingerprint"])
        return self._fingerprint

    def _checked_fingerprint(self) -> str:
        """The run's fingerprint, once it is sure that it is the run that we commit for, or one that grew into it."""
        if self._run and self._run != self.fingerprint():
            growths = self._growths()
            grown = {**self.run()["job"], "limits": growths[-1]["limits"]} if growths else {}
            if self._run != sha256_hex(canonical_json(grown))[: len(self._run)]:
                raise CommitError(
                    f"{self.out} has become the folder of another run; give one of them a folder of its own"
                )
            self._run = self.fingerprint()
        return self.fingerprint()

    def plan(self) -> Mapping[str, Any] | None:
        return self._read_own(_plan_name(len(self._growths())))

    def put_plan(self, plan: Mapping[str, Any]) -> None:
        """Raises DifferentJobError if another plan stands: the seeds changed under the same job.

        A plan is put when the work is done, so what dead attempts left is moved aside once more.
        """
        self._put_own(_plan_name(len(self._growths())), plan)
        standing = self.plan() or {}
        if any(plan[key] != standing[key] for key in plan.keys() & standing.keys()):
            raise DifferentJobError(
                f"{self.out} was planned as {standing}, and now as {dict(plan)}: the seeds changed between runs; "
                "restore them, or give this job another `out`"
            )
        self._sweep_all()

    def version(self) -> Version | None:
        """The newest version of the log; None where nothing was folded yet."""
        with self._storage(FOLDER, 0):
            return self.versions.newest()

    def read_version(self, number: int) -> Version:
        """A version of the log. Raises CorruptDataError where its document is missing or changed."""
        with self._storage(version_name(number), 0):
            return self.versions.read(number)

    def version_numbers(self) -> list[int]:
        """The versions whose documents are there, ascending."""
        with self._storage(FOLDER, 0):
            return self.versions.numbers()

    def extent(self) -> tuple[Version | None, list[int]]:
        """The newest version, and the partitions that are committed beyond it, ascending; no entry is opened.

        The entries are listed before the version is looked for: what a fold removed meanwhile, the version holds.
        """
        matches = map(ENTRY_NAME.fullmatch, self.names("commits"))
        listed = sorted(int(match["partition"]) for match in matches if match)
        version = self.version()
        return version, [partition for partition in listed if version is None or partition not in version.partitions]

    def partitions(self) -> list[int]:
        """The committed partitions, ascending; no entry is opened."""
        version, tail = self.extent()
        return sorted([*version.partitions, *tail]) if version else tail

    def sums(self) -> LogTotals:
        """The sums of all entries; only those that no version holds are opened."""
        version, entries = self.tail_entries()
        return totals(version, entries)

    def totals(self) -> Mapping[str, Any]:
        """The sums of all entries as plain JSON: `partitions`, and `counts` as an entry has them; see CommitStore."""
        sums, version = self.sums(), self.version()
        reopened = PartitionRanges.union(partitions for _, partitions in version.reopened) if version else ()
        return {"partitions": sums.partitions, "counts": sums.counts.plain(), "reopened": list(reopened)}

    def tail_entries(self) -> tuple[Version | None, list[CommitEntry]]:
        """The newest version, and the entries beyond it, as both stood at one moment."""
        while True:
            version, tail = self.extent()
            with suppress(_FoldedMeanwhileError):
                entries = [self.checked(self._read_file(partition)) for partition in tail]
                if self.version() is version:
                    return version, entries

    def read_files(self, partitions: Iterable[int]) -> list[CommitEntry]:
        """The entries that `commits/` has of partitions, without those that others have folded meanwhile."""
        entries = []
        for partition in partitions:
            with suppress(_FoldedMeanwhileError):
                entries.append(self.checked(self._read_file(partition)))
        return entries

    def committed(self) -> Mapping[int, Mapping[str, Any]]:
        """Partition -> its entry as plain JSON with the keys of `CommitEntry`, read as it is asked for."""
        return _CommittedEntries(self)

    def entries(self) -> list[CommitEntry]:
        """All entries in order of partition; see `entry`."""
        version, tail = self.tail_entries()
        folded = [self.folded_entry(version, partition) for partition in version.partitions] if version else []
        return sorted([*map(self.checked, folded), *tail], key=attrgetter("partition"))

    def entry(self, partition: int) -> CommitEntry:
        """The entry of a committed partition. Raises CorruptDataError if it is not as written, or of another run."""
        return self.checked(self.read_entry(partition))

    def checked(self, entry: CommitEntry) -> CommitEntry:
        """The entry. Raises CorruptDataError if it is of another run."""
        if entry.fingerprint != self.fingerprint():
            raise CorruptDataError(
                f"{self.out / entry_name(entry.partition)} is of another run ({entry.fingerprint}, and this run is "
                f"{self.fingerprint()}); remove it, and run the job again to make the partition anew"
            )
        return entry

    def read_entry(self, partition: int) -> CommitEntry:
        """The entry of a committed partition, whatever run it is of."""
        if (entry := self.find_entry(partition)) is None:
            raise CommitError(f"partition {partition} of {self.out} is not committed; run the job again")
        return entry

    def find_entry(self, partition: int) -> CommitEntry | None:
        """The entry of a partition; None where it is not committed.

        Its file is read before the version is looked for: what is put once a version holds the partition is no entry.
        """
        try:
            entry, problem = self._read_file(partition), None
        except _FoldedMeanwhileError:
            entry, problem = None, None
        except CorruptDataError as error:
            entry, problem = None, error
        version = self.version()
        if version and partition in version.partitions:
            return self.folded_entry(version, partition)
        if problem:
            raise problem
        return entry

    def folded_entry(self, version: Version, partition: int) -> CommitEntry:
        """The entry of a partition that a version holds."""
        with self._storage(FOLDER, 0):
            return self.versions.entry(version, partition)

    def _read_file(self, partition: int) -> CommitEntry:
        """The entry that `commits/` has of a partition."""
        if (body := self.read_sealed(entry_name(partition))) is None:
            raise _FoldedMeanwhileError
        return parse_entry(self.out / entry_name(partition), partition, body)

    @property
    def in_bucket(self) -> bool:
        """Whether its files lie in a bucket, and copies of them here."""
        return self._disk is None

    def locate(self, file: CommittedFile | StoredFile) -> Path:
        """Where a committed file lies on this machine, or a copy of it.

        Raises CorruptDataError if a link on the way leaves the run's folder, or a bucket holds other bytes than were
        committed, or none.
        """
        path = self.out / file.path
        if self._disk is None:
            with self._storage(file.path, file.bytes):
                try:
                    return self.store.fetch(file.path, file.sha256)
                except FileNotFoundError as error:
                    raise CorruptDataError(f"{self.store.url}/{file.path} is missing, and it was committed") from error
        if path.parent not in self._inside:
            self._inside.add(inside(self.out, path.parent))
        return inside(self.out, path) if path.is_symlink() else path

    def locate_all(self, files: Iterable[CommittedFile | StoredFile]) -> list[Path]:
        """`locate` for many files; copies of a bucket's files are made several at a time."""
        if self._disk:
            return list(map(self.locate, files))
        with ThreadPoolExecutor(FETCHES) as threads:
            return list(threads.map(self.locate, files))

    def read_ranges(self, places: Iterable[tuple[StoredFile, int]], length: int) -> list[bytes | None]:
        """So many bytes of each file from a place on, None where it is missing; of a bucket's several at a time."""
        if self._disk:
            return [self._read_range(file, start, length) for file, start in places]
        with ThreadPoolExecutor(FETCHES) as threads:
            return list(threads.map(lambda place: self._read_range(place[0], place[1], length), places))

    def _read_range(self, file: StoredFile, start: int, length: int) -> bytes | None:
        with self._storage(file.path, 0), suppress(FileNotFoundError):
            return self.store.get_range(file.path, start, length)
        return None

    def find_fault(self, file: CommittedFile | StoredFile) -> str:
        """`missing`, `resized` or `changed` if the file does not hold what was committed; "" if it does."""
        if self._disk is None:
            return self._find_fault_in_bucket(file)
        path = self.locate(file)
        with self._storage(file.path, 0):
            if not path.is_file():
                return "missing"
            if path.stat().st_size != file.bytes:
                return "resized"
            with path.open("rb") as stream:
                return "" if hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256 else "changed"

    def _find_fault_in_bucket(self, file: CommittedFile | StoredFile) -> str:
        digest, read = hashlib.sha256(), 0
        with self._storage(file.path, 0):
            try:
                while part := self.store.get_range(file.path, read, _READ_BYTES):
                    digest.update(part)
                    read += len(part)
            except FileNotFoundError:
                return "missing"
        if read != file.bytes:
            return "resized"
        return "" if digest.hexdigest() == file.sha256 else "changed"

    def put_sealed(self, name: str, body: Mapping[str, Any]) -> bool:
        """Puts a document (run.json, plan.json, a snapshot) unless another of that name is there; True if it stands."""
        return self._put(name, seal(body))

    def read_sealed(self, name: str) -> dict[str, Any] | None:
        """A document's body; None if there is none. Raises CorruptDataError if a bit of it has changed."""
        with self._storage(name, 0):
            raw = self.store.get(name)
        return None if raw is None else unseal(self.out / name, raw)

    def _put_own(self, name: str, body: Mapping[str, Any]) -> None:
        """Puts a document that says of which run it is."""
        self.put_sealed(name, {**body, "fingerprint": self.fingerprint()})

    def _read_own(self, name: str) -> dict[str, Any] | None:
        """A document of this run; None if there is none. Raises CorruptDataError for one of another run."""
        body = self.read_sealed(name)
        of_run = body.pop("fingerprint", None) if body else None
        if body is not None and of_run != self.fingerprint():
            raise CorruptDataError(f"{self.out / name} is of another run ({of_run}); restore this run's from a copy")
        return body

    def put_content(self, name: str, data: bytes) -> None:
        """Puts a file whose name carries the sha256 of its bytes."""
        if not self._put(name, data):
            raise CorruptDataError(f"{self.out / name} does not have the sha256 of its name; remove it")

    def put_file(self, name: str, path: Path) -> None:
        """Puts a file of any size."""
        with self._storage(name, path.stat().st_size):
            self.store.put_file(name, path)

    def scratch(self) -> Path | None:
        """A folder for files that are being made; None where that of the system will do."""
        return self.out / "staging" if self._disk else None

    def put_version(self, version: Version) -> bool:
        """Puts a version unless another of its number is there; True if it stands. What stands is durable then."""
        return self._put(version_name(version.number), version.sealed())

    def delete(self, names: Iterable[str]) -> None:
        """Removes files of the run."""
        with self._storage("", 0):
            self.store.delete(names)

    def commit(self, partition: int, topics: Sequence[Topic], facts: Mapping[str, Any]) -> bool:
        """Commits a partition; returns and raises CommitLostError as engine.protocols.CommitStore says.

        Raises CommitError naming path and bytes (disk full, quota): this call's entry does not stand;
        CommitUnknownError where the entry may or may not stand: the same call again settles that.
        """
        attempt, blobs = self._encode(partition, topics, facts)
        crash_point("commit.encoded")
        earlier = self.find_entry(partition)
        ours = self._publish(attempt, blobs) if earlier is None else None
        crash_point("commit.entered")
        if ours and (folded := self._folded(partition)) and folded != ours:
            self._take_back(ours)
            ours = None
        standing = ours or self.entry(partition)
        self._sweep(standing, [name for file in attempt.files.values() for name in (file.path, content_name(file))])
        crash_point("commit.swept")
        if differing := difference(standing, attempt):
            raise CommitLostError(
                f"another writer committed partition {partition} of {self.out} first, and differently ({differing}); "
                "its entry is the truth: go on from there"
            )
        return ours is not None

    def _folded(self, partition: int) -> CommitEntry | None:
        """The entry that a version holds of a partition: the one that counts, whatever lies in `commits/`."""
        with self._storage(entry_name(partition), 0, CommitUnknownError):
            version = self.versions.newest()
            return self.versions.entry(version, partition) if version and partition in version.partitions else None

    def entries_before(self, only: int | None = None) -> list[CommitEntry]:
        """The entries that partitions, or one of them, had before their failed rows were asked again."""
        return [entry for _, entry in self._before(only)]

    def _before(self, only: int | None = None) -> Iterator[tuple[Version, CommitEntry]]:
        """The same, each with the last version that holds it."""
        version = self.version()
        for number, partitions in version.reopened if version else ():
            if found := [partition for partition in partitions if only in {None, partition}]:
                earlier = self.read_version(number)
                yield from ((earlier, self.folded_entry(earlier, partition)) for partition in found)

    def files_before(self) -> Iterator[CommittedFile | StoredFile]:
        """The files from which those entries and their rows are read."""
        version = self.version()
        for number, _ in version.reopened if version else ():
            yield from self.read_version(number).files()
        for earlier, entry in self._before():
            if entry.partition not in earlier.packed:
                yield from entry.files.values()

    def topics_of(self, entry: CommitEntry, version: Version | None) -> list[Topic]:
        """The rows of an entry: one that a version holds, or one beyond it (None)."""
        if version is None:
            return from_tables({table: read_rows(self.locate(file)) for table, file in entry.files.items()})
        places = self.versions.places(version, entry)
        tables = {table: read_rows(self.locate(file), start, rows) for table, (file, start, rows) in places.items()}
        return from_tables(tables)

    def asked_again(self, partition: int) -> Mapping[str, Collection[str]]:
        """See engine.protocols.CommitStore."""
        found: dict[str, set[str]] = defaultdict(set)
        for version, entry in self._before(partition):
            for topic in self.topics_of(entry, version):
                found[topic.seed_id].update(unread_requests(topic))
        return found

    def replaced_calls(self, partition: int) -> Iterable[Call]:
        """See engine.protocols.CommitStore."""
        before = [topic for version, entry in self._before(partition) for topic in self.topics_of(entry, version)]
        version = self.version()
        held = version if version and partition in version.partitions else None
        now = self.topics_of(self.entry(partition), held) if before else []
        return paid_calls(before, {call.request_id for topic in now for call in topic.calls})

    def _take_back(self, late: CommitEntry) -> None:
        """Removes an entry that was put after a version had another of its partition; no reader saw it."""
        with suppress(OSError):
            self.store.delete([entry_name(late.partition)])

    def _encode(
        self, partition: int, topics: Sequence[Topic], facts: Mapping[str, Any]
    ) -> tuple[CommitEntry, dict[str, bytes]]:
        """The entry that this attempt would put, and the bytes of its files by table."""
        if not 0 <= partition <= MAX_PARTITION:
            raise CommitError(f"partition {partition} is outside 0 to {MAX_PARTITION}; make partitions larger")
        fingerprint = self._checked_fingerprint()
        tables = to_tables(topics, partition)
        blobs = {table: encode(rows) for table, rows in tables.items()}
        files = {
            table: CommittedFile(shared_name(table, partition), tables[table].num_rows, len(blob), sha256_hex(blob))
            for table, blob in blobs.items()
        }
        as_stored = json.loads(canonical_json(facts))
        return CommitEntry(partition, fingerprint, SCHEMA_VERSION, files, count_topics(topics), as_stored), blobs

    def _publish(self, attempt: CommitEntry, blobs: Mapping[str, bytes]) -> CommitEntry | None:
        """Puts the files, then the entry that names them; None if another entry was first."""
        if self._disk:
            files = {table: self._put_file(file, blobs[table]) for table, file in attempt.files.items()}
        else:  # a round trip each, so at once
            with ThreadPoolExecutor(len(blobs)) as pool:
                placed = pool.map(lambda table: self._put_file(attempt.files[table], blobs[table]), attempt.files)
                files = dict(zip(attempt.files, placed, strict=True))
        crash_point("commit.placed")
        entry = replace(attempt, files=files)
        first = self._put(entry_name(entry.partition), seal(entry.plain()), CommitUnknownError)
        return entry if first else None

    def _put_file(self, file: CommittedFile, blob: bytes) -> CommittedFile:
        if self._put(file.path, blob):
            return file
        other = replace(file, path=content_name(file))
        with self._storage(other.path, len(blob)):
            self.store.put(other.path, blob)
        return other

    def _put(self, name: str, data: bytes, doubt: type[CommitError] = CommitError) -> bool:
        """Whether these bytes stand under the name now."""
        with self._storage(name, len(data), doubt):
            return self.store.put_if_absent(name, data) is None

    def _holds(self, folder: str) -> bool:
        """Whether anything lies in a folder."""
        with self._storage(folder, 0):
            return any(True for _ in self.store.list_objects(folder)) or bool(self.store.streams(folder))

    def names(self, folder: str) -> list[str]:
        """The names in a folder of the run, `folder/name`, in order."""
        return [found.key for found in self.objects(folder)]

    def objects(self, folder: str) -> list[StoredObject]:
        """What lies in a folder of the run, in order of name."""
        with self._storage(folder, 0):
            return list(self.store.list_objects(folder))

    @contextmanager
    def _storage(self, name: str, need: int, error_class: type[CommitError] = CommitError) -> Iterator[None]:
        place = f"{self.store.url}/{name}".removesuffix("/")
        with _told(place, need, error_class):
            yield

    def _sweep(self, standing: CommitEntry, names: Iterable[str]) -> None:
        """Moves files of a committed partition aside that its entry does not name: no entry ever can.

        Synced, or a power cut would put them back among a finished run's, where a plain glob reads them.
        """
        before = [file.path for entry in self.entries_before(standing.partition) for file in entry.files.values()]
        named = {file.path for file in standing.files.values()}.union(before)
        for name in sorted(set(names) - named):
            with suppress(OSError):
                if self._disk:
                    aside = self.out / "orphans" / name.removeprefix("data/").replace("/", "-")
                    self._disk.replace(self.out / name, aside)
                    sync((self.out / name).parent, self._disk)
                else:
                    self.store.delete([name])

    def _sweep_all(self) -> None:
        """Repeats the sweeps that a crash cut short: a committed partition with more files than tables needs one."""
        names_of: dict[int, list[str]] = defaultdict(list)
        for table in TABLES:
            for name in self.names(f"data/{table}"):
                if match := FILE_NAME.fullmatch(name):
                    names_of[int(match["partition"])].append(name)
        committed = set(self.partitions())
        for partition, names in names_of.items():
            if len(names) > len(TABLES) and partition in committed:
                self._sweep(self.entry(partition), names)


class _FoldedMeanwhileError(Exception):
    """An entry that was listed is not in `commits/` any more."""


class _CommittedEntries(Mapping[int, Mapping[str, Any]]):
    """The entries of a log as plain JSON, read one at a time; which there are is read once."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._version, tail = log.extent()
        self._folded = self._version.partitions if self._version else PartitionRanges(())
        self._partitions = PartitionRanges.union([PartitionRanges.of(tail), self._folded])

    def __getitem__(self, partition: int) -> Mapping[str, Any]:
        if partition not in self._partitions:
            raise KeyError(partition)
        if self._version and partition in self._folded:
            return self._log.checked(self._log.folded_entry(self._version, partition)).plain()
        return self._log.entry(partition).plain()

    def __contains__(self, partition: object) -> bool:
        return partition in self._partitions

    def __iter__(self) -> Iterator[int]:
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)


def may_grow(standing: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether two jobs are one but for larger `limits.seeds` and `limits.accept`; None is without limit."""
    old_limits, limits = standing.get("limits", {}), new.get("limits", {})
    if old_limits == limits or {**standing, "limits": limits} != new:
        return False
    growing = ("seeds", "accept")
    fixed = (old_limits.keys() | limits.keys()) - set(growing)
    return all(old_limits.get(key) == limits.get(key) for key in fixed) and all(
        (limits.get(key) or math.inf) >= (old_limits.get(key) or math.inf) for key in growing
    )


def _growth_name(number: int) -> str:
    return f"growth-{number:08d}.json"


def _plan_name(growths: int) -> str:
    return f"plan-{growths:08d}.json" if growths else "plan.json"


@contextmanager
def _told(place: str, need: int, error_class: type[CommitError]) -> Iterator[None]:
    """Turns what the storage raises into an error that says where, how much, and what to do."""
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
        raise error_class(f"{place}: {error.strerror or error}{room}; {doubt}{advice} and run again") from error


def _foil_here() -> str:
    """The installed version of Foil; "" where it runs from a folder."""
    try:
        return metadata.version("foil-ir")
    except metadata.PackageNotFoundError:
        return ""


def _begun_with(run: Mapping[str, Any]) -> str:
    """Which version of Foil began a run, and which one this is, where they are known to differ."""
    began, here = run.get("begun_with", ""), _foil_here()
    by = f"Foil {began}" if began else "an earlier version of Foil"
    return f", begun by {by}; this is {here or 'one without a version'}" if began != here else ""


def _job_difference(standing: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The first settings in which two runs differ, as `key: standing -> other`."""
    old, new = (dict(_flatten({**run["job"], "schema_version": run["schema_version"]})) for run in (standing, other))
    keys = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    differences = ", ".join(f"{key}: {old.get(key, 'unset')} -> {new.get(key, 'unset')}" for key in keys[:8])
    more = f" and {len(keys) - 8} more" if len(keys) > 8 else ""
    return differences + more or "same settings, other code, templates or indexes"


def _flatten(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flatten(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, canonical_json(value)
