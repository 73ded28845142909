"""A run in a folder of this machine, or of a file system with hard links that several machines share."""

import errno
import mmap
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from foil.engine.atomic_files import FileSystem, link_if_absent, replace_file, sync, write_new
from foil.engine.crash_points import crash_point
from foil.engine.storage.store import DRAFTS, Appender, StoredObject, check_key, inside

ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
"""What the operating system answers where no file can be."""
_DELETED_MEANWHILE = 16
"""Attempts at a name that is taken when we link, and gone when we read it."""


class LocalStore:
    """Implements engine.storage.store.Store. Unfinished files lie under `staging/` and are in no listing.

    Price: two fsyncs a put, and two more for each folder that this object writes into for the first time.
    """

    sync_interval_s = 0.0

    def __init__(self, root: Path, file_system: FileSystem | None = None) -> None:
        self.folder, self.url = Path(root), str(root)
        self._file_system = file_system or FileSystem()
        self._durable: set[Path] = set()  # folders whose names are known to survive a power cut
        self._place = _place_of(self.folder)  # None until the folder is made

    def __reduce__(self) -> tuple[type["LocalStore"], tuple[Path, FileSystem | None]]:
        plain = type(self._file_system) is FileSystem
        return type(self), (self.folder, None if plain else self._file_system)

    def put_if_absent(self, key: str, data: bytes) -> bytes | None:
        path = self._path(key)
        for _ in range(_DELETED_MEANWHILE):
            with _named(path):
                if link_if_absent(self._draft(path, data), path, self._file_system):
                    return None
                with suppress(FileNotFoundError):
                    standing = self._file_system.read(path)
                    return None if standing == data else standing
        raise OSError(errno.EAGAIN, "is created and deleted by others all the time; end them", str(path))

    def put(self, key: str, data: bytes, *, durable: bool = True) -> None:
        path = self._path(key)
        with _named(path):
            if durable:
                replace_file(self._draft(path, data), path, self._file_system)
            else:
                self._make(path.parent)
                draft = write_new(path.parent, f".{path.name}", data, self._file_system, durable=False)
                self._file_system.replace(draft, path)

    def put_file(self, key: str, path: Path) -> None:
        target = self._path(key)
        with _named(target), path.open("rb") as file:
            whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if os.fstat(file.fileno()).st_size else b""
            replace_file(self._draft(target, memoryview(whole)), target, self._file_system)

    def get(self, key: str) -> bytes | None:
        path = self._path(key)
        try:
            with _named(path):
                return self._file_system.read(path)
        except OSError as error:
            if error.errno in ABSENT:
                return None
            raise

    def get_range(self, key: str, start: int, length: int) -> bytes:
        path = self._path(key)
        with _named(path), suppress(NotADirectoryError, IsADirectoryError), path.open("rb") as file:
            file.seek(start)
            return file.read(length)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))

    def get_file(self, key: str, path: Path) -> None:
        with _named(path):
            shutil.copyfile(self.fetch(key, ""), path)

    def list_objects(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        folder = self._path(prefix) if prefix else self.folder
        return self._walk(folder, f"{prefix}/" if prefix else "", after)

    def _walk(self, folder: Path, start: str, after: str) -> Iterator[StoredObject]:
        for name, entry in self._entries(folder, start):
            key = start + name
            if name.endswith("/"):
                if key > after or after.startswith(key):
                    yield from self._walk(folder / name[:-1], key, after)
            elif key > after:
                with suppress(FileNotFoundError):  # deleted meanwhile
                    facts = entry.stat()
                    yield StoredObject(key, facts.st_size, facts.st_mtime)

    def _entries(self, folder: Path, start: str) -> list[tuple[str, os.DirEntry[str]]]:
        """Names in a folder, a folder's with "/" behind it: then their order is that of the keys below."""
        with _named(folder):
            try:
                with os.scandir(folder) as entries:
                    names = [(entry.name + "/" * entry.is_dir(), entry) for entry in entries if entry.name[0] != "."]
            except OSError as error:
                if error.errno not in ABSENT:
                    raise
                return []
        return sorted((item for item in names if start or item[0] != f"{DRAFTS}/"), key=lambda item: item[0])

    def delete(self, keys: Iterable[str]) -> None:
        folders = set()
        for path in map(self._path, keys):
            inside(self.folder, path.parent)
            with _named(path), suppress(FileNotFoundError, NotADirectoryError):
                self._file_system.unlink(path)
                folders.add(path.parent)
        for folder in sorted(folders):
            with _named(folder), suppress(FileNotFoundError):
                sync(folder, self._file_system)

    def append(self, key: str) -> Appender:
        path = self._path(key)
        with _named(path):
            self._make_durable(path.parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            return LocalAppender(path, self._file_system.open(path, flags), self._file_system)

    def streams(self, prefix: str) -> list[StoredObject]:
        return list(self.list_objects(prefix))

    def broken_streams(self, _prefix: str, /) -> list[str]:
        return []  # a stream is one file

    def read_stream(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        return self.get_range(key, start, -1 if length is None else length)

    def fetch(self, key: str, _sha256: str, /) -> Path:  # whoever reads the file checks it, as ever
        path = self._path(key)
        if not path.is_file():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return path

    def _path(self, key: str) -> Path:
        return self.folder / check_key(key)

    def _draft(self, path: Path, data: bytes | memoryview) -> Path:
        self._make_durable(path.parent)
        staging = self.folder / DRAFTS
        self._make(staging)
        draft = write_new(staging, path.name[:200], data, self._file_system)
        crash_point("put.staged")
        return draft

    def _make(self, folder: Path) -> None:
        """Makes a folder of this store. One that was there and is gone is not begun anew next to what it holds."""
        if self._place is not None and _place_of(self.folder) != self._place:
            moved = f"{self.folder} was moved, deleted, unmounted or replaced; bring it back"
            raise OSError(errno.ENOENT, moved, str(folder))
        self._file_system.mkdir(folder)
        if self._place is None:
            self._place = _place_of(self.folder)

    def _make_durable(self, folder: Path) -> None:
        """Makes a folder of this store, and syncs it into each one above: another may have made it, and not synced."""
        self._make(folder)
        while folder not in self._durable:
            with suppress(PermissionError):  # what is above the store may be closed to us
                sync(folder.parent, self._file_system)
            self._durable.add(folder)
            if folder == self.folder:
                return
            folder = folder.parent


class LocalAppender:
    """Implements engine.storage.store.Appender by one file that is opened once, and only appended to."""

    def __init__(self, path: Path, fd: int, file_system: FileSystem) -> None:
        self._path, self._fd, self._file_system = path, fd, file_system
        self._folder_synced = False
        self._broken = ""  # why nothing more may be written
        self._writing = False  # a write that is interrupted leaves this, and perhaps half of its bytes

    def write(self, data: bytes) -> None:
        self._check()
        if self._writing:
            self._broken = "a write did not end"
            self._check()
        self._writing = True
        with self._breaking():
            unwritten = memoryview(data)
            while unwritten:
                unwritten = unwritten[self._file_system.write(self._fd, unwritten) :]
        self._writing = False

    def sync(self) -> None:
        self._check()
        with self._breaking():
            self._file_system.fsync(self._fd)
            if not self._folder_synced:
                sync(self._path.parent, self._file_system)
                self._folder_synced = True

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd, self._broken = self._fd, -1, self._broken or "it is closed"
            with _named(self._path):
                self._file_system.close(fd)

    def _check(self) -> None:
        if self._broken:
            raise OSError(errno.EIO, f"nothing more is written to this stream: {self._broken}", str(self._path))

    @contextmanager
    def _breaking(self) -> Iterator[None]:
        try:
            with _named(self._path):
                yield
        except OSError as error:
            self._broken = str(error)
            raise


def _place_of(folder: Path) -> tuple[int, int] | None:
    """The device and inode of a folder; None where there is no folder."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors of the operating system that do not say of which file they are get its path."""
    try:
        yield
    except OSError as error:
        if error.filename == str(path):
            raise
        code, why = error.errno or errno.EIO, error.strerror or str(error)
        raise OSError(code, why, str(path)) from error
