"""A run with mined negatives: every topic of another run, the mined ones with more passages judged -1 by `mined`.

    snapshot of a run --partition by partition--> mine(topics) --> topics with what was mined --> a run of its own

Promise: no judgment of the old run is changed or lost, and the old run is not touched. A mined passage is judged for
the intents that it was mined for, and for no other. Topics keep their ids, and with them their side of every split;
what was asked of models for them stays paid by the old run (`reused`). The same snapshot and the same mining give the
same bytes; a run that was stopped goes on behind its last partition. Price: one partition of topics in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from datasets_out.commits.entries import CommitEntry
from datasets_out.commits.log import CommitLog
from datasets_out.commits.schema import TABLES, from_tables
from datasets_out.commits.snapshot import Snapshot, take_snapshot
from datasets_out.training.candidate_pool import MiningCandidate
from engine.ids import canonical_json, sha256_hex
from engine.topic import Judgment, Passage, Topic

JUDGE = "mined"
SNAPSHOT = "mined"
DIGITS = 6
"""Significant digits of a stored score."""


@dataclass(frozen=True, slots=True)
class Mined:
    """A passage that was taken as a negative of an intent: its rank (from 1) and score under it, and the score of the
    intent's lowest positive."""

    intent_id: str
    candidate: MiningCandidate
    rank: int
    score: float
    positive: float


@dataclass(frozen=True, slots=True)
class Findings:
    """What mining made of a partition: the mined negatives by topic, and how many of what there was."""

    mined: Mapping[str, Sequence[Mined]]
    counts: Counter[str]


@dataclass(frozen=True, slots=True)
class MinedRun:
    """The new run's snapshot, and the sums of its partitions' counts."""

    snapshot: Snapshot
    counts: Counter[str]


def topics_of(source: Snapshot) -> Iterator[list[Topic]]:
    """All topics of a snapshot, whatever became of them, one partition at a time."""
    files = {table: source.files(table) for table in TABLES}
    for paths in zip(*files.values(), strict=True):
        yield from_tables({table: pq.read_table(path) for table, path in zip(files, paths, strict=True)})


def write_mined(
    source: Snapshot, out: Path, miner: str, identity: Mapping[str, Any], mine: Callable[[Sequence[Topic]], Findings]
) -> MinedRun:
    """Writes or completes the run of `source` with what `mine` finds for each partition, and takes its snapshot.

    `identity` is all that decides what is found. Raises DifferentJobError if `out` holds another run.
    """
    job = {"mine": identity, "of": source.digest}
    log = CommitLog(out)
    log.open(sha256_hex(canonical_json(job))[:32], job)
    done, entries = set(log.partitions()), _entries(source)
    for index, (topics, entry) in enumerate(zip(topics_of(source), entries, strict=True)):
        if index not in done:
            found = mine(topics)
            carried = [with_mined(topic, found.mined.get(topic.id, ()), miner) for topic in topics]
            log.commit(index, carried, {**entry.facts, JUDGE: dict(sorted(found.counts.items()))})
    log.put_plan({"seeds": sum(sum(one.counts.seeds.values()) for one in entries), "partitions": len(entries)})
    counts: Counter[str] = Counter()
    for entry in log.entries():
        counts.update(entry.facts[JUDGE])
    return MinedRun(take_snapshot(out, SNAPSHOT), counts)


def with_mined(topic: Topic, mined: Sequence[Mined], miner: str) -> Topic:
    """The topic with these negatives. They stand before its other passages that the query does not want, since a
    trainer that has room for some takes the first. A topic is redistributable only if all that it holds is."""
    calls = tuple(replace(call, reused=True) for call in topic.calls)
    verdicts = tuple(replace(verdict, cost_usd=0.0) for verdict in topic.verdicts)
    asked = {intent.id for intent in topic.intents if intent.query == topic.intents[0].query}
    wanted = {j.passage_id for j in topic.judgments if j.relevance > 0 and j.intent_id in asked}
    return replace(
        topic,
        passages=(
            *(passage for passage in topic.passages if passage.id in wanted),
            *_passages(topic, mined, miner),
            *(passage for passage in topic.passages if passage.id not in wanted),
        ),
        judgments=(*topic.judgments, *(Judgment(one.intent_id, one.candidate.passage.id, -1, JUDGE) for one in mined)),
        verdicts=verdicts,
        calls=calls,
        redistributable=topic.redistributable and all(one.candidate.redistributable for one in mined),
    )


def _passages(topic: Topic, mined: Iterable[Mined], miner: str) -> Iterator[Passage]:
    """Each mined passage once: `mined` names the miner, `mined_for` has rank and scores by intent, as JSON."""
    found: dict[str, list[Mined]] = {}
    for one in mined:
        found.setdefault(one.candidate.passage.id, []).append(one)
    for same in found.values():
        candidate = same[0].candidate
        known = {} if candidate.licence == topic.licence else {"licence": candidate.licence}
        facts = canonical_json({one.intent_id: _facts(one) for one in same})
        attributes = {**candidate.passage.attributes, **known, "mined": miner, "mined_for": facts}
        yield replace(candidate.passage, role="mined_negative", attributes=attributes)


def _facts(one: Mined) -> dict[str, float]:
    return {"positive": _rounded(one.positive), "rank": one.rank, "score": _rounded(one.score)}


def _rounded(score: float) -> float:
    return float(f"{score:.{DIGITS}g}")


def _entries(source: Snapshot) -> list[CommitEntry]:
    """The commit entries behind a snapshot, in its order."""
    by_file = {entry.files["topics"]: entry for entry in CommitLog(source.out).entries()}
    return [by_file[fact] for fact in source.contents["topics"]]
