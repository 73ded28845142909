"""The journal: every raw reply is durable before anyone reads it, so that no reply is ever paid for twice.

    journal/WRITER-0000.log     what one process asked and was answered, of all its partitions; then WRITER-0001.log
    journal/closed/*.log        in a bucket: the same as one object, once it is closed

Promise: `put` returns when the reply would survive kill -9 and a power cut. A reply of a free model can be made again,
so it is written but not waited for. `asked` and `begun` return when they would survive kill -9: on a disk at once, in a
bucket with the next object. A stream is written by one process and never reopened for writing. Past 64 MB the next one
begins, with what is in flight, so that no reader needs the one before. A stream that is closed ends with an index
(engine.flow.journal_reading); one of a process that died is read whole.

Price: one write a record; on a disk one fsync for all who wait. In a bucket one object for all who wait, every 0.1 s,
or 0.05 s where 4 MB wait: so much longer takes each request, and each seed. A partition's replies are in memory while
it is being made. What can be paid twice is only what was asked and not answered when a process died:
`possibly_paid_twice` counts it.
"""

import asyncio
import logging
import os
import secrets
from array import array
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from foil.engine.crash_points import crash_point
from foil.engine.errors import JournalError
from foil.engine.flow.journal_reading import JournalIndex, gather
from foil.engine.flow.journal_records import NO_PARTITION, WHOLE, InFlight, line_of, reply_fact, segment_key, steps_of
from foil.engine.requests import Reply
from foil.engine.storage.store import Appender, Store

LOG = logging.getLogger(__name__)
SEGMENT_BYTES = 64 << 20
STATE_BYTES = 4 << 20
"""After so many bytes a stream says again what is in flight, so that its end tells all of that."""
_GROUP_BYTES = 4 << 20
_MOST_SYNCS = 1_000
"""In a bucket a stream has an object for each sync, and a listing them all: so many, and the next one begins."""
_LOOK_S = 0.01


