"""Reads the files of a corpus as numbered lines: a file, a folder or a tar archive, plain or compressed.

    path -> open_streams(path): one stream for each file or archive member, in sorted order -> read_lines(stream)

The first bytes of a file tell its compression, not its name: the Federal Register's files end in `.0Z`. Foil reads gzip
and Unix compress (`.Z`), which the system's `gzip` decodes. It never extracts a file to disk.
Promise: memory never holds a line longer than the limit, whatever a compressed file decodes to.
Price: Foil does not open archives inside archives, and refuses `.Z` files inside a tar archive.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import subprocess
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from foil.engine.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

GZIP_MAGIC = b"\x1f\x8b"
COMPRESS_MAGIC = b"\x1f\x9d"
TAR_ENDINGS = (".tar", ".tar.gz", ".tgz")
MAX_BLANK_BYTES = 1 << 18
MAX_LINE_BYTES = 1 << 28
"""Bytes of blank lines in a row, and of a line that is too long to be a record, after which a file is refused."""
READ_ERRORS = (EOFError, OSError, zlib.error, tarfile.TarError)


@dataclass(frozen=True, slots=True)
class Stream:
    """A decompressed file. Errors show `name`; `base_name` is the name of the file without `.gz` or `.Z`."""

    name: str
    base_name: str
    data: IO[bytes]


class Line(NamedTuple):
    """One line without its line end; `content` is None if the line was longer than the limit."""

    name: str
    number: int
    content: bytes | None


def list_files(path: Path) -> list[Path]:
    """The file itself, or all files of the folder and its subfolders in sorted order, without hidden ones."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            return [path]
        if not stat.S_ISDIR(mode):
            raise UsageError(f"{path} is neither a file nor a folder; copy what it gives to a file")
        files = sorted(file for file in _walk(path) if file.is_file())
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"no such file or folder: {path}; set the path of the corpus in `seeds`") from None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    if not files:
        raise UsageError(f"the folder {path} holds no file; set the path of the corpus in `seeds`")
    return files


def _walk(path: Path) -> Iterator[Path]:
    """What is in the folder and its subfolders and not hidden. Raises UsageError for a link to no file."""
    for folder, folders, names in os.walk(path, onerror=_raise):
        for entry in (Path(folder, name) for name in (*folders, *names)):
            if any(part.startswith(".") for part in entry.relative_to(path).parts):
                continue
            if entry.is_symlink() and not entry.is_file():
                raise UsageError(f"{entry} is a link to no file, which is not followed; put there what it means")
            yield entry


def _raise(error: OSError) -> None:
    raise error


def _unreadable(path: Path, error: Exception) -> UsageError:
    why = getattr(error, "strerror", None) or str(error)
    return UsageError(f"{str(path)[:300]} cannot be read: {why}; set the path of a readable corpus in `seeds`")


def open_streams(path: Path) -> Iterator[Stream]:
    """Opens every file under `path`, and every member of its tar archives; closes each before it opens the next."""
    for file in list_files(path):
        if file.name.lower().endswith(TAR_ENDINGS):
            yield from _open_members(file)
        else:
            with _open_decompressed(file) as data:
                yield Stream(str(file), _remove_compression_suffix(file.name), data)


def read_lines(stream: Stream, max_bytes: int) -> Iterator[Line]:
    """The lines of a stream. Only the newline byte ends a line, because texts may hold other separators.

    Raises UsageError after MAX_BLANK_BYTES of blank lines, or within a line of MAX_LINE_BYTES: a compressed file of
    which a little is read should not decode for hours.
    """
    number = blank = 0
    while chunk := _read_chunk(stream, number, max_bytes + 1):
        number += 1
        content = chunk.rstrip(b"\r\n")
        blank = 0 if content and not content.isspace() else blank + len(chunk)
        if blank > MAX_BLANK_BYTES:
            raise _empty_error(stream, number, f"over {MAX_BLANK_BYTES:,} bytes of blank lines")
        if len(content) <= max_bytes and (chunk.endswith(b"\n") or len(chunk) <= max_bytes):
            yield Line(stream.name, number, content.removeprefix(b"\xef\xbb\xbf") if number == 1 else content)
            continue
        size = len(chunk)
        while chunk and not chunk.endswith(b"\n"):
            chunk = _read_chunk(stream, number, max_bytes)
            size += len(chunk)
            if size > max(MAX_LINE_BYTES, max_bytes):
                raise _empty_error(stream, number, f"a line of over {size:,} bytes")
        yield Line(stream.name, number, None)


def _read_chunk(stream: Stream, number: int, limit: int) -> bytes:
    try:
        return stream.data.readline(limit)
    except READ_ERRORS as error:
        raise damaged_file_error(stream.name, f"after line {number}: {error}") from error


def _empty_error(stream: Stream, number: int, content: str) -> UsageError:
    return UsageError(f"{stream.name}:{number}: expected rows, found {content}; remove it from the file")


def damaged_file_error(name: object, detail: str) -> UsageError:
    """The error for a file that cannot be decoded to its end."""
    return UsageError(f"{name} is damaged or cut short ({detail}); bring the file again")


def _remove_compression_suffix(name: str) -> str:
    return name[: name.rfind(".")] if name.lower().endswith((".gz", ".z")) else name


@contextmanager
def _open_decompressed(file: Path) -> Iterator[IO[bytes]]:
    try:
        with file.open("rb") as data:
            magic = data.read(2)
    except OSError as error:
        raise _unreadable(file, error) from None
    if magic == COMPRESS_MAGIC:
        with _open_unix_compress(file) as data:
            yield data
        return
    with file.open("rb") as data:
        yield _open_gzip(data) if magic == GZIP_MAGIC else data


def _open_gzip(data: IO[bytes]) -> IO[bytes]:
    return io.BufferedReader(gzip.GzipFile(fileobj=data), 1 << 16)


class _GzipOutput(io.RawIOBase):
    """The output of a `gzip -dc` process; raises EOFError at its end if the process failed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        assert isinstance(self._process.stdout, io.BufferedReader)
        assert self._process.stderr is not None
        count = self._process.stdout.readinto(buffer)
        if count == 0 and self._process.wait() != 0:
            raise EOFError(self._process.stderr.read().decode(errors="replace").strip())
        return count


@contextmanager
def _open_unix_compress(file: Path) -> Iterator[IO[bytes]]:
    try:
        process = subprocess.Popen(["gzip", "-dc", "--", str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except FileNotFoundError as error:
        raise UsageError(f"{file} is a Unix compress file, which `gzip` decodes; install gzip, or unpack it") from error
    with process:
        try:
            yield io.BufferedReader(_GzipOutput(process), 1 << 16)
        finally:
            process.kill()


def _open_members(file: Path) -> Iterator[Stream]:
    try:
        with tarfile.open(file, "r|*") as archive:
            for member in archive:
                data = archive.extractfile(member) if member.isfile() else None
                if data is not None:
                    with closing(data):
                        yield _decompress_member(file, member.name, data)
    except (*READ_ERRORS, ValueError, OverflowError) as error:
        raise damaged_file_error(file, str(error)) from error


def _decompress_member(file: Path, name: str, data: IO[bytes]) -> Stream:
    assert isinstance(data, io.BufferedReader)
    magic = data.peek(2)[:2]
    if magic == COMPRESS_MAGIC:
        raise UsageError(f"{file}!{name} is a Unix compress file inside an archive; unpack the archive first")
    content = _open_gzip(data) if magic == GZIP_MAGIC else data
    return Stream(f"{file}!{name}", _remove_compression_suffix(Path(name).name), content)
