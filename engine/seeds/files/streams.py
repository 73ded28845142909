"""The bytes of a corpus: a file, a tree of files or a tar archive, plain or compressed, as streams of lines.

    path -> streams(path): one stream a file or archive member, in sorted order -> lines(stream): numbered lines

Compression is told by the first bytes, not by the name (the Federal Register's files end in `.0Z`): gzip, and Unix
compress (`.Z`), which the system's `gzip` decodes. Nothing is ever extracted to disk.
Promise: no line longer than the cap is held in memory, whatever a compressed file decodes to.
Price: archives of archives are not opened, and `.Z` files inside a tar archive are refused.
"""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from engine.errors import UsageError

GZIP_MAGIC = b"\x1f\x8b"
COMPRESS_MAGIC = b"\x1f\x9d"
TAR_ENDINGS = (".tar", ".tar.gz", ".tgz")
DAMAGE = (EOFError, OSError, zlib.error, tarfile.TarError)


@dataclass(frozen=True, slots=True)
class Stream:
    """Decompressed bytes. `name` is what errors call it; `inner` is the file's own name without its compression."""

    name: str
    inner: str
    data: IO[bytes]


class Line(NamedTuple):
    """One line without its line end; `raw` is None where it was longer than the cap."""

    name: str
    number: int
    raw: bytes | None


def files_under(path: Path) -> list[Path]:
    """The file itself, or every file of the tree in sorted order, hidden ones left out."""
    if not path.exists():
        raise UsageError(f"no such file or folder: {path}; set the path of the corpus in `seeds`")
    if path.is_file():
        return [path]
    inside = (p for p in path.rglob("*") if p.is_file())
    found = sorted(p for p in inside if not any(part.startswith(".") for part in p.relative_to(path).parts))
    if not found:
        raise UsageError(f"the folder {path} holds no file; set the path of the corpus in `seeds`")
    return found


def streams(path: Path) -> Iterator[Stream]:
    """Every file under `path`, and every member of its tar archives, one at a time; each is closed after its turn."""
    for file in files_under(path):
        if file.name.lower().endswith(TAR_ENDINGS):
            yield from _members(file)
        else:
            with _decompressed(file) as data:
                yield Stream(str(file), _without_compression(file.name), data)


def lines(stream: Stream, max_bytes: int) -> Iterator[Line]:
    """The stream's lines, split at the newline byte alone: text may hold any other separator."""
    number = 0
    while raw := _readline(stream, number, max_bytes + 1):
        number += 1
        body = raw.rstrip(b"\r\n")
        if len(body) <= max_bytes and (raw.endswith(b"\n") or len(raw) <= max_bytes):
            yield Line(stream.name, number, body.removeprefix(b"\xef\xbb\xbf") if number == 1 else body)
            continue
        while raw and not raw.endswith(b"\n"):
            raw = _readline(stream, number, max_bytes)
        yield Line(stream.name, number, None)


def _readline(stream: Stream, number: int, limit: int) -> bytes:
    try:
        return stream.data.readline(limit)
    except DAMAGE as error:
        raise damaged(stream.name, f"after line {number}: {error}") from error


def damaged(name: object, detail: str) -> UsageError:
    """The error for a file whose compression is broken or cut short."""
    return UsageError(f"{name} is damaged or cut short ({detail}); bring the file again")


def _without_compression(name: str) -> str:
    return name[: name.rfind(".")] if name.lower().endswith((".gz", ".z")) else name


@contextmanager
def _decompressed(file: Path) -> Iterator[IO[bytes]]:
    with file.open("rb") as raw:
        magic = raw.read(2)
    if magic == COMPRESS_MAGIC:
        with _uncompress(file) as data:
            yield data
        return
    with file.open("rb") as raw:
        yield _gunzipped(raw) if magic == GZIP_MAGIC else raw


def _gunzipped(raw: IO[bytes]) -> IO[bytes]:
    return io.BufferedReader(gzip.GzipFile(fileobj=raw), 1 << 16)


class _Uncompressing(io.RawIOBase):
    """What `gzip -dc` writes; its complaint is raised at the end of its output, not swallowed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        count = self._process.stdout.readinto(buffer)  # type: ignore[attr-defined]
        if count == 0 and self._process.wait() != 0:
            raise EOFError(self._process.stderr.read().decode(errors="replace").strip())
        return int(count)


@contextmanager
def _uncompress(file: Path) -> Iterator[IO[bytes]]:
    try:
        process = subprocess.Popen(["gzip", "-dc", "--", str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except FileNotFoundError as error:
        raise UsageError(f"{file} is a Unix compress file, which `gzip` decodes; install gzip, or unpack it") from error
    with process:
        try:
            yield io.BufferedReader(_Uncompressing(process), 1 << 16)
        finally:
            process.kill()


def _members(file: Path) -> Iterator[Stream]:
    try:
        with tarfile.open(file, "r|*") as archive:
            for member in archive:
                data = archive.extractfile(member) if member.isfile() else None
                if data is not None:
                    with closing(data):
                        yield _member_stream(file, member.name, data)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise damaged(file, str(error)) from error


def _member_stream(file: Path, name: str, data: IO[bytes]) -> Stream:
    buffered = io.BufferedReader(data, 1 << 16)  # type: ignore[type-var]
    magic = buffered.peek(2)[:2]
    if magic == COMPRESS_MAGIC:
        raise UsageError(f"{file}!{name} is a Unix compress file inside an archive; unpack the archive first")
    inner = _gunzipped(buffered) if magic == GZIP_MAGIC else buffered
    return Stream(f"{file}!{name}", _without_compression(Path(name).name), inner)
