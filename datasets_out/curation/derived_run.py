"""A run out of another one: every topic of a snapshot, some of them changed; the old run stays as it is.

    snapshot --partition by partition--> change(topic) --> a run of its own with a snapshot, and where it came from

Promise: no topic is lost. What is taken out stays as a rejected row with its reason and a verdict that says who took it
out and why; what is taken in keeps the verdicts that had rejected it. Topics keep their ids, and so their split; calls
count as `reused`. The same snapshot and the same change give the same bytes, and a change that was stopped goes on
after its last partition. Price: one partition in memory.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from foil.datasets_out.commits.snapshot import Snapshot, read_partitions
from foil.datasets_out.curation.merge import as_paid
from foil.datasets_out.curation.origins import end_derived, open_derived
from foil.engine.errors import UsageError
from foil.engine.topic import ACCEPTED, Topic, Verdict

Change = Callable[[Topic], Topic]
"""The topic as the new run has it."""


@dataclass(frozen=True, slots=True)
class DerivedRun:
    """The new run's snapshot, and how many topics were changed, by what became of them."""

    snapshot: Snapshot
    changed: Counter[str]


def write_derived(source: Snapshot, into: Path, name: str, identity: Mapping[str, Any], change: Change) -> DerivedRun:
    """Writes or completes the run, with the snapshot `name`. `identity` is all that decides the change.

    Raises UsageError where `into` is the source, DifferentJobError where it holds another run.
    """
    if into.resolve() == source.out.resolve():
        raise UsageError(
            f"{into} is the run itself; a run is never changed in place, so give the new one another folder"
        )
    job = {name: identity, "of": source.digest}
    log = open_derived(into, job, [source])
    committed, total = set(log.partitions()), Counter[str]()
    for index, (topics, entry) in enumerate(zip(read_partitions(source), source.entries(), strict=True)):
        if index not in committed:
            new = [change(topic) for topic in topics]
            counts = Counter(map(_became, topics, new))
            del counts[""]
            facts = {**entry.facts, name: dict(sorted(counts.items())), "of_partition": entry.partition}
            log.commit(index, [as_paid(topic) for topic in new], facts)
        total.update(log.entry(index).facts[name])
    return DerivedRun(end_derived(log, name), total)


def taken_out(topic: Topic, by: str, reason: str, evidence: str) -> Topic:
    """The topic as a rejected row."""
    verdict = Verdict(by, "topic", "reject", reason, evidence)
    return replace(topic, status="rejected", reason=reason, detail=evidence, verdicts=(*topic.verdicts, verdict))


def taken_in(topic: Topic, by: str, evidence: str) -> Topic:
    """The topic as an accepted row; why it was rejected stays in its verdicts."""
    verdict = Verdict(by, "topic", "pass", ACCEPTED, f"{evidence}; it was rejected: {topic.reason}")
    return replace(topic, status="accepted", reason="", detail="", verdicts=(*topic.verdicts, verdict))


def _became(before: Topic, after: Topic) -> str:
    """What became of a topic, in a word; "" if it is as it was."""
    if before == after:
        return ""
    return after.reason or after.status if after.status != before.status else "changed"
