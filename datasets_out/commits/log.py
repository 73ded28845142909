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

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from foil.datasets_out.commits.encoding import encode, seal
from foil.datasets_out.commits.entries import (
    FILE_NAME,
    CommitEntry,
    CommittedFile,
    content_name,
    difference,
    entry_name,
    shared_name,
)
from foil.datasets_out.commits.log_reader import LogReader
from foil.datasets_out.commits.run_documents import RunDocuments
from foil.datasets_out.commits.run_files import RunFiles
from foil.datasets_out.commits.schema import SCHEMA_VERSION, TABLES, to_tables
from foil.engine.atomic_files import FileSystem
from foil.engine.crash_points import crash_point
from foil.engine.errors import CommitError, CommitLostError, CommitUnknownError
from foil.engine.flow.progress import count_topics
from foil.engine.ids import canonical_json, sha256_hex
from foil.engine.storage.store import Store
from foil.engine.topic import Topic

MAX_PARTITION = 99_999_999


class CommitLog(LogReader):
    """Implements engine.protocols.CommitStore over a folder with hard links, or over a bucket.

    `out`: a folder, as `open_store` takes it, or a store. Reading needs no `open`. A writer process may commit once any
    process has opened the run. `run`: the fingerprint of the run that it commits for; then nothing is committed where
    another's lies by now.
    """

    def __init__(self, out: Path | Store, file_system: FileSystem | None = None, *, run: str = "") -> None:
        files = RunFiles(out, file_system)
        super().__init__(files, RunDocuments(files, run))
        self.store = files.store

    def open(self, fingerprint: str, job: Mapping[str, Any]) -> None:
        """Makes `out` the run of this job, or finds that it is. The fingerprint was taken over `job`.

        `limits.seeds` and `limits.accept` may be larger than those of the run: then they are its limits from now on.
        Raises DifferentJobError, showing the difference, if another job's run is there. Moves aside what dead attempts
        at committed partitions left behind.
        """
        names = ["commits", "journal", "snapshots", "staging", "orphans", *(f"data/{table}" for table in TABLES)]
        self.files.make_folders(names)
        self.files.sync()
        self.documents.begin(fingerprint, job, self._sizes)
        self._sweep_all()

    def _sizes(self) -> Mapping[int, int]:
        """The seeds of each committed partition."""
        return {entry.partition: entry.counts.seeds.total() for entry in self.entries()}

    def run(self) -> Mapping[str, Any]:
        """The run's fingerprint, job and schema version. Raises NoRunError if no run was opened here."""
        return self.documents.run()

    def fingerprint(self) -> str:
        """The run's fingerprint, read once."""
        return self.documents.fingerprint()

    def plan(self) -> Mapping[str, Any] | None:
        return self.documents.plan()

    def short_partitions(self) -> Mapping[int, int] | None:
        return self.documents.short_partitions()

    def put_plan(self, plan: Mapping[str, Any]) -> None:
        """Raises DifferentJobError if another plan stands: the seeds changed under the same job.

        A plan is put when the work is done, so what dead attempts left is moved aside once more.
        """
        self.documents.put_plan(plan)
        self._sweep_all()

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
            with suppress(OSError):  # it was put after a version had another of its partition; no reader saw it
                self.store.delete([entry_name(partition)])
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
        with self.files.guard(entry_name(partition), 0, CommitUnknownError):
            version = self.versions.newest()
            return self.versions.entry(version, partition) if version and partition in version.partitions else None

    def _encode(
        self, partition: int, topics: Sequence[Topic], facts: Mapping[str, Any]
    ) -> tuple[CommitEntry, dict[str, bytes]]:
        """The entry that this attempt would put, and the bytes of its files by table."""
        if not 0 <= partition <= MAX_PARTITION:
            raise CommitError(f"partition {partition} is outside 0 to {MAX_PARTITION}; make partitions larger")
        fingerprint = self.documents.checked_fingerprint()
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
        if self.files.disk:
            files = {table: self._put_file(file, blobs[table]) for table, file in attempt.files.items()}
        else:  # a round trip each, so at once
            with ThreadPoolExecutor(len(blobs)) as pool:
                placed = pool.map(lambda table: self._put_file(attempt.files[table], blobs[table]), attempt.files)
                files = dict(zip(attempt.files, placed, strict=True))
        crash_point("commit.placed")
        entry = replace(attempt, files=files)
        first = self.files.put(entry_name(entry.partition), seal(entry.plain()), CommitUnknownError)
        return entry if first else None

    def _put_file(self, file: CommittedFile, blob: bytes) -> CommittedFile:
        if self.files.put(file.path, blob):
            return file
        own = replace(file, path=content_name(file))
        with self.files.guard(own.path, len(blob)):
            self.store.put(own.path, blob)
        return own

    def _sweep(self, standing: CommitEntry, names: Iterable[str]) -> None:
        """Moves files of a committed partition aside that its entry does not name: no entry ever can."""
        entries = (standing, *self.entries_before(standing.partition))
        live = {file.path for entry in entries for file in entry.files.values()}
        for name in sorted(set(names) - live):
            self.files.set_aside(name)

    def _sweep_all(self) -> None:
        """Repeats the sweeps that a crash cut short: a committed partition with more files than tables needs one."""
        names_of: dict[int, list[str]] = defaultdict(list)
        for table in TABLES:
            for name in self.files.names(f"data/{table}"):
                if match := FILE_NAME.fullmatch(name):
                    names_of[int(match["partition"])].append(name)
        committed = set(self.partitions())
        for partition, names in names_of.items():
            if len(names) > len(TABLES) and partition in committed:
                self._sweep(self.entry(partition), names)
