"""How bytes reach the disk: encoded the same way every time, whole or not at all, and sealed by their own digest.

Promise: a name that exists holds a complete, synced file; equal tables give equal bytes. Price: each file is synced,
then its folder (two fsyncs), and is built in memory first (one partition's compressed table, a few MB).

    stage under a unique name -> write -> fsync -> link to the final name -> fsync the folder -> unlink the stage

A stage name is never opened twice: after the link it is the final file's own inode, and reopening it would truncate
what was just published.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.crash_points import crash_point
from engine.errors import CorruptDataError
from engine.ids import canonical_json, sha256_hex

ROW_GROUP_BYTES = 8 << 20
"""Decoded bytes of a row group, roughly: what a trainer reads at once."""

_WRITE_BYTES = 1 << 20
_SEAL = ',"sha256":"'
_SEAL_LENGTH = len(_SEAL) + 64 + len('"}\n')
_DICTIONARY = [
    "topic_id", "corpus", "recipe", "status", "reason", "licence", "role", "intent_id", "passage_id", "judge",
    "validator", "outcome", "task", "model", "template", "finish_reason",
]  # fmt: skip


class Disk:
    """The calls that a commit makes of the file system, one line each; a drill puts a failing one in its place."""

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

    def listdir(self, path: Path) -> list[str]:
        return [entry.name for entry in path.iterdir()]

    def read(self, path: Path) -> bytes:
        return path.read_bytes()


def stage(disk: Disk, folder: Path, name: str, data: bytes) -> Path:
    """Writes and syncs `data` under a name in `folder` that nobody else has. Raises OSError, leaving nothing behind."""
    path = folder / f"{name}.{uuid.uuid4().hex}"
    fd = disk.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        try:
            left = memoryview(data)
            while left:
                left = left[disk.write(fd, left[:_WRITE_BYTES]) :]
                crash_point("put.written")
            disk.fsync(fd)
        finally:
            disk.close(fd)
    except OSError:
        _discard(disk, path)
        raise
    crash_point("put.staged")
    return path


def link_if_absent(disk: Disk, staged: Path, path: Path) -> bool:
    """Gives the staged file its final name unless that name is taken; True if this call did. Durable on return.

    Raises OSError as the file system gave it: the name is then absent, or holds the whole of some writer's file.
    """
    try:
        disk.link(staged, path)
        ours = True
    except FileExistsError:
        ours = False
    finally:
        crash_point("put.linked")
        _discard(disk, staged)
    sync_folder(disk, path.parent)
    crash_point("put.durable")
    return ours


def put_over(disk: Disk, staged: Path, path: Path) -> None:
    """Gives the staged file its final name, taken or not. Only for a name that can never mean other bytes."""
    disk.replace(staged, path)
    crash_point("put.replaced")
    sync_folder(disk, path.parent)


def sync_folder(disk: Disk, folder: Path) -> None:
    """Makes the names in a folder survive a power cut."""
    fd = disk.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        disk.fsync(fd)
    finally:
        disk.close(fd)


def encode(table: pa.Table) -> bytes:
    """The table as Parquet, zstd, a CRC in every page; equal tables give equal bytes under one pyarrow version."""
    sink = pa.BufferOutputStream()
    row_bytes = max(1, table.nbytes // max(1, table.num_rows))
    pq.write_table(
        table,
        sink,
        row_group_size=max(1, ROW_GROUP_BYTES // row_bytes),
        compression="zstd",
        use_dictionary=[name for name in _DICTIONARY if name in table.column_names],
        write_page_checksum=True,
    )
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def seal(body: Mapping[str, Any]) -> bytes:
    """Canonical JSON of the body, closed by the sha256 of that JSON as its last key."""
    text = canonical_json(body)
    return f'{text[:-1]}{_SEAL}{sha256_hex(text)}"}}\n'.encode()


def unseal(path: Path, raw: bytes) -> dict[str, Any]:
    """The body that `seal` closed. Raises CorruptDataError naming `path` if any bit of it differs."""
    text = raw[:-_SEAL_LENGTH] + b"}"
    if raw[-_SEAL_LENGTH:] != f'{_SEAL}{sha256_hex(text)}"}}\n'.encode():
        raise CorruptDataError(
            f"{path} ({len(raw)} bytes) does not carry the sha256 of its own content: it was changed or cut; "
            "restore it from a copy, or delete it and run the job again to make it anew from the journal"
        )
    body: dict[str, Any] = json.loads(text)
    return body


def _discard(disk: Disk, staged: Path) -> None:
    with suppress(OSError):
        disk.unlink(staged)
