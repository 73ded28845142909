"""Reading journals: the replies of a partition, what was paid and never used, what may be paid twice, and damage.

    records | {"index": {"7": [...]}} | {"end": 3, "index_bytes": 812}      a stream that was closed

The index of a closed stream says where the replies of each partition lie; its last record says where the index is, and
how many requests were left open. The stream of a process that died has neither and is read whole; what was in flight
there stands in its last `state` record and what follows. A damaged record with more behind it is no torn tail: what it
held would be paid for again, so no partition that may have lost a reply there is opened. `damage` finds it.

Price: two small reads a closed stream; in memory 8 bytes for each partition in it. A torn stream is read once by each
process, and then only what was added.
"""

import logging
import re
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from threading import Lock
from typing import Any

from foil.engine.crash_points import crash_point
from foil.engine.errors import CorruptDataError, JournalError
from foil.engine.flow.journal_records import FOLDER, NO_PARTITION, InFlight, Segment, checked, is_unfinished, parsed
from foil.engine.requests import Reply, stored_reply
from foil.engine.storage.store import Store, StoredObject

LOG = logging.getLogger(__name__)
_CLOSED = f"{FOLDER}/closed"
_SEGMENT = re.compile(rf"{FOLDER}/(?:closed/)?([^/]+)-([0-9]{{4,}})\.log")
_TAIL_BYTES = 96
"""More than the last record of a closed stream is long."""
_STATE_WINDOW = 8 << 20
"""A stream says what is in flight more often than that."""
_CHUNK_BYTES = 4 << 20
_GAP_BYTES = 64 << 10
"""Two ranges with less between them are fetched as one."""


def gather(store: Store, key: str) -> None:
    """Makes one object of a closed stream. Where that fails, the stream stays as it is."""
    try:
        store.put(f"{_CLOSED}/{key.rpartition('/')[2]}", store.read_stream(key))
        crash_point("journal.gathered")
        store.delete([key])
    except OSError as error:
        LOG.warning("%s/%s stays in pieces: %s", store.url, key, error)


