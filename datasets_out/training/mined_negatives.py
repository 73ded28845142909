"""A run with mined negatives: every topic of another run, the mined ones with more passages judged -1 by `mined`.

    snapshot of a run --partition by partition--> mine(topics) --> topics with what was mined --> a run of its own

Promise: no judgment of the old run is changed or lost, and the old run is not touched. A mined passage is judged for
the intents that it was mined for, and for no other. Topics keep their ids, and so their split. Their calls count as
`reused`: the old run paid for them. The same snapshot and the same mining give the same bytes. A run that was stopped
goes on after its last partition. Price: one partition of topics in memory.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from foil.datasets_out.commits.snapshot import Snapshot, read_partitions, take_snapshot
from foil.datasets_out.curation.merge import as_paid
from foil.datasets_out.curation.origins import open_derived
from foil.datasets_out.training.candidate_pool import CandidatePassage
from foil.engine.ids import canonical_json
from foil.engine.topic import Judgment, Passage, Topic

JUDGE = "mined"
SNAPSHOT = "mined"
DIGITS = 6
"""Significant digits of a stored score."""


@dataclass(frozen=True, slots=True)
class MinedNegative:
    """A passage taken as a negative of an intent: its rank (from 1), its score, and that of the lowest positive."""

    intent_id: str
    candidate: CandidatePassage
    rank: int
    score: float
    positive: float


@dataclass(frozen=True, slots=True)
class MiningResult:
    """The mined negatives of a partition by topic id, and the counts of what was considered, refused and taken."""

    mined: Mapping[str, Sequence[MinedNegative]]
    counts: Counter[str]


Mine = Callable[[Sequence[Topic]], MiningResult]
"""Mines for the topics of one partition."""


@dataclass(frozen=True, slots=True)
class MinedRun:
    """The new run's snapshot, and the sums of its partitions' counts."""

    snapshot: Snapshot
    counts: Counter[str]


def write_mined(source: Snapshot, out: Path, miner: str, identity: Mapping[str, Any], search: Mine) -> MinedRun:
    """Writes or completes the run of `source` with what `search` returns for each partition, and takes its snapshot.

    `identity` is all that decides which negatives are mined. Raises DifferentJobError if `out` holds another run.
    """
    log = open_derived(out, {"mine": identity, "of": source.digest}, [source])
    committed, entries = set(log.partitions()), list(source.entries())
    for index, (topics, entry) in enumerate(zip(read_partitions(source), entries, strict=True)):
        if index not in committed:
            result = search(topics)
            with_negatives = [with_mined(topic, result.mined.get(topic.id, ()), miner) for topic in topics]
            log.commit(index, with_negatives, {**entry.facts, JUDGE: dict(sorted(result.counts.items()))})
    log.put_plan({"seeds": sum(entry.counts.seeds.total() for entry in entries), "partitions": len(entries)})
    counts: Counter[str] = Counter()
    for entry in log.entries():
        counts.update(entry.facts[JUDGE])
    return MinedRun(take_snapshot(out, SNAPSHOT), counts)


def with_mined(topic: Topic, mined: Sequence[MinedNegative], miner: str) -> Topic:
    """The topic with these negatives, before its other passages that are not relevant to the query.

    A trainer that has room for some passages takes the first. A topic is redistributable only if all it holds is.
    """
    same_query = {intent.id for intent in topic.intents if intent.query == topic.intents[0].query}
    relevant = {j.passage_id for j in topic.judgments if j.relevance > 0 and j.intent_id in same_query}
    judgments = (Judgment(negative.intent_id, negative.candidate.passage.id, -1, JUDGE) for negative in mined)
    return replace(
        as_paid(topic),
        passages=(
            *(passage for passage in topic.passages if passage.id in relevant),
            *_passages(topic, mined, miner),
            *(passage for passage in topic.passages if passage.id not in relevant),
        ),
        judgments=(*topic.judgments, *judgments),
        redistributable=topic.redistributable and all(negative.candidate.redistributable for negative in mined),
    )


def _passages(topic: Topic, mined: Iterable[MinedNegative], miner: str) -> Iterator[Passage]:
    """Each mined passage once: `mined` names the miner, `mined_for` has rank and scores by intent, as JSON."""
    by_passage: dict[str, list[MinedNegative]] = {}
    for negative in mined:
        by_passage.setdefault(negative.candidate.passage.id, []).append(negative)
    for negatives in by_passage.values():
        candidate = negatives[0].candidate
        licence = {} if candidate.licence == topic.licence else {"licence": candidate.licence}
        facts = canonical_json({negative.intent_id: _facts(negative) for negative in negatives})
        attributes = {**candidate.passage.attributes, **licence, "mined": miner, "mined_for": facts}
        yield replace(candidate.passage, role="mined_negative", attributes=attributes)


def _facts(negative: MinedNegative) -> dict[str, float]:
    return {"positive": _round(negative.positive), "rank": negative.rank, "score": _round(negative.score)}


def _round(score: float) -> float:
    return float(f"{score:.{DIGITS}g}")
