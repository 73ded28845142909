"""Dual-View's four mixes of training rows, of equal size in pairs, so that what differs is the kind of row alone.

    a run with both views --write_mixes--> ins_orig  ins_dv     T rows each: instructed; both views of half the topics
                                           all_orig  all_dv    2T rows each: instructed and bare; both views

(Dual-View, section 3.) Each mix is a run of its own with a snapshot of its name, so it is queried, verified and trained
on like any other; its topics keep their ids, and with them their side of every split. A passage that does not answer
the bare query is a negative of every row. Price: the run is read and checked once; all topics are held in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from datasets_out.commits.log import CommitLog
from datasets_out.commits.schema import TABLES, from_tables
from datasets_out.commits.snapshot import Snapshot, take_snapshot
from engine.errors import UsageError
from engine.ids import canonical_json, sha256_hex
from engine.topic import IntentRole, Judgment, Topic

_PARTITION_TOPICS = 256
_MIXES: Mapping[str, tuple[frozenset[IntentRole], int]] = {
    "ins_orig": (frozenset({"instructed"}), 1),
    "ins_dv": (frozenset({"instructed", "dual", "reversed"}), 2),
    "all_orig": (frozenset({"original", "instructed"}), 1),
    "all_dv": (frozenset({"instructed", "dual", "reversed"}), 1),
}
"""The intents that a topic keeps, and of how many topics one is taken."""


def accepted(snapshot: Snapshot) -> Iterator[Topic]:
    """The accepted topics of a snapshot, in order, one partition in memory."""
    files = {table: snapshot.files(table) for table in TABLES}
    for paths in zip(*files.values(), strict=True):
        tables = {table: pq.read_table(path) for table, path in zip(files, paths, strict=True)}
        yield from (topic for topic in from_tables(tables) if topic.status == "accepted")


def write_mixes(snapshot: Snapshot, into: Path) -> dict[str, Snapshot]:
    """Writes the four mixes as runs under `into`; the same snapshot gives the same mixes, and writing again is a no-op.

    Raises UsageError where fewer than two topics have both views.
    """
    both = [topic for topic in accepted(snapshot) if _both_views(topic)]
    both.sort(key=lambda topic: sha256_hex(f"mix\x1f{topic.id}"))
    both = both[: len(both) // 2 * 2]
    if not both:
        raise UsageError(
            f"{snapshot.out} has fewer than two accepted topics with both views; run the recipe dual_view or verifiable"
        )
    return {name: _write(name, both, snapshot, into / name) for name in _MIXES}


def _both_views(topic: Topic) -> bool:
    roles = [intent.role for intent in topic.intents]
    return roles.count("instructed") == roles.count("dual") + roles.count("reversed") == 1


def _write(name: str, topics: Sequence[Topic], source: Snapshot, out: Path) -> Snapshot:
    roles, every = _MIXES[name]
    chosen = [_narrowed(topic, roles, name) for topic in topics[::every]]
    job = {"mix": name, "of": source.digest}
    log = CommitLog(out)
    log.open(sha256_hex(canonical_json(job))[:32], job)
    parts = [chosen[at : at + _PARTITION_TOPICS] for at in range(0, len(chosen), _PARTITION_TOPICS)]
    for index, part in enumerate(parts):
        log.commit(index, part, {})
    log.put_plan({"seeds": len(chosen), "partitions": len(parts)})
    return take_snapshot(out, name)


def _narrowed(topic: Topic, roles: frozenset[IntentRole], mix: str) -> Topic:
    """The topic with these intents alone; it cost nothing more, so its calls stay with the run that paid them."""
    intents = tuple(intent for intent in topic.intents if intent.role in roles)
    judgments = [j for j in topic.judgments if j.intent_id in {intent.id for intent in intents}]
    bare = {intent.id for intent in topic.intents if intent.role == "original"}
    judged = {(j.intent_id, j.passage_id) for j in judgments}
    for intent in intents:
        judgments += [
            Judgment(intent.id, j.passage_id, -1, j.judge)
            for j in topic.judgments
            if j.intent_id in bare and j.relevance < 0 and (intent.id, j.passage_id) not in judged
        ]
    kept = {j.passage_id for j in judgments}
    return replace(
        topic,
        intents=intents,
        passages=tuple(p for p in topic.passages if p.id in kept),
        judgments=tuple(judgments),
        calls=(),
        attributes={**topic.attributes, "mix": mix},
    )
