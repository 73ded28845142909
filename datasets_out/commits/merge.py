"""One run out of several: every topic of each, accepted or not, with what it cost.

    snapshot, snapshot, ... --partition by partition--> a run of its own, with the snapshot `merged`

Promise: the runs are not touched, and topics keep their ids, so their split. A topic that an earlier run has is left
out and counted, and so is one that nearly repeats one of an earlier run, where that is asked. Calls count as `reused`:
the old runs paid for them. The same snapshots in the same order give the same bytes, and a merge that was stopped goes
on after its last partition. Price: one partition in memory, and about 100 bytes a topic for the ids.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from datasets_out.commits.log import CommitLog
from datasets_out.commits.origins import put_sources
from datasets_out.commits.snapshot import Snapshot, read_partitions, take_snapshot
from engine.errors import UsageError
from engine.ids import canonical_json, sha256_hex
from engine.topic import Topic

SNAPSHOT = "merged"


@dataclass(frozen=True, slots=True)
class MergedRun:
    """The new run's snapshot, and how many topics were left out: those of an earlier run, others by reason."""

    snapshot: Snapshot
    repeated: int
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
    """Writes or completes the run of all topics of `sources`. Raises DifferentJobError if `into` holds another run."""
    if into.resolve() in {source.out.resolve() for source in sources}:
        raise UsageError(f"{into} is one of the runs to merge; give the merged run a folder of its own")
    job: dict[str, Any] = {"merge": [source.digest for source in sources]}
    if repeats:
        job["near_duplicates"] = repeats.similarity
    log = CommitLog(into)
    log.open(sha256_hex(canonical_json(job))[:32], job)
    put_sources(log, sources)
    committed, known, left_out, repeated, index = set(log.partitions()), set[str](), Counter[str](), 0, 0
    for source in sources:
        for topics in read_partitions(source):
            unknown = [topic for topic in topics if topic.id not in known]
            repeated += len(topics) - len(unknown)
            known.update(topic.id for topic in unknown)
            reasons = [repeats.find(topic) if repeats else "" for topic in unknown]
            counts = Counter(filter(None, reasons))
            left_out.update(counts)
            if index not in committed:
                new = [as_paid(topic) for topic, reason in zip(unknown, reasons, strict=True) if not reason]
                log.commit(index, new, {"left_out": dict(sorted(counts.items()))} if repeats else {})
            index += 1
        if repeats:
            repeats.end_run()
    sums = log.sums()
    log.put_plan({"seeds": sums.counts.seeds.total(), "partitions": sums.partitions})
    return MergedRun(take_snapshot(into, SNAPSHOT), repeated, left_out)


def as_paid(topic: Topic) -> Topic:
    """The topic in another run: what it cost was paid by the run that made it."""
    return replace(
        topic,
        verdicts=tuple(replace(verdict, cost_usd=0.0) for verdict in topic.verdicts),
        calls=tuple(replace(call, reused=True) for call in topic.calls),
    )