class JournalIndex:
    """Where the replies of each partition lie, in all streams of a store. May be asked from several threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._segments: dict[str, Segment] = {}
        self._looking, self._looked = Lock(), False

    def look(self, but_of: str = "") -> None:
        """Takes note of what is there now, but for streams of writers whose names begin with `but_of`."""
        for stream in streams_of(self._store):
            if _SEGMENT.fullmatch(stream.key) and not (but_of and stream.key.rpartition("/")[2].startswith(but_of)):
                segment = self._segments.setdefault(stream.key, Segment(stream.key))
                if segment.size != stream.bytes:
                    _look_at(self._store, segment, stream)

    def segments(self) -> list[Segment]:
        """The streams, in order of key."""
        return [self._segments[key] for key in sorted(self._segments)]

    def partitions(self) -> list[int]:
        return sorted(set(chain.from_iterable(each.partitions for each in self._segments.values())))

    def replies(self, partition: int, *, but_of: str = "", anew: bool = True) -> dict[str, Reply]:
        """The first reply to each request of a partition, after another look, the first at least.

        Raises CorruptDataError.
        """
        with self._looking:
            if anew or not self._looked:
                self.look(but_of)
                self._looked = True
            return self.stored(partition)

    def stored(self, partition: int) -> dict[str, Reply]:
        """The same, as of the last look."""
        replies: dict[str, Reply] = {}
        for fact in self.facts(partition):
            if "reply" in fact:
                reply = stored_reply(fact["reply"])
                replies.setdefault(reply.request_id, reply)
        return replies

    def facts(self, partition: int) -> Iterator[dict[str, Any]]:
        """The replies of a partition, and the digests of its seeds before the first of each stream."""
        for segment in self.segments():
            if segment.has(partition):
                yield from _facts_in(self._store, segment, partition)


def paid_replies(store: Store, committed: Collection[int]) -> Iterator[Reply]:
    """The replies that no committed partition holds, those that no seed asked for too: what a resumed run has spent
    without a row yet."""
    index = JournalIndex(store)
    index.look()
    for partition in index.partitions():
        if partition not in committed:
            yield from (reply for reply in _readable(index, partition) if not reply.reused)


def _readable(index: JournalIndex, partition: int) -> Iterator[Reply]:
    """The replies of a partition; of replies that no seed waits for, those before the first damage."""
    try:
        yield from index.stored(partition).values()
    except CorruptDataError as error:
        if partition != NO_PARTITION:
            raise
        LOG.warning("%s; what was paid to tell why requests were refused is not counted", error)


def paid_seeds(store: Store, committed: Collection[int]) -> dict[int, str]:
    """The digests of the seeds of each partition that is not committed and for which a reply is journalled."""
    index, digests = JournalIndex(store), dict[int, str]()
    index.look()
    for partition in index.partitions():
        if partition not in committed:
            seeds, replies = "", False
            for fact in index.facts(partition):
                seeds, replies = str(fact.get("seeds", seeds)), replies or "reply" in fact
                if seeds and replies:
                    digests[partition] = seeds
                    break
    return digests


def possibly_paid_twice(store: Store) -> int:
    """Requests asked and never answered, over all streams. In a run that is going on, those in flight count too.

    Reads the last record of a stream that was closed; of another, the last few MB.
    """
    return sum(_open_requests(store, streams) for streams in _by_writer(store).values())


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """What a process that died left of a partition: the seeds begun and not ended, and how many replies it wrote."""

    suspects: tuple[str, ...]
    replies: int


def left_open(store: Store, writer: str) -> dict[int, LeftOpen]:
    """What a writer left of each partition that it had; nothing where it ended by itself."""
    streams = _by_writer(store).get(writer, []) if writer else []
    state = _in_flight(store, streams)
    if state is None or isinstance(state, int):
        return {}
    partitions = {*state.seeds, *state.replies}
    return {each: LeftOpen(tuple(state.seeds.get(each, ())), state.replies[each]) for each in sorted(partitions)}


def damage(store: Store) -> Iterator[tuple[str, str, bool]]:
    """(key, what is wrong with it, whether that is only what a kill or a power cut leaves behind), over a journal.

    Price: every stream is read once.
    """
    broken = set(store.broken_streams(FOLDER))
    for stream in streams_of(store):
        whole = stream.key.startswith(_CLOSED)  # put as one object, so that no kill can have cut it
        for number, (_, line) in enumerate(lines_of(store, stream.key), start=1):
            if checked(line):
                continue
            if is_unfinished(line) and not whole:
                yield stream.key, f"record {number} was cut by a kill or a power cut; nobody had read it", True
            else:
                yield stream.key, f"record {number} does not match its checksum", False
        if whole and not _closing(store, stream):
            yield stream.key, "its last record is missing or damaged", False
        if whole:
            broken.discard(f"{FOLDER}/{stream.key.rpartition('/')[2]}")
    for key in sorted(broken):
        yield key, "an object of this stream is missing, and later ones are there", False


def undamaged_segments(store: Store) -> Iterator[Segment]:
    """The streams of processes of which every reply reads, each with its partitions."""
    index = JournalIndex(store)
    index.look()
    return (segment for segment in index.segments() if not segment.damaged)


def streams_of(store: Store) -> list[StoredObject]:
    """All that is of a journal, in order of key. Of a stream that was being gathered, the one object."""
    streams = [each for each in store.streams(FOLDER) if _SEGMENT.fullmatch(each.key)]
    closed = list(store.list_objects(_CLOSED))
    names = {each.key.rpartition("/")[2] for each in closed}
    return [each for each in streams if each.key.rpartition("/")[2] not in names] + closed


def bytes_of(store: Store, key: str, start: int, length: int) -> bytes:
    """Bytes of a stream, closed or still written. Raises JournalError where it went since it was listed."""
    read = store.get_range if key.startswith(_CLOSED) else store.read_stream
    try:
        return read(key, start, length)
    except FileNotFoundError as error:
        raise JournalError(
            f"{store.url}/{key} was there and is gone: the folder was moved, or its journal freed, meanwhile; bring it "
            "back, and run the same command again"
        ) from error


def _by_writer(store: Store) -> dict[str, list[StoredObject]]:
    """The streams of each writer, in the order in which it wrote them."""
    writers: dict[str, list[tuple[int, StoredObject]]] = {}
    for stream in streams_of(store):
        if match := _SEGMENT.fullmatch(stream.key):
            writers.setdefault(match[1], []).append((int(match[2]), stream))
    return {name: [stream for _, stream in sorted(rows, key=lambda row: row[0])] for name, rows in writers.items()}


def lines_of(store: Store, key: str, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Each line of a stream from a byte on, and where it begins; the last one as it is."""
    rest, at = b"", start
    while data := bytes_of(store, key, at + len(rest), _CHUNK_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield at, line + b"\n"
            at += len(line) + 1
    if rest:
        yield at, rest


# one stream


def _look_at(store: Store, segment: Segment, stream: StoredObject) -> None:
    """Reads the index of a closed stream, or what was added to another since the last look."""
    segment.modified = stream.modified
    closing = _closing(store, stream)
    if closing and segment.end == 0 and _take_index(store, segment, stream.bytes - closing[0], closing[1]):
        segment.size = stream.bytes
        return
    if closing:
        segment.index = stream.bytes - closing[0] - int(closing[1]["index_bytes"]), int(closing[1]["index_bytes"])
    partitions_before = len(segment.ranges)
    for at, line in lines_of(store, segment.key, segment.end):
        if not line.endswith(b"\n") and is_unfinished(line):
            break  # it may still be written
        segment.line, segment.end = segment.line + 1, at + len(line)
        segment.note(at, line)
    segment.size = stream.bytes
    if segment.index and segment.damaged:  # the index itself is damaged, and no reply stood there
        at = segment.index[0]
        segment.damaged = [each for each in segment.damaged if each[0] < _line_number(store, segment.key, at)]
    segment.index = None
    if len(segment.ranges) != partitions_before:
        segment.partitions = array("q", sorted(segment.ranges))


def _closing(store: Store, stream: StoredObject) -> tuple[int, dict[str, Any]] | None:
    """The last record of a closed stream with its length in bytes; None of one that is open or torn."""
    tail = bytes_of(store, stream.key, max(0, stream.bytes - _TAIL_BYTES), _TAIL_BYTES)
    last = tail[tail.rfind(b"\n", 0, -1) + 1 :]
    record = checked(last)
    fact = parsed(record[1]) if record and record[1].startswith(b'{"end":') else {}
    return (len(last), fact) if fact else None


def _take_index(store: Store, segment: Segment, end: int, fact: Mapping[str, Any]) -> bool:
    """Notes the index that ends at a byte; False where it does not check."""
    length = int(fact["index_bytes"])
    index = _index_at(store, segment.key, end - length, length)
    if index is not None:
        segment.index, segment.ranges = (end - length, length), {}
        segment.partitions = array("q", sorted(map(int, index)))
    return index is not None


def _index_at(store: Store, key: str, start: int, length: int) -> dict[str, list[int]] | None:
    record = checked(bytes_of(store, key, start, length))
    index: dict[str, list[int]] | None = parsed(record[1]).get("index") if record else None
    return index


def _facts_in(store: Store, segment: Segment, partition: int) -> Iterator[dict[str, Any]]:
    """The replies and digests of a partition in one stream. Raises CorruptDataError where one does not read."""
    if segment.damaged:
        raise _unreadable(store, segment.key, segment.damaged[0][0])
    ranges: Sequence[int] = segment.ranges.get(partition, ())
    if segment.index:
        index = _index_at(store, segment.key, *segment.index)
        if index is None:
            raise _unreadable(store, segment.key, _line_number(store, segment.key, segment.index[0]))
        ranges = list(accumulate(index.get(str(partition), ())))
    for start, data in _fetch(store, segment.key, ranges):
        at = start
        for line in data.split(b"\n")[:-1] if data.endswith(b"\n") else data.split(b"\n"):
            record = checked(line + b"\n")
            if record and record[0] == partition:
                yield parsed(record[1])
            elif record or not is_unfinished(line + b"\n"):
                raise _unreadable(store, segment.key, _line_number(store, segment.key, at))
            at += len(line) + 1


def _fetch(store: Store, key: str, ranges: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """The bytes of ranges, those that lie close together read at once."""
    pairs = list(zip(ranges[::2], ranges[1::2], strict=True))
    while pairs:
        near = 1
        first = pairs[0][0]
        while (
            near < len(pairs)
            and pairs[near][0] - pairs[near - 1][1] < _GAP_BYTES
            and pairs[near][1] - first <= _CHUNK_BYTES
        ):
            near += 1
        data = bytes_of(store, key, first, pairs[near - 1][1] - first)
        for start, end in pairs[:near]:
            yield start, data[start - first : end - first]
        pairs = pairs[near:]


def _line_number(store: Store, key: str, at: int) -> int:
    """The number, from 1, of the record at a byte."""
    return 1 + sum(start < at for start, _ in lines_of(store, key))


def _unreadable(store: Store, key: str, number: int) -> CorruptDataError:
    return CorruptDataError(
        f"{store.url}/{key}: record {number} does not match its checksum, and a reply in it would be paid for again; "
        "restore the file from a copy, or delete it to pay for all replies in it again"
    )


# what was in flight


def _open_requests(store: Store, streams: Sequence[StoredObject]) -> int:
    state = _in_flight(store, streams)
    return state.asked.total() if isinstance(state, InFlight) else state or 0


def _in_flight(store: Store, streams: Sequence[StoredObject]) -> InFlight | int | None:
    """What a writer had in flight at its end, or how many requests it left open where it ended by itself.

    Its last stream tells it, unless the process died before that one said what it began with.
    """
    for place in range(len(streams) - 1, -1, -1):
        if closing := _closing(store, streams[place]):
            return int(closing[1]["end"])
        state = _replayed(store, streams[place], first=place == 0)
        if state is not None:
            return state
    return None


def _replayed(store: Store, stream: StoredObject, *, first: bool) -> InFlight | None:
    """What is in flight at the end of a stream; None where it does not say with what it began."""
    start = max(0, stream.bytes - _STATE_WINDOW)
    state = _replay(lines_of(store, stream.key, start), is_first=first and start == 0)
    return state if state or not start else _replay(lines_of(store, stream.key), is_first=first)


def _replay(lines: Iterable[tuple[int, bytes]], *, is_first: bool) -> InFlight | None:
    """`is_first`: nothing was in flight before."""
    state = InFlight() if is_first else None
    for _, line in lines:
        if not (record := checked(line)):
            continue
        partition, body = record
        if body.startswith(b'{"state":'):
            state = InFlight()
        if state:
            state.apply(partition, parsed(body))
    return state