class Journal:
    """What one process asks and is answered. `open` gives the replies of one partition.

    `session` begins the name of all streams of one session of a run: its workers do not read each other's, but where
    `open` learns that a partition was tried before. `group_s`: the least time between two syncs, in seconds.
    """

    def __init__(
        self, store: Store, session: str = "", *, segment_bytes: int = SEGMENT_BYTES, group_s: float | None = None
    ) -> None:
        self._store, self._session, self._segment_bytes = store, f"{session}-" if session else "", segment_bytes
        self._group_s = store.sync_interval_s if group_s is None else group_s
        self.writer = f"{self._session}{os.getpid()}-{secrets.token_hex(6)}"
        self._index = JournalIndex(store)
        self._segments = 0
        self._segment: _Segment | None = None
        self._full: list[_Segment] = []  # their indexes are still to be written
        self._in_flight = InFlight()
        self._broken = ""  # why nothing more may be written
        self._waiting: list[asyncio.Future[None]] = []
        self._due = False
        self._unsynced, self._synced_at = 0, float("-inf")
        self._syncing: asyncio.Task[None] | None = None
        self._gathering: set[asyncio.Task[None]] = set()

    def open(self, partition: int, seeds: str = "", *, again: bool = True) -> "PartitionJournal":
        """The journal of a partition. `seeds`: the digests of its seeds, written before its first reply.

        `again`: whether another worker of this session may have had it. Reads its replies, if there are any. Raises
        CorruptDataError for damage where one of its replies may have been.
        """
        own_session = "" if again else self._session
        anew = again or not self.is_grouped  # a bucket is listed only where something may have come
        return PartitionJournal(self, partition, seeds, self._index.replies(partition, but_of=own_session, anew=anew))

    def close(self) -> None:
        """Ends the stream with its index, and with the number of requests that were left open."""
        broken, self._broken = self._broken, self._broken or "it is closed"
        (segment, self._segment), (full, self._full) = (self._segment, None), (self._full, [])
        if segment is None:
            return
        try:
            if broken:
                segment.appender.close()
                return
            if full:
                _settle(segment, full)
            segment.finish(self._in_flight.asked.total(), durable=False)
            if self.is_grouped:
                gather(self._store, segment.key)
        except OSError as error:
            LOG.warning("the journal %s could not be closed (%s); its replies are kept", self._name(), error)

    def append(self, partition: int, fact: Mapping[str, Any], seeds: str = "") -> None:
        """Writes one record. Raises JournalError, also for every later one."""
        if self._broken:
            raise self._failure(f"an earlier record could not be written whole: {self._broken}")
        self._broken = "its write did not end"
        try:
            segment = self._segment or self._begin()
            if segment.bytes >= self._segment_bytes or (self.is_grouped and segment.syncs >= _MOST_SYNCS):
                segment = self._roll(segment)
            self._unsynced += segment.add(partition, fact, seeds)
            self._in_flight.apply(partition, fact)
            if segment.bytes >= segment.next_state:
                self._unsynced += segment.add_state(self._in_flight)
        except OSError as error:
            self._broken = str(error)
            raise self._failure(self._broken) from error
        self._broken = ""
        if self._group_s and self._unsynced >= _GROUP_BYTES:
            self.sync_soon()

    async def wait_for_sync(self) -> None:
        """Returns after a sync that began later. Raises JournalError."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self.sync_soon()
        await waiter

    def sync_soon(self) -> None:
        """Sees to it that what is written becomes durable, with no one waiting."""
        self._due = True
        if self._syncing is None:
            with suppress(RuntimeError):  # where no loop runs, the next sync or `close` does it
                self._syncing = asyncio.get_running_loop().create_task(self._sync_all())

    @property
    def is_grouped(self) -> bool:
        """Whether what is written can be read by others only once it is synced."""
        return self._group_s > 0

    def _begin(self) -> "_Segment":
        key = segment_key(self.writer, self._segments)
        self._segment = _Segment(key, self._store.append(key), self._in_flight if self._segments else None)
        self._segments += 1
        return self._segment

    def _roll(self, full: "_Segment") -> "_Segment":
        segment = self._begin()
        self._full.append(full)
        crash_point("journal.rolled")
        self.sync_soon()
        return segment

    async def _sync_all(self) -> None:
        """Syncs until nobody waits; whoever arrives during one sync shares the next."""
        try:
            while self._due:
                await self._group()
                waiters, self._waiting, self._due = self._waiting, [], False
                full, self._full = self._full, []
                self._unsynced, self._synced_at = 0, asyncio.get_running_loop().time()
                failure = await asyncio.to_thread(self._sync, self._segment, full)
                for waiter in waiters:
                    if not waiter.done():
                        waiter.set_exception(failure) if failure else waiter.set_result(None)
                self._gather_closed(full if self.is_grouped and not failure else [])
        finally:
            self._syncing = None

    def _gather_closed(self, closed: "list[_Segment]") -> None:
        for segment in closed:
            task = asyncio.create_task(asyncio.to_thread(gather, self._store, segment.key))
            self._gathering.add(task)
            task.add_done_callback(self._gathering.discard)

    async def _group(self) -> None:
        """Waits for the time of the next sync."""
        loop = asyncio.get_running_loop()
        while (since := loop.time() - self._synced_at) < self._group_s:
            if self._unsynced >= _GROUP_BYTES and since >= self._group_s / 2:
                break
            await asyncio.sleep(min(_LOOK_S, self._group_s - since))

    def _sync(self, segment: "_Segment | None", full: "list[_Segment]") -> JournalError | None:
        if segment is None:
            return self._failure(self._broken)
        try:
            _settle(segment, full)
        except OSError as error:
            self._broken = str(error)
            return self._failure(self._broken)
        return None

    def _failure(self, problem: str) -> JournalError:
        return JournalError(
            f"the journal {self._name()} could not be written ({problem}); make room or mend the disk, and run again: "
            "every reply before this one is kept"
        )

    def _name(self) -> str:
        return f"{self._store.url}/{segment_key(self.writer, max(0, self._segments - 1))}"


def _settle(segment: "_Segment", full: "list[_Segment]") -> None:
    """Makes a stream durable, and closes those before it.

    The state that begins a stream counts the replies before it as there: so they are made durable first, or a death in
    between would lose them untold. Only once that state is durable is a stream before it closed, which then tells of
    nothing in flight.
    """
    for each in full:
        each.appender.sync()
    crash_point("journal.carried")
    segment.appender.sync()
    segment.syncs += 1
    for each in full:
        crash_point("journal.begun")
        each.finish(0, durable=True)


class PartitionJournal:
    """The replies of one partition: those that were there when it was opened, and those put since."""

    def __init__(self, journal: Journal, partition: int, seeds: str, replies: dict[str, Reply]) -> None:
        self._journal, self._partition, self._seeds, self._replies = journal, partition, seeds, replies
        self._written = False

    def get(self, request_id: str) -> Reply | None:
        """The reply to this request, if one was ever journalled for this partition; the first, if several."""
        return self._replies.get(request_id)

    async def asked(self, request_id: str) -> None:
        """Marks that this request is about to be sent to a model that costs something; known after kill -9."""
        self._append({"asked": request_id})
        if self._journal.is_grouped:
            await self._journal.wait_for_sync()
        crash_point("journal.asked")

    def refused(self, request_id: str) -> None:
        """Marks that no reply will come: the request is not in flight any more, and nothing was paid."""
        self._append({"refused": request_id})

    async def begun(self, seed_id: str) -> None:
        """Marks that work on a seed begins, for whoever must find out what ended this process; known after kill -9."""
        self._append({"begun": seed_id})
        if self._journal.is_grouped:
            await self._journal.wait_for_sync()

    def ended(self, seed_id: str) -> None:
        """Marks that work on a seed has ended."""
        self._append({"ended": seed_id})

    async def put(self, reply: Reply) -> None:
        """Writes the reply, and returns after a sync that began later. Raises JournalError."""
        self._append(reply_fact(reply))
        crash_point("journal.written")
        await self._journal.wait_for_sync()
        crash_point("journal.synced")
        self._replies.setdefault(reply.request_id, reply)

    def note_unasked(self, reply: Reply) -> None:
        """Writes a paid reply that no seed asked for, under an id of its own. Raises JournalError."""
        self._journal.append(NO_PARTITION, reply_fact(replace(reply, request_id=secrets.token_hex(20))))

    async def synced(self) -> None:
        """Returns once all that was written is durable. Raises JournalError."""
        await self._journal.wait_for_sync()

    def close(self) -> None:
        """Marks that work on the partition has ended, and none of its seeds is to blame for what comes."""
        if self._written:
            with suppress(JournalError):
                self._append({"closed": self._partition})
                if self._journal.is_grouped:
                    self._journal.sync_soon()
        self._written = False

    def _append(self, fact: Mapping[str, Any]) -> None:
        self._journal.append(self._partition, fact, self._seeds)
        self._written = True


class _Segment:
    """One stream while it is written, and what its index will say."""

    def __init__(self, key: str, appender: Appender, in_flight: InFlight | None) -> None:
        self.key, self.appender, self.bytes, self.next_state, self.syncs = key, appender, 0, STATE_BYTES, 0
        self._ranges: dict[int, array[int]] = {}
        if in_flight:
            self.add_state(in_flight)

    def add(self, partition: int, fact: Mapping[str, Any], seeds: str) -> int:
        """Writes a record, the digests of the seeds before the first reply of a partition. Returns how many bytes."""
        line, ranges = line_of(partition, fact), self._ranges.setdefault(partition, array("q"))
        if "reply" in fact:
            if seeds and not ranges:
                line = line_of(partition, {"seeds": seeds}) + line
            if ranges and ranges[-1] == self.bytes:
                ranges[-1] += len(line)
            else:
                ranges.extend((self.bytes, self.bytes + len(line)))
        return self._write(line)

    def add_state(self, in_flight: InFlight) -> int:
        """Writes what is in flight: whoever reads from here on needs nothing that stands before."""
        written = self._write(line_of(WHOLE, in_flight.fact()))
        self.next_state = self.bytes + STATE_BYTES
        return written

    def finish(self, open_requests: int, *, durable: bool) -> None:
        """Writes the index and its length, and ends the stream."""
        index = line_of(WHOLE, {"index": {str(name): steps_of(ranges) for name, ranges in self._ranges.items()}})
        self._write(index)
        crash_point("journal.indexed")
        self._write(line_of(WHOLE, {"end": open_requests, "index_bytes": len(index)}))
        if durable:
            self.appender.sync()
        self.appender.close()
        crash_point("journal.closed")

    def _write(self, data: bytes) -> int:
        self.appender.write(data)
        self.bytes += len(data)
        return len(data)
