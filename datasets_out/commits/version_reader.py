"""Finds the newest version of a run's log, and reads the entries that its manifests hold.

Promise: a version is found once it is durable, and every file is held against its sha256 as it is read. Price: a
manifest is read whole (about 1.5 MB), and the last few stay in memory.
"""

import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from foil.datasets_out.commits.entries import CommitEntry, CommittedFile, content_name, shared_name
from foil.datasets_out.commits.schema import SCHEMA_VERSION, TABLES
from foil.datasets_out.commits.versions import FOLDER, VERSION_NAME, Manifest, Version, read_version, version_name
from foil.engine.errors import CorruptDataError
from foil.engine.flow.progress import Counts, counts_of
from foil.engine.ids import sha256_hex
from foil.engine.storage.store import Store

T = TypeVar("T")
Place = tuple[CommittedFile, int, int | None]
"""A file, the first of its rows, and how many they are; None for all."""
_KEPT = 4
"""Manifests whose rows stay in memory, and as many files of facts."""


class ManifestRows:
    """The entries of a manifest, made one at a time. `raw` must have the sha256 that the version names."""

    def __init__(self, fingerprint: str, manifest: Manifest, raw: bytes) -> None:
        self._fingerprint, self.manifest = fingerprint, manifest
        self._table = pq.read_table(pa.BufferReader(raw))
        self._columns: dict[str, list[Any]] = {}

    def _column(self, name: str) -> list[Any]:
        if name not in self._columns:
            self._columns[name] = self._table[name].to_pylist()
        return self._columns[name]

    def files(self, partition: int) -> dict[str, CommittedFile]:
        """The files of a partition, as its entry names them."""
        return {table: self.file(table, partition) for table in TABLES}

    def file(self, table: str, partition: int) -> CommittedFile:
        """The file of a partition and table, as its entry names it."""
        row = self.manifest.partitions.position(partition)
        rows, nbytes, sha256, own_name = (
            self._column(f"{table}_{name}")[row] for name in ("rows", "bytes", "sha256", "own_name")
        )
        file = CommittedFile(shared_name(table, partition), rows, nbytes, sha256.hex())
        return replace(file, path=content_name(file)) if own_name else file

    def counts(self, partition: int) -> Counts:
        text = self._column("counts")[self.manifest.partitions.position(partition)]
        return counts_of({"counts": json.loads(text)})

    def entry(self, partition: int, facts: "FactsRows") -> CommitEntry:
        counts, files = self.counts(partition), self.files(partition)
        return CommitEntry(partition, self._fingerprint, SCHEMA_VERSION, files, counts, facts.of(partition))


class FactsRows:
    """The facts of a manifest's partitions."""

    def __init__(self, manifest: Manifest, raw: bytes) -> None:
        self._manifest = manifest
        self._facts = pq.read_table(pa.BufferReader(raw), columns=["facts"])["facts"].combine_chunks()

    def of(self, partition: int) -> Mapping[str, Any]:
        facts: dict[str, Any] = json.loads(self._facts[self._manifest.partitions.position(partition)].as_py())
        return facts


class VersionReader:
    """Reads versions from a store. OSError is the store's."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._number: int | None = None  # of the newest, 0 for none, once it was looked for
        self._newest: Version | None = None
        self._rows: OrderedDict[str, ManifestRows] = OrderedDict()
        self._facts: OrderedDict[str, FactsRows] = OrderedDict()

    def newest(self) -> Version | None:
        """The newest version that stands now; None where there is none. One call to the store, mostly."""
        if self._number is None:
            self._number = max(self.numbers(), default=0)
            self._newest = self.read(self._number) if self._number else None
        while (raw := self._store.get(version_name(self._number + 1))) is not None:
            path = self._store.folder / version_name(self._number + 1)
            self._newest = read_version(path, self._number + 1, raw)
            self._number += 1
        return self._newest

    def numbers(self) -> list[int]:
        """The versions whose documents are there, ascending."""
        matches = (VERSION_NAME.fullmatch(document.key) for document in self._store.list_objects(FOLDER))
        return sorted(int(match["number"]) for match in matches if match)

    def read(self, number: int) -> Version:
        """A version. Raises CorruptDataError where its document is missing or changed."""
        path = self._store.folder / version_name(number)
        if (raw := self._store.get(version_name(number))) is None:
            raise CorruptDataError(f"{path} is missing; restore it from a copy")
        return read_version(path, number, raw)

    def entry(self, version: Version, partition: int) -> CommitEntry:
        manifest = version.manifest_of(partition)
        return self.rows(version, manifest).entry(partition, self.facts(manifest))

    def places(self, version: Version, entry: CommitEntry) -> dict[str, Place]:
        """Where the rows of a partition that the version holds lie, by table."""
        if (pack := version.pack_of(entry.partition)) is None:
            return {table: (file, 0, None) for table, file in entry.files.items()}
        starts: Counter[str] = Counter()
        for partition in range(pack.first, entry.partition):
            rows = self.rows(version, version.manifest_of(partition))
            starts.update({table: rows.file(table, partition).rows for table in entry.files})
        return {table: (pack.files[table], starts[table], file.rows) for table, file in entry.files.items()}

    def rows(self, version: Version, manifest: Manifest) -> ManifestRows:
        return self._cached(self._rows, manifest.entries, lambda raw: ManifestRows(version.fingerprint, manifest, raw))

    def facts(self, manifest: Manifest) -> FactsRows:
        """The facts of a manifest's partitions."""
        return self._cached(self._facts, manifest.facts, lambda raw: FactsRows(manifest, raw))

    def _cached(self, recent: OrderedDict[str, T], file: CommittedFile, read: Callable[[bytes], T]) -> T:
        if file.sha256 not in recent:
            recent[file.sha256] = read(self.raw(file))
            while len(recent) > _KEPT:
                recent.popitem(last=False)
        return recent[file.sha256]

    def raw(self, file: CommittedFile) -> bytes:
        """The bytes of a manifest or its facts. Raises CorruptDataError for other bytes than the version names."""
        raw, path = self._store.get(file.path), self._store.folder / file.path
        if raw is None:
            raise CorruptDataError(f"{path} is missing, and the versions of the log name it; restore it from a copy")
        if sha256_hex(raw) != file.sha256:
            raise CorruptDataError(
                f"{path} ({len(raw)} bytes) does not have the sha256 of its name: it was changed or cut; restore it "
                "from a copy"
            )
        return raw
