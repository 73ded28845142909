"""Files and folders that are there whole or not at all: every crash-safe write of the project is made of these.

    write_new -> link_if_absent    the first writer takes the name
              -> replace_file      the name holds all of the old bytes or all of the new ones
    publish_folder                 a folder appears with all its files

The order is always the same: write under a name that nobody else has, sync, give the final name, sync the folder.
Nothing heavy is imported.
"""

import errno
import fcntl
import json
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from foil.engine.crash_points import crash_point
from foil.engine.errors import CorruptDataError, RunHeldError

_WRITE_BYTES = 1 << 20


class FileSystem:
    """The calls that a write makes of the operating system, one line each; a test puts a failing one in its place."""

    def open(self, path: Path, flags: int) -> int:
        return os.open(path, flags, 0o666)

    def write(self, fd: int, data: memoryview) -> int:
        return os.write(fd, data)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def close(self, fd: int) -> None:
        os.close(fd)

    def link(self, source: Path, target: Path) -> None:
        target.hardlink_to(source)

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def mkdir(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def read(self, path: Path) -> bytes:
        return read_regular(path)


def read_regular(path: Path) -> bytes:
    """A file's bytes. Raises OSError for what is no file (a pipe, a device, a folder), and never waits for a writer."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(fd)


_LOCAL = FileSystem()


def write_new(
    folder: Path, name: str, data: bytes | memoryview, file_system: FileSystem = _LOCAL, *, durable: bool = True
) -> Path:
    """Writes and syncs a file named `name` and a random suffix; if that fails with OSError, nothing is left behind.

    Such a name is never opened twice: after a link it is the final file too, and reopening it would truncate that.
    """
    path = folder / f"{name}.{uuid.uuid4().hex}"
    fd = file_system.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        try:
            unwritten = memoryview(data)
            while unwritten:
                unwritten = unwritten[file_system.write(fd, unwritten[:_WRITE_BYTES]) :]
                crash_point("put.written")
            if durable:
                file_system.fsync(fd)
        finally:
            file_system.close(fd)
    except OSError:
        _discard(path, file_system)
        raise
    return path


def link_if_absent(draft: Path, path: Path, file_system: FileSystem = _LOCAL) -> bool:
    """Gives a draft its final name unless that name is taken; True if this call did. Durable on return.

    After an OSError the name is absent, or holds the whole of some writer's file.
    """
    try:
        file_system.link(draft, path)
        ours = True
    except FileExistsError:
        ours = False
    finally:
        crash_point("put.linked")
        _discard(draft, file_system)
    sync(path.parent, file_system)
    crash_point("put.durable")
    return ours


def replace_file(draft: Path, path: Path, file_system: FileSystem = _LOCAL) -> None:
    """Gives a synced draft its final name, taken or not. Durable on return."""
    file_system.replace(draft, path)
    crash_point("put.replaced")
    sync(path.parent, file_system)


def sync(path: Path, file_system: FileSystem = _LOCAL) -> None:
    """Waits until the bytes of a file, or the names in a folder, survive a power cut."""
    fd = file_system.open(path, os.O_RDONLY)
    try:
        file_system.fsync(fd)
    finally:
        file_system.close(fd)


def put_bytes(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Creates or replaces a file such that no reader sees half of it; it survives a power cut if `durable`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = write_new(path.parent, f".{path.name}", data, durable=durable)
    if durable:
        replace_file(draft, path)
    else:
        draft.replace(path)


def put_text(path: Path, text: str, *, durable: bool = True) -> None:
    """`put_bytes` of UTF-8."""
    put_bytes(path, text.encode(), durable=durable)


def put_json(path: Path, value: Any) -> None:
    """`put_bytes` of JSON."""
    put_text(path, json.dumps(value))


def put_json_lines(path: Path, rows: Iterable[Any]) -> None:
    """`put_bytes` of JSON, a row a line."""
    put_text(path, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))


def publish_folder(folder: Path, write: Callable[[Path], None], *, over: bool = False) -> None:
    """Makes a folder appear with all that `write` puts into its draft; one that is there stands, or goes (`over`)."""
    if folder.exists() and not over:
        return
    draft = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    draft.mkdir(parents=True)
    try:
        write(draft)
        for path in (*draft.rglob("*"), draft):
            sync(path)
        if over:
            shutil.rmtree(folder, ignore_errors=True)
        draft.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another writer was first
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    sync(folder.parent)


def write_json(path: Path, value: Any) -> None:
    """JSON that a person reads: indented, keys in the order given. Not crash-safe; meant for drafts."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a lock between processes of one machine; it ends with the process at the latest."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextmanager
def held(folder: Path, command: str) -> Iterator[None]:
    """Keeps a folder, which is made if need be, from a second `command` of this machine; it ends with the process.

    Raises RunHeldError if another process has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    fd = os.open(folder / f".{command}.lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunHeldError(f"another `foil {command}` works in {folder}; wait for it, or take another") from None
        yield
    finally:
        os.close(fd)


def read_json(path: Path) -> Any:
    """A JSON document; CorruptDataError if it is absent or does not parse."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CorruptDataError(f"{path} does not read ({error}); remove its directory and train again") from error


def _discard(draft: Path, file_system: FileSystem) -> None:
    with suppress(OSError):
        file_system.unlink(draft)
