"""The files of a run, in a folder with hard links or in a bucket: how they are put, listed, found and checked.

Promise: what the storage raises is turned into an error that says where, how much room was needed, and what to do.
"""

import errno
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from foil.datasets_out.commits.encoding import seal, unseal
from foil.datasets_out.commits.entries import CommittedFile
from foil.engine.atomic_files import FileSystem, sync
from foil.engine.errors import CommitError, CommitUnknownError, CorruptDataError
from foil.engine.storage.local_store import LocalStore
from foil.engine.storage.opening import open_store
from foil.engine.storage.store import Store, StoredObject, inside

FETCHES = 16
_READ_BYTES = 8 << 20


class RunFiles:
    """`out`: a folder, as `open_store` takes it, or a store. `disk` is None where the files lie in a bucket."""

    def __init__(self, out: Path | Store, file_system: FileSystem | None = None) -> None:
        if file_system:
            assert isinstance(out, Path)
            self.store: Store = LocalStore(out, file_system)
        else:
            self.store = open_store(out) if isinstance(out, str | Path) else out
        self.out = self.store.folder
        self.disk = (file_system or FileSystem()) if isinstance(self.store, LocalStore) else None
        self._inside: set[Path] = set()  # folders, each looked at once

    @contextmanager
    def guard(self, name: str, need: int, error_class: type[CommitError] = CommitError) -> Iterator[None]:
        """Turns what the storage raises into an error that says where, how much, and what to do."""
        try:
            yield
        except OSError as error:
            place = f"{self.store.url}/{name}".removesuffix("/")
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

    def sync(self) -> None:
        """Makes durable what stands here: a commit whose own sync failed may be seen, and still be lost."""
        with self.guard("", 0):
            if self.disk:
                for folder in (self.out / "commits", self.out / "data", self.out, self.out.parent):
                    with suppress(PermissionError):  # a parent may be closed to us
                        sync(folder, self.disk)

    def make_folders(self, names: Iterable[str]) -> None:
        """Makes folders of the run where they are missing; a bucket needs none."""
        with self.guard("", 0):
            if self.disk:
                for name in names:
                    self.disk.mkdir(self.out / name)

    def put(self, name: str, data: bytes, doubt: type[CommitError] = CommitError) -> bool:
        """Whether these bytes stand under the name now."""
        with self.guard(name, len(data), doubt):
            return self.store.put_if_absent(name, data) is None

    def put_content(self, name: str, data: bytes) -> None:
        """Puts a file whose name carries the sha256 of its bytes."""
        if not self.put(name, data):
            raise CorruptDataError(f"{self.out / name} does not have the sha256 of its name; remove it")

    def put_file(self, name: str, path: Path) -> None:
        """Puts a file of any size."""
        with self.guard(name, path.stat().st_size):
            self.store.put_file(name, path)

    def put_sealed(self, name: str, body: Mapping[str, Any]) -> bool:
        """Puts a document (run.json, plan.json, a snapshot) unless another of that name is there; True if it stands."""
        return self.put(name, seal(body))

    def read_sealed(self, name: str) -> dict[str, Any] | None:
        """A document's body; None if there is none. Raises CorruptDataError if a bit of it has changed."""
        with self.guard(name, 0):
            raw = self.store.get(name)
        return None if raw is None else unseal(self.out / name, raw)

    def delete(self, names: Iterable[str]) -> None:
        with self.guard("", 0):
            self.store.delete(names)

    def set_aside(self, name: str) -> None:
        """Moves a file to `orphans/`, or deletes it from a bucket.

        Synced, or a power cut would put it back among a finished run's, where a plain glob reads it.
        """
        with suppress(OSError):
            if self.disk:
                aside = self.out / "orphans" / name.removeprefix("data/").replace("/", "-")
                self.disk.replace(self.out / name, aside)
                sync((self.out / name).parent, self.disk)
            else:
                self.store.delete([name])

    def holds(self, folder: str) -> bool:
        """Whether anything lies in a folder."""
        with self.guard(folder, 0):
            return any(True for _ in self.store.list_objects(folder)) or bool(self.store.streams(folder))

    def names(self, folder: str) -> list[str]:
        """The names in a folder of the run, `folder/name`, in order."""
        return [stored.key for stored in self.objects(folder)]

    def objects(self, folder: str) -> list[StoredObject]:
        """What lies in a folder of the run, in order of name."""
        with self.guard(folder, 0):
            return list(self.store.list_objects(folder))

    def scratch(self) -> Path | None:
        """A folder for files that are being made; None where that of the system will do."""
        return self.out / "staging" if self.disk else None

    def locate(self, file: CommittedFile) -> Path:
        """Where a committed file lies on this machine, or a copy of it.

        Raises CorruptDataError if a link on the way leaves the run's folder, or a bucket holds other bytes than were
        committed, or none.
        """
        path = self.out / file.path
        if self.disk is None:
            with self.guard(file.path, file.bytes):
                try:
                    return self.store.fetch(file.path, file.sha256)
                except FileNotFoundError as error:
                    raise CorruptDataError(f"{self.store.url}/{file.path} is missing, and it was committed") from error
        if path.parent not in self._inside:
            self._inside.add(inside(self.out, path.parent))
        return inside(self.out, path) if path.is_symlink() else path

    def locate_all(self, files: Iterable[CommittedFile]) -> list[Path]:
        """`locate` for many files; copies of a bucket's files are made several at a time."""
        if self.disk:
            return list(map(self.locate, files))
        with ThreadPoolExecutor(FETCHES) as threads:
            return list(threads.map(self.locate, files))

    def read_ranges(self, places: Iterable[tuple[CommittedFile, int]], length: int) -> list[bytes | None]:
        """So many bytes of each file from a place on, None where it is missing; of a bucket's several at a time."""
        if self.disk:
            return [self._read_range(file, start, length) for file, start in places]
        with ThreadPoolExecutor(FETCHES) as threads:
            return list(threads.map(lambda place: self._read_range(place[0], place[1], length), places))

    def _read_range(self, file: CommittedFile, start: int, length: int) -> bytes | None:
        with self.guard(file.path, 0), suppress(FileNotFoundError):
            return self.store.get_range(file.path, start, length)
        return None

    def find_fault(self, file: CommittedFile) -> str:
        """`missing`, `resized` or `changed` if the file does not hold what was committed; "" if it does."""
        if self.disk is None:
            return self._find_fault_in_bucket(file)
        path = self.locate(file)
        with self.guard(file.path, 0):
            if not path.is_file():
                return "missing"
            if path.stat().st_size != file.bytes:
                return "resized"
            with path.open("rb") as stream:
                return "" if hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256 else "changed"

    def _find_fault_in_bucket(self, file: CommittedFile) -> str:
        digest, read = hashlib.sha256(), 0
        with self.guard(file.path, 0):
            try:
                while part := self.store.get_range(file.path, read, _READ_BYTES):
                    digest.update(part)
                    read += len(part)
            except FileNotFoundError:
                return "missing"
        if read != file.bytes:
            return "resized"
        return "" if digest.hexdigest() == file.sha256 else "changed"
