"""Finds the newest version of a run's log, and reads the entries that its manifests hold.

Promise: a version is found once it is durable, and every file is held against its sha256 as it is read. Price: a
manifest is read whole (about 1.5 MB), and the last few stay in memory.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import TypeVar

from foil.datasets_out.commits.entries import CommitEntry, CommittedFile
from foil.datasets_out.commits.versions import (
    FOLDER,
    VERSION_NAME,
    FactsRows,
    Manifest,
    ManifestRows,
    StoredFile,
    Version,
    read_version,
    version_name,
)
from foil.engine.errors import CorruptDataError
from foil.engine.ids import sha256_hex
from foil.engine.storage.store import Store

T = TypeVar("T")
Place = tuple[CommittedFile | StoredFile, int, int | None]
"""A file, the first of its rows, and how many they are; None for all."""
_KEPT = 4
"""Manifests whose rows stay in memory, and as many files of facts."""


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
        matches = (VERSION_NAME.fullmatch(found.key) for found in self._store.list_objects(FOLDER))
        return sorted(int(match["number"]) for match in matches if match)

    def read(self, number: int) -> Version:
        """A version. Raises CorruptDataError where its document is missing or changed."""
        path = self._store.folder / version_name(number)
        if (raw := self._store.get(version_name(number))) is None:
            raise CorruptDataError(f"{path} is missing; restore it from a copy")
        return read_version(path, number, raw)

    def entry(self, version: Version, partition: int) -> CommitEntry:
        """The entry of a partition that the version holds."""
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
        """The entries of a manifest."""
        made = lambda raw: ManifestRows(version.fingerprint, manifest, raw)  # noqa: E731
        return self._cached(self._rows, manifest.entries, made)

    def facts(self, manifest: Manifest) -> FactsRows:
        """The facts of a manifest's partitions."""
        return self._cached(self._facts, manifest.facts, lambda raw: FactsRows(manifest, raw))

    def _cached(self, kept: "OrderedDict[str, T]", file: StoredFile, made: Callable[[bytes], T]) -> T:
        if (found := kept.get(file.sha256)) is not None:
            return found
        found = made(self.raw(file))
        kept[file.sha256] = found
        while len(kept) > _KEPT:
            kept.popitem(last=False)
        return found

    def raw(self, file: StoredFile) -> bytes:
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
