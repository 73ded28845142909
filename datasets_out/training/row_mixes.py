"""Dual-View's four mixes of training rows: two pairs of equal size, which differ in the kind of row alone.

    a run with both views --write_mixes--> ins_orig  ins_dv     T rows each: instructed; both views of half the topics
                                           all_orig  all_dv    2T rows each: instructed and bare; both views

(Dual-View, section 3.) Each mix is a run of its own with a snapshot of its name, so it is queried, verified and trained
on like any other. Its topics keep their ids, and so their split. A passage that does not answer the bare query is a
negative of every row. Price: all topics are held in memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from foil.datasets_out.commits.snapshot import Snapshot, read_accepted, take_snapshot
from foil.datasets_out.curation.origins import open_derived
from foil.engine.errors import UsageError
from foil.engine.ids import sha256_hex
from foil.engine.topic import IntentRole, Judgment, Topic

_PARTITION_TOPICS = 256
_MIXES: Mapping[str, tuple[frozenset[IntentRole], int]] = {
    "ins_orig": (frozenset({"instructed"}), 1),
    "ins_dv": (frozenset({"instructed", "dual", "reversed"}), 2),
    "all_orig": (frozenset({"original", "instructed"}), 1),
    "all_dv": (frozenset({"instructed", "dual", "reversed"}), 1),
}
"""The roles of the intents that a topic keeps, and the step between the topics that are taken."""


def write_mixes(snapshot: Snapshot, into: Path) -> dict[str, Snapshot]:
    """Writes the four mixes as runs under `into`; the same snapshot gives the same mixes, and writing again is a no-op.

    Raises UsageError where fewer than two topics have both views.
    """
    topics = [topic for topic in read_accepted(snapshot) if _has_both_views(topic)]
    topics.sort(key=lambda topic: sha256_hex(f"mix\x1f{topic.id}"))
    topics = topics[: len(topics) // 2 * 2]
    if not topics:
        raise UsageError(
            f"{snapshot.out} has fewer than two accepted topics with both views; run the recipe dual_view or verifiable"
        )
    return {name: _write_mix(name, topics, snapshot, into / name) for name in _MIXES}


def _has_both_views(topic: Topic) -> bool:
    roles = [intent.role for intent in topic.intents]
    return roles.count("instructed") == roles.count("dual") + roles.count("reversed") == 1


def _write_mix(name: str, topics: Sequence[Topic], source: Snapshot, out: Path) -> Snapshot:
    roles, step = _MIXES[name]
    rows = [_keep_intents(topic, roles, name) for topic in topics[::step]]
    log = open_derived(out, {"mix": name, "of": source.digest}, [source])
    partitions = [rows[begin : begin + _PARTITION_TOPICS] for begin in range(0, len(rows), _PARTITION_TOPICS)]
    for index, partition in enumerate(partitions):
        log.commit(index, partition, {})
    log.put_plan({"seeds": len(rows), "partitions": len(partitions)})
    return take_snapshot(out, name)


def _keep_intents(topic: Topic, roles: frozenset[IntentRole], mix: str) -> Topic:
    """The topic with the intents of these roles alone. Its calls stay with the run that paid for them."""
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
    passage_ids = {j.passage_id for j in judgments}
    return replace(
        topic,
        intents=intents,
        passages=tuple(p for p in topic.passages if p.id in passage_ids),
        judgments=tuple(judgments),
        calls=(),
        attributes={**topic.attributes, "mix": mix},
    )
