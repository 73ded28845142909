"""One run out of several: every topic of each, accepted or not, with what it cost.

    snapshot, snapshot, ... --ids, status--> which run's topic each id is --partition by partition--> a run of its own,
    with the snapshot `merged`

Promise: the runs are not touched, and topics keep their ids, so their split. Of an id that several runs have, the first
accepted topic goes in, or else the first; the others are left out and counted, apart where their content differs: the
same seed and recipe under other settings. So is a topic that nearly repeats one of an earlier run, where that is asked.
Calls count as `reused`: the old runs paid for them. The same snapshots in the same order give the same bytes, and a
merge that was stopped goes on after its last partition. Price: every partition is read twice, one in memory at a time,
and about 150 bytes a topic for the ids.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from foil.datasets_out.commits.snapshot import Snapshot, read_partitions
from foil.datasets_out.curation.origins import end_derived, open_derived
from foil.engine.errors import UsageError
from foil.engine.topic import Topic

SNAPSHOT = "merged"


@dataclass(frozen=True, slots=True)
class MergedRun:
    """The new run's snapshot, and how many topics were left out: equal ones, others of the same id, and by reason."""

    snapshot: Snapshot
    repeated: int
    differing: int
    left_out: Mapping[str, int]


class RepeatFinder(Protocol):
    """Finds topics that repeat others of earlier runs; `similarity` is all that decides it."""

    similarity: float

    def find(self, topic: Topic) -> str:
        """The reason why a topic is left out, or ""."""
        ...

    def end_run(self) -> None:
        """The topics found new so far are those of an earlier run from now on."""
        ...


def merge(sources: Sequence[Snapshot], into: Path, repeats: RepeatFinder | None = None) -> MergedRun:
    """Writes or completes the run of all topics of `sources`. Raises DifferentJobError if `into` holds another run, or
    one that took of an id the first topic, accepted or not, as an earlier version did."""
    if into.resolve() in {source.out.resolve() for source in sources}:
        raise UsageError(f"{into} is one of the runs to merge; give the merged run a folder of its own")
    job: dict[str, Any] = {"merge": [source.digest for source in sources], "of_one_id": "the first accepted"}
    if repeats:
        job["near_duplicates"] = repeats.similarity
    log = open_derived(into, job, sources)
    chosen, committed = _choose(sources), set(log.partitions())
    left_out, repeated, differing, index = Counter[str](), 0, 0, 0
    for place, source in enumerate(sources):
        for topics in read_partitions(source):
            unknown = [topic for topic in topics if chosen[topic.id].source == place]
            equal = sum(chosen[topic.id].content == _content_of(topic) for topic in topics) - len(unknown)
            repeated, differing = repeated + equal, differing + len(topics) - len(unknown) - equal
            reasons = [repeats.find(topic) if repeats else "" for topic in unknown]
            counts = Counter(filter(None, reasons))
            left_out.update(counts)
            if index not in committed:
                new = [as_paid(topic) for topic, reason in zip(unknown, reasons, strict=True) if not reason]
                log.commit(index, new, {"left_out": dict(sorted(counts.items()))} if repeats else {})
            index += 1
        if repeats:
            repeats.end_run()
    return MergedRun(end_derived(log, SNAPSHOT), repeated, differing, left_out)


class _Kept(NamedTuple):
    source: int
    accepted: bool
    content: bytes


def _choose(sources: Sequence[Snapshot]) -> dict[str, _Kept]:
    """For each id the first run in which its topic is accepted; else the first that has it."""
    chosen: dict[str, _Kept] = {}
    for place, source in enumerate(sources):
        for topic in chain.from_iterable(read_partitions(source)):
            accepted = topic.status == "accepted"
            if topic.id not in chosen or (accepted and not chosen[topic.id].accepted):
                chosen[topic.id] = _Kept(place, accepted, _content_of(topic))
    return chosen


def _content_of(topic: Topic) -> bytes:
    """A digest of what a topic says, and of what became of it."""
    parts = (topic.query, topic.intents, topic.passages, topic.judgments, topic.status, topic.reason)
    return hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest()


def as_paid(topic: Topic) -> Topic:
    """The topic in another run: what it cost was paid by the run that made it."""
    return replace(
        topic,
        verdicts=tuple(replace(verdict, cost_usd=0.0) for verdict in topic.verdicts),
        calls=tuple(replace(call, reused=True) for call in topic.calls),
    )
