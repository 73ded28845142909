"""Reads which partitions a run holds: entries in `commits/`, and those that a version of the log holds."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from operator import attrgetter
from typing import Any

from foil.datasets_out.commits.encoding import read_rows
from foil.datasets_out.commits.entries import ENTRY_NAME, CommitEntry, CommittedFile, entry_name, parse_entry
from foil.datasets_out.commits.run_documents import RunDocuments
from foil.datasets_out.commits.run_files import RunFiles
from foil.datasets_out.commits.schema import from_tables
from foil.datasets_out.commits.version_reader import VersionReader
from foil.datasets_out.commits.versions import FOLDER, LogTotals, PartitionRanges, Version, totals, version_name
from foil.engine.errors import CommitError, CorruptDataError
from foil.engine.flow.progress import paid_calls, unread_requests
from foil.engine.topic import Call, Topic


class LogReader:
    """What the commit log of a run says; the newest version is kept, its last manifests, and the
    versions before failed rows were asked again."""

    def __init__(self, files: RunFiles, documents: RunDocuments) -> None:
        self.files, self.out, self.documents = files, files.out, documents
        self.versions = VersionReader(files.store)
        self._earlier: dict[int, Version] = {}

    def version(self) -> Version | None:
        """The newest version of the log; None where nothing was folded yet."""
        with self.files.guard(FOLDER, 0):
            return self.versions.newest()

    def read_version(self, number: int) -> Version:
        """A version of the log. Raises CorruptDataError where its document is missing or changed."""
        with self.files.guard(version_name(number), 0):
            return self.versions.read(number)

    def put_version(self, version: Version) -> bool:
        """Puts a version unless another of its number is there; True if it stands. What stands is durable then."""
        return self.files.put(version_name(version.number), version.sealed())

    def version_numbers(self) -> list[int]:
        """The versions whose documents are there, ascending."""
        with self.files.guard(FOLDER, 0):
            return self.versions.numbers()

    def extent(self) -> tuple[Version | None, list[int]]:
        """The newest version, and the partitions that are committed beyond it, ascending; no entry is opened.

        The entries are listed before the version is looked for: what a fold removed meanwhile, the version holds.
        """
        matches = map(ENTRY_NAME.fullmatch, self.files.names("commits"))
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
        if entry.fingerprint != self.documents.fingerprint():
            raise CorruptDataError(
                f"{self.out / entry_name(entry.partition)} is of another run ({entry.fingerprint}, and this run is "
                f"{self.documents.fingerprint()}); remove it, and run the job again to make the partition anew"
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
        with self.files.guard(FOLDER, 0):
            return self.versions.entry(version, partition)

    def _read_file(self, partition: int) -> CommitEntry:
        if (body := self.files.read_sealed(entry_name(partition))) is None:
            raise _FoldedMeanwhileError
        return parse_entry(self.out / entry_name(partition), partition, body)

    def topics_of(self, entry: CommitEntry, version: Version | None) -> list[Topic]:
        """The rows of an entry: one that a version holds, or one beyond it (None)."""
        if version is None:
            return from_tables({table: read_rows(self.files.locate(file)) for table, file in entry.files.items()})
        places = self.versions.places(version, entry).items()
        return from_tables({table: read_rows(self.files.locate(file), at, rows) for table, (file, at, rows) in places})

    def entries_before(self, only: int | None = None) -> list[CommitEntry]:
        """The entries that partitions, or one of them, had before their failed rows were asked again."""
        return [entry for _, entry in self._before(only)]

    def _before(self, only: int | None = None) -> Iterator[tuple[Version, CommitEntry]]:
        """The same, each with the last version that holds it."""
        version = self.version()
        for number, partitions in version.reopened if version else ():
            if matches := [partition for partition in partitions if only in {None, partition}]:
                if number not in self._earlier:
                    self._earlier[number] = self.read_version(number)
                earlier = self._earlier[number]
                yield from ((earlier, self.folded_entry(earlier, partition)) for partition in matches)

    def files_before(self) -> Iterator[CommittedFile]:
        """The files from which those entries and their rows are read."""
        version = self.version()
        for number, _ in version.reopened if version else ():
            yield from self.read_version(number).files()
        for earlier, entry in self._before():
            if entry.partition not in earlier.packed:
                yield from entry.files.values()

    def asked_again(self, partition: int) -> Mapping[str, Collection[str]]:
        requests: dict[str, set[str]] = defaultdict(set)
        for version, entry in self._before(partition):
            for topic in self.topics_of(entry, version):
                requests[topic.seed_id].update(unread_requests(topic))
        return requests

    def replaced_calls(self, partition: int) -> Iterable[Call]:
        before = [topic for version, entry in self._before(partition) for topic in self.topics_of(entry, version)]
        version = self.version()
        holder = version if version and partition in version.partitions else None
        now = self.topics_of(self.entry(partition), holder) if before else []
        return paid_calls(before, {call.request_id for topic in now for call in topic.calls})


class _FoldedMeanwhileError(Exception):
    """An entry that was listed is not in `commits/` any more."""


class _CommittedEntries(Mapping[int, Mapping[str, Any]]):
    """The entries of a log as plain JSON, read one at a time; which there are is read once."""

    def __init__(self, log: LogReader) -> None:
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
