"""What stands in the journal: one record a line, and what a writer's records say of its work in flight.

    5c0e6a3f 7 {"reply": {...}}     CRC32 of the rest, the partition, one fact
    91d2f07b - {"state": {...}}     of the whole stream: what was in flight here, so that a reader can begin here

A record that does not check is as if it were never written, where a kill or a power cut explains it.
"""

import json
import re
import zlib
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from foil.engine.ids import canonical_json
from foil.engine.requests import Reply

FOLDER = "journal"
WHOLE = -1
"""In place of a partition: the record is of the whole stream."""
NO_PARTITION = -2
"""In place of a partition: a paid reply that no seed asked for, to be counted in every later session."""
_HOLE = b"\0" * 4
_KEPT = (b'{"reply":', b'{"seeds":')


def line_of(partition: int, body: Mapping[str, Any]) -> bytes:
    """The line of one record."""
    name = "-" if partition == WHOLE else str(partition)
    data = f"{name} {canonical_json(body)}".encode("utf-8", "surrogatepass")
    return b"%08x %b\n" % (zlib.crc32(data), data)


def checked(line: bytes) -> tuple[int, bytes] | None:
    """The partition of a line that checks, and its body as JSON; else None."""
    crc, _, data = line.partition(b" ")
    if not data.endswith(b"\n") or crc != b"%08x" % zlib.crc32(data[:-1]):
        return None
    name, _, body = data[:-1].partition(b" ")
    return (WHOLE if name == b"-" else int(name)), body


def parsed(body: bytes) -> dict[str, Any]:
    """The fact of a record that checked."""
    fact: dict[str, Any] = json.loads(body.decode("utf-8", "surrogatepass"))
    return fact


def is_kept(body: bytes) -> bool:
    """Whether a body is a reply or the digests of seeds: what an index must find again."""
    return body.startswith(_KEPT)


def reply_fact(reply: Reply) -> dict[str, Any]:
    """The fact that a reply came."""
    return {"reply": {name: getattr(reply, name) for name in Reply.__slots__}}


def claimed_partition(line: bytes) -> int | None:
    """The partition that a line names, whether it checks or not."""
    match = re.match(rb"[^ ]* ([0-9]{1,8}) ", line)
    return int(match[1]) if match else None


def is_unfinished(line: bytes) -> bool:
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


class InFlight:
    """What one writer has begun and not ended. The writer keeps it as it writes, and a reader as it reads.

    `asked` counts requests, `seeds` are those at work by partition, `replies` those written since it was opened.
    """

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.seeds: dict[int, dict[str, None]] = {}
        self.replies: Counter[int] = Counter()

    def apply(self, partition: int, fact: Mapping[str, Any]) -> None:
        """Goes on by one record."""
        for kind, value in fact.items():
            match kind:
                case "asked":
                    self.asked[value] += 1
                case "reply":
                    self._settle(value["request_id"])
                    if partition != NO_PARTITION:
                        self.replies[partition] += 1
                case "refused":
                    self._settle(value)
                case "begun":
                    self.seeds.setdefault(partition, {})[value] = None
                case "ended":
                    self.seeds.get(partition, {}).pop(value, None)
                case "closed":
                    self.seeds.pop(partition, None)
                    self.replies.pop(partition, None)
                case "state":
                    self._restore(value)

    def fact(self) -> dict[str, Any]:
        """All of it as one record, from which `apply` makes it again."""
        seeds = {str(partition): list(ids) for partition, ids in self.seeds.items()}
        replies = {str(partition): count for partition, count in self.replies.items()}
        return {"state": {"asked": dict(self.asked), "seeds": seeds, "replies": replies}}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.asked = Counter(state["asked"])
        self.seeds = {int(partition): dict.fromkeys(ids) for partition, ids in state["seeds"].items()}
        self.replies = Counter({int(partition): count for partition, count in state["replies"].items()})

    def _settle(self, request_id: str) -> None:
        if self.asked[request_id] > 1:
            self.asked[request_id] -= 1
        else:
            del self.asked[request_id]


def segment_key(writer: str, number: int) -> str:
    """The key of a writer's stream."""
    return f"{FOLDER}/{writer}-{number:04d}.log"


def steps_of(ranges: Sequence[int]) -> list[int]:
    """Starts and ends of ranges as differences, which an index stores."""
    return [place - before for place, before in zip(ranges, chain([0], ranges), strict=False)]


@dataclass(slots=True)
class Segment:
    """One stream as it was last looked at. `partitions` have a record in it, in order.

    `index`: where the index of a closed stream lies. Of a torn one, `ranges` says where the replies of each partition
    lie; `line` and `end` how far it was read, `ended` that its index was; `damaged` are the numbers of damaged records
    before it and the partitions that they name.
    """

    key: str
    size: int = 0
    modified: float = 0.0
    partitions: "array[int]" = field(default_factory=lambda: array("q"))
    index: tuple[int, int] | None = None
    ranges: dict[int, "array[int]"] = field(default_factory=dict)
    line: int = 0
    end: int = 0
    ended: bool = False
    damaged: list[tuple[int, int | None]] = field(default_factory=list)

    def has(self, partition: int) -> bool:
        """Whether a record of the partition is, or may have been, in it."""
        at = bisect_left(self.partitions, partition)
        there = at < len(self.partitions) and self.partitions[at] == partition
        return there or any(claimed == partition for _, claimed in self.damaged)

    def note(self, at: int, line: bytes) -> None:
        """Goes on by one line of a torn stream."""
        record = checked(line)
        if record is None:
            if not (is_unfinished(line) or self.ended):
                self.damaged.append((self.line, claimed_partition(line)))
            return
        partition, body = record
        self.ended = self.ended or body.startswith(b'{"index":')
        if partition == WHOLE:
            return
        ranges = self.ranges.setdefault(partition, array("q"))
        if not is_kept(body):
            return
        if ranges and ranges[-1] == at:
            ranges[-1] += len(line)
        else:
            ranges.extend((at, at + len(line)))
