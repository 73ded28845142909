"""The journal: every raw reply on disk before anyone reads it, so that no reply is ever paid for twice.

    journal/00000007/WRITER.log     what one opening of partition 7 asked and was answered

Promise: `put` returns when the reply would survive kill -9 and a power cut. A reply of a free model can be made again,
so it is written but not synced. A record carries a CRC32; one that does not check (a torn tail) is as if it were never
written. A segment is written by one opening and never reopened for writing.
Price: one write a record, and one fsync shared by all replies that wait for it; a partition's replies are in memory
while it is being made. The segments of committed partitions are not read again.
A damaged record with more behind it is no torn tail: what it held would be paid for again, so replies are not read
past it. `damage` finds it.

What can be paid twice is only what was asked and not answered when a process died: `possibly_paid_twice` counts it.
"""

import asyncio
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from engine.atomic_files import sync
from engine.crash_points import crash_point
from engine.errors import CorruptDataError, JournalError
from engine.ids import canonical_json
from engine.requests import Reply, stored_reply

_TAIL_BYTES = 64
"""More than the closing record of a segment is long."""
_PARTITION = re.compile("[0-9]{8}")
_HOLE = b"\0" * 4


class Journal:
    """The replies of one partition: those on disk when it was opened, and those put since.

    `writer` names the one segment that this object writes, made at the first record; it must be new. `seeds` are the
    digests of the partition's seeds, written first. Raises CorruptDataError for damage inside what is there.
    """

    def __init__(self, folder: Path, partition: int, writer: str, seeds: str = "") -> None:
        self._folder = folder / f"{partition:08d}"
        self._path = self._folder / f"{writer}.log"
        self._header = _line({"seeds": seeds}) if seeds else b""
        self._replies = _replies(self._folder)
        self._open_requests: Counter[str] = Counter()
        self._fd = -1
        self._folder_synced = False
        self._broken = ""  # why nothing more may be written
        self._waiting: list[asyncio.Future[None]] = []
        self._syncing: asyncio.Task[None] | None = None

    def get(self, request_id: str) -> Reply | None:
        """The reply to this request, if one was ever journalled for this partition; the first, if several."""
        return self._replies.get(request_id)

    def asked(self, request_id: str) -> None:
        """Marks that this request is about to be sent to a model that costs something."""
        self._append({"asked": request_id})
        self._open_requests[request_id] += 1
        crash_point("journal.asked")

    def refused(self, request_id: str) -> None:
        """Marks that no reply will come: the request is not in flight any more, and nothing was paid."""
        self._append({"refused": request_id})
        self._settle_request(request_id)

    def begun(self, seed_id: str) -> None:
        """Marks that work on a seed begins, for whoever must find out what ended this process."""
        self._append({"begun": seed_id})

    def ended(self, seed_id: str) -> None:
        """Marks that work on a seed has ended."""
        self._append({"ended": seed_id})

    async def put(self, reply: Reply, *, durable: bool = True) -> None:
        """Writes the reply; with `durable`, returns after an fsync that began later. Raises JournalError."""
        self._append({"reply": {name: getattr(reply, name) for name in Reply.__slots__}})
        crash_point("journal.written")
        if durable:
            await self._wait_for_sync()
            crash_point("journal.synced")
        self._replies.setdefault(reply.request_id, reply)
        self._settle_request(reply.request_id)

    def close(self) -> None:
        """Ends the segment with the number of its requests that were left open."""
        if self._fd < 0:
            return
        if not self._broken:
            self._append({"end": self._open_requests.total()})
        os.close(self._fd)
        self._fd = -1

    def _settle_request(self, request_id: str) -> None:
        if self._open_requests[request_id] > 0:
            self._open_requests[request_id] -= 1

    def _append(self, body: Mapping[str, Any]) -> None:
        line = _line(body)
        if self._broken:
            raise self._failure(f"an earlier record could not be written whole: {self._broken}")
        self._broken = "its write did not end"
        try:
            if self._fd < 0:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)
                line = self._header + line
            written = os.write(self._fd, line)
        except OSError as error:
            self._broken = str(error)
            raise self._failure(self._broken) from error
        if written != len(line):
            self._broken = f"only {written} of {len(line)} bytes were written"
            raise self._failure(self._broken)
        self._broken = ""

    async def _wait_for_sync(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        if self._syncing is None:
            self._syncing = asyncio.create_task(self._sync_all())
        await waiter

    async def _sync_all(self) -> None:
        """Syncs until nobody waits; whoever arrives during one fsync shares the next."""
        while self._waiting:
            waiters, self._waiting = self._waiting, []
            failure = await asyncio.to_thread(self._sync)
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(failure) if failure else waiter.set_result(None)
        self._syncing = None

    def _sync(self) -> JournalError | None:
        try:
            os.fsync(self._fd)
            if not self._folder_synced:
                sync(self._folder)
                sync(self._folder.parent)
                self._folder_synced = True
        except OSError as error:
            self._broken = str(error)
            return self._failure(self._broken)
        return None

    def _failure(self, problem: str) -> JournalError:
        return JournalError(
            f"the journal {self._path} could not be written ({problem}); make room or mend the disk, and run again: "
            "every reply before this one is kept"
        )


class ReplyArchive:
    """The replies that other runs have paid for, found by request id (`foil run --reuse OUT`).

    Price: their segments are read once, at the first question; then 200 bytes of memory a reply, and one read each.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._offsets: dict[str, tuple[Path, int]] | None = None

    def get(self, request_id: str) -> Reply | None:
        """The reply, marked as reused; None if no run has it."""
        if self._offsets is None:
            self._offsets = dict(chain.from_iterable(map(_reply_offsets, self._folders)))
        if request_id not in self._offsets:
            return None
        path, offset = self._offsets[request_id]
        with path.open("rb") as file:
            file.seek(offset)
            body = _body(file.readline()[:-1])
        return replace(_reply(body["reply"]), reused=True) if body else None


def possibly_paid_twice(folder: Path) -> int:
    """Requests asked and never answered, over all segments. In a run that is going on, those in flight count too.

    Reads the last record of a segment that was closed, and the whole of one that was not.
    """
    return sum(map(_count_unanswered, _all_segments(folder)))


@dataclass(frozen=True, slots=True)
class UnclosedSegment:
    """What a process that died left of a partition: the seeds begun and not ended, and how many replies it paid."""

    name: str
    suspects: tuple[str, ...]
    replies: int


def unclosed_segments(folder: Path, partition: int) -> Iterator[UnclosedSegment]:
    """The segments of a partition that were never closed."""
    for path in _segments(folder / f"{partition:08d}"):
        bodies = list(_records(path))
        if not bodies or "end" not in bodies[-1]:
            ended = {body["ended"] for body in bodies if "ended" in body}
            begun = dict.fromkeys(body["begun"] for body in bodies if "begun" in body and body["begun"] not in ended)
            yield UnclosedSegment(path.name, tuple(begun), sum("reply" in body for body in bodies))


def paid_replies(folder: Path, committed: Collection[int]) -> Iterator[Reply]:
    """The replies journalled for partitions that are not committed: what a resumed run has spent without a row yet."""
    for partition in _partitions(folder):
        if int(partition.name) not in committed:
            yield from (reply for reply in _replies(partition).values() if not reply.reused)


def paid_seeds(folder: Path, committed: Collection[int]) -> dict[int, str]:
    """The digests of the seeds of each partition that is not committed and for which a reply is journalled."""
    found: dict[int, str] = {}
    for partition in _partitions(folder):
        for path in _segments(partition) if int(partition.name) not in committed else ():
            seeds = [body["seeds"] for body in islice(_records(path), 1) if "seeds" in body]
            if seeds and any("reply" in body for body in _records(path)):
                found[int(partition.name)] = str(seeds[0])
    return found


def damage(folder: Path) -> Iterator[tuple[Path, str, bool]]:
    """(segment, what is wrong with it, whether that is only what a kill or a power cut leaves behind), over a journal.

    Price: every segment is read once.
    """
    for path in _all_segments(folder):
        for number, (line, body) in enumerate(_lines(path), start=1):
            if body is None and _is_unfinished(line):
                yield path, f"record {number} was cut by a kill or a power cut; nobody had read it", True
            elif body is None:
                yield path, f"record {number} does not match its checksum", False


def _line(body: Mapping[str, Any]) -> bytes:
    data = canonical_json(body).encode("utf-8", "surrogatepass")
    return b"%08x %b\n" % (zlib.crc32(data), data)


def _body(line: bytes) -> dict[str, Any] | None:
    crc, _, data = line.partition(b" ")
    if crc != b"%08x" % zlib.crc32(data):
        return None
    with suppress(ValueError):
        body: dict[str, Any] = json.loads(data.decode("utf-8", "surrogatepass"))
        return body
    return None


def _reply_offsets(folder: Path) -> Iterator[tuple[str, tuple[Path, int]]]:
    for path in _all_segments(folder):
        offset = 0
        for line, body in _lines(path):
            if body and "reply" in body:
                yield body["reply"]["request_id"], (path, offset)
            offset += len(line)


def _partitions(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*/") if _PARTITION.fullmatch(path.name))


def _segments(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.log") if path.is_file())


def _all_segments(folder: Path) -> Iterator[Path]:
    return chain.from_iterable(map(_segments, _partitions(folder)))


def _lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Each line of a segment, and the record in it if it checks."""
    with path.open("rb") as file:
        for line in file:
            yield line, _body(line[:-1]) if line.endswith(b"\n") else None


def _is_unfinished(line: bytes) -> bool:
    """What was never synced: a line without its end, or with a hole of zeros, which no record holds.

    Not so a line that goes on after a whole record: there the end of a line was damaged.
    """
    return (not line.endswith(b"\n") or _HOLE in line) and not _goes_on_after_a_record(line)


def _goes_on_after_a_record(line: bytes) -> bool:
    crc, _, data = line.partition(b" ")
    running, start = 0, 0
    for brace in re.finditer(b"}", data):
        running, start = zlib.crc32(data[start : brace.end()], running), brace.end()
        if crc == b"%08x" % running:
            return start < len(data) and data[start] != 0  # zeros were never written
    return False


def _records(path: Path, *, whole: bool = False) -> Iterator[dict[str, Any]]:
    """The records that check. With `whole`, raises CorruptDataError for one that does not and was once finished."""
    for number, (line, body) in enumerate(_lines(path), start=1):
        if body is not None:
            yield body
        elif whole and not _is_unfinished(line):
            raise CorruptDataError(
                f"{path}: record {number} does not match its checksum, and a reply in it would be paid for again; "
                "restore the file from a copy, or delete it to pay for all replies in it again"
            )


def _replies(folder: Path) -> dict[str, Reply]:
    replies: dict[str, Reply] = {}
    for path in _segments(folder):
        for body in _records(path, whole=True):
            if "reply" in body:
                reply = _reply(body["reply"])
                replies.setdefault(reply.request_id, reply)
    return replies


def _reply(body: Mapping[str, Any]) -> Reply:
    return stored_reply(body)


def _count_unanswered(path: Path) -> int:
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        last = _body(file.read().rstrip(b"\n").rpartition(b"\n")[2])
    if last is not None and "end" in last:
        return int(last["end"])
    sent: Counter[str] = Counter(body["asked"] for body in _records(path) if "asked" in body)
    return (sent - Counter(filter(None, map(_settled_request, _records(path))))).total()


def _settled_request(body: Mapping[str, Any]) -> str:
    return str(body["reply"]["request_id"] if "reply" in body else body.get("refused", ""))
