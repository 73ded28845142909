"""One run out of several: every topic of each, accepted or not, with what it cost.

    snapshot, snapshot, ... --partition by partition--> a run of its own, with the snapshot `merged`

Promise: the runs are not touched, and topics keep their ids, so their split. A topic that an earlier run has is left
out and counted. Calls count as `reused`: the old runs paid for them. The same snapshots in the same order give the same
bytes, and a merge that was stopped goes on after its last partition. Price: one partition in memory, and about 100
bytes a topic for the ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from datasets_out.commits.log import CommitLog
from datasets_out.commits.snapshot import Snapshot, read_partitions, take_snapshot
from engine.errors import UsageError
from engine.ids import canonical_json, sha256_hex
from engine.topic import Topic

SNAPSHOT = "merged"


@dataclass(frozen=True, slots=True)
class MergedRun:
    """The new run's snapshot, and how many topics were left out since an earlier run has them."""

    snapshot: Snapshot
    repeated: int


def merge(sources: Sequence[Snapshot], into: Path) -> MergedRun:
    """Writes or completes the run of all topics of `sources`. Raises DifferentJobError if `into` holds another run."""
    if into.resolve() in {source.out.resolve() for source in sources}:
        raise UsageError(f"{into} is one of the runs to merge; give the merged run a folder of its own")
    job = {"merge": [source.digest for source in sources]}
    log = CommitLog(into)
    log.open(sha256_hex(canonical_json(job))[:32], job)
    committed, known, repeated = set(log.partitions()), set[str](), 0
    partitions = (topics for source in sources for topics in read_partitions(source))
    for index, topics in enumerate(partitions):
        new = [_paid(topic) for topic in topics if topic.id not in known]
        repeated += len(topics) - len(new)
        known.update(topic.id for topic in new)
        if index not in committed:
            log.commit(index, new, {})
    seeds = sum(entry.counts.seeds.total() for entry in log.entries())
    log.put_plan({"seeds": seeds, "partitions": len(log.entries())})
    return MergedRun(take_snapshot(into, SNAPSHOT), repeated)


def _paid(topic: Topic) -> Topic:
    return replace(
        topic,
        verdicts=tuple(replace(verdict, cost_usd=0.0) for verdict in topic.verdicts),
        calls=tuple(replace(call, reused=True) for call in topic.calls),
    )
