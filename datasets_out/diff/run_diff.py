"""What two runs do not share: seeds, topics, outcomes, instructions and judgments.

    digests of all topics -> those that differ -> their rows of both runs -> a row for each difference

Topics are the same where their ids are, so where recipe, corpus and seed are. Instructions and judgments are compared
in topics that both runs have. Price: the differences are in memory, some 500 bytes each.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from datasets_out.commits.schema import TABLES
from datasets_out.commits.snapshot import Snapshot, load_snapshot
from datasets_out.diff.topic_digests import KnownPartitions, TopicDigests, digest_topics, hash_column, read_columns

Kind = Literal["seed", "topic", "outcome", "instruction", "judgment"]
Change = Literal["only_in_a", "only_in_b", "changed"]
KINDS: tuple[Kind, ...] = ("seed", "topic", "outcome", "instruction", "judgment")
CHANGES: tuple[Change, ...] = ("only_in_a", "only_in_b", "changed")

DIFFERENCES = pa.schema(
    [
        pa.field(name, pa.string())
        for name in (
            "kind", "change", "corpus", "seed_id", "topic_id", "intent_id", "passage_id", "role", "before", "after",
        )
    ]
)  # fmt: skip
"""A row is one difference. `before` is what A has, `after` what B has; null where it has nothing."""

Rows = list[dict[str, Any]]

_DIGESTS = ("outcomes", "intents", "judgments")
_PLAIN = ("relevance", "instruction", "query", "seed_id")
_SIDES: tuple[Change, Change] = ("only_in_a", "only_in_b")
_TOPIC = ("topic_id", "corpus", "seed_id", "status", "reason")
_JUDGMENT = ("topic_id", "intent_id", "passage_id", "relevance", "judge")
_INTENT = ("topic_id", "intent_id", "role", "instruction", "query")


@dataclass(frozen=True, slots=True)
class RunDiff:
    """All differences as rows of DIFFERENCES; `topics` counts those of A, of B, of both, and those of both alike."""

    rows: pa.Table
    topics: Mapping[str, int]

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Differences by kind and change, zeros too."""
        pairs = Counter(zip(self.rows["kind"].to_pylist(), self.rows["change"].to_pylist(), strict=True))
        return {kind: {change: pairs[kind, change] for change in CHANGES} for kind in KINDS}

    def reasons(self) -> list[tuple[str, str, int]]:
        """How outcomes of topics changed: before, after, topics; most frequent first."""
        outcomes = self.rows.filter(pc.equal(self.rows["kind"], "outcome"))
        changed = outcomes.filter(pc.equal(outcomes["change"], "changed"))
        pairs = Counter(zip(changed["before"].to_pylist(), changed["after"].to_pylist(), strict=True))
        return [(before, after, count) for (before, after), count in pairs.most_common()]

    def examples(self, kind: Kind, change: Change, most: int) -> Rows:
        """The first of one kind."""
        mask = pc.and_(pc.equal(self.rows["kind"], kind), pc.equal(self.rows["change"], change))
        rows: Rows = self.rows.filter(mask).slice(0, most).to_pylist()
        return rows


@dataclass(frozen=True, slots=True)
class _Side:
    """One run: its digests, and its topics that differ in some way, as marks on them."""

    snapshot: Snapshot
    digests: TopicDigests
    marks: Mapping[str, NDArray[np.bool_]]

    def read(self, table: str, mark: str, columns: Sequence[str]) -> pa.Table:
        """The rows of a table that belong to the topics with this mark; no other file is opened."""
        wanted = np.sort(self.digests.topics[self.marks[mark]])
        numbers = np.unique(self.digests.place[self.marks[mark]]).tolist()
        parts = self.snapshot.parts(table)
        encoded = [name for name in columns if name not in _PLAIN]

        def rows(number: int) -> pa.Table:
            found = read_columns(parts[number], columns, encoded)
            owners = hash_column(found["topic_id"])
            places = np.minimum(np.searchsorted(wanted, owners), len(wanted) - 1)
            return found.filter(pa.array(wanted[places] == owners)).cast(schema)

        schema = pa.schema([TABLES[table].field(name).with_nullable(True) for name in columns])
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return pa.concat_tables([schema.empty_table(), *pool.map(rows, numbers)])


def diff_runs(a: Path, b: Path) -> RunDiff:
    """Compares what is committed in two runs. Raises CorruptDataError for a damaged file."""
    snapshots = [load_snapshot(out, None) for out in (a, b)]
    known: KnownPartitions = {}
    first, second = (digest_topics(snapshot, known) for snapshot in snapshots)
    _, in_first, in_second = np.intersect1d(first.topics, second.topics, return_indices=True)
    sides = (
        _Side(snapshots[0], first, _marks(first, in_first, second, in_second)),
        _Side(snapshots[1], second, _marks(second, in_second, first, in_first)),
    )
    unlike = np.logical_or.reduce([sides[0].marks[name] for name in _DIGESTS])
    counts = {"a": len(first.topics), "b": len(second.topics), "both": len(in_first)}
    return RunDiff(_differences(*sides), counts | {"alike": len(in_first) - int(unlike.sum())})


def _marks(
    own: TopicDigests, here: NDArray[np.int64], other: TopicDigests, there: NDArray[np.int64]
) -> dict[str, NDArray[np.bool_]]:
    """Which topics the other run has with another digest; `topics`: or with another outcome, or not at all."""
    alone = np.ones(len(own.topics), bool)
    alone[here] = False
    marks = {name: np.zeros(len(own.topics), bool) for name in _DIGESTS}
    for name in _DIGESTS:
        marks[name][here] = getattr(own, name)[here] != getattr(other, name)[there]
    return marks | {"topics": alone | marks["outcomes"]}


def _differences(a: _Side, b: _Side) -> pa.Table:
    topics = [_outcomes(side.read("topics", "topics", _TOPIC)) for side in (a, b)]
    both = (topics, topics[::-1])
    alone = [own.join(other.select(["topic_id"]), "topic_id", join_type="left anti") for own, other in both]
    shared = [own.join(other.select(["topic_id"]), "topic_id", join_type="left semi") for own, other in both]
    intents = [side.read("intents", "intents", _INTENT) for side in (a, b)]
    judgments = [_labelled(side.read("judgments", "judgments", _JUDGMENT)) for side in (a, b)]
    seeds = [_seeds(own, other) for own, other in zip(alone, (b, a), strict=True)]
    return pa.concat_tables(
        [
            *(_one_sided("seed", side, found) for side, found in zip(_SIDES, seeds, strict=True)),
            *(_one_sided("topic", side, found) for side, found in zip(_SIDES, alone, strict=True)),
            _joined("outcome", shared[0], shared[1], ["topic_id", "corpus", "seed_id"]),
            pa.Table.from_pylist(list(_instructions(intents[0], intents[1])), DIFFERENCES),
            _joined("judgment", judgments[0], judgments[1], ["topic_id", "intent_id", "passage_id"]),
        ]
    )


def _outcomes(topics: pa.Table) -> pa.Table:
    """The topics with a column `what`: accepted, or rejected: leak."""
    reasons = pc.if_else(pc.equal(topics["reason"], ""), "", pc.binary_join_element_wise(": ", topics["reason"], ""))
    what = pc.binary_join_element_wise(topics["status"], reasons, "")
    return topics.select(["topic_id", "corpus", "seed_id"]).append_column("what", what)


def _labelled(judgments: pa.Table) -> pa.Table:
    """The judgments with a column `what`: +1 by rule."""
    signs = pc.if_else(pc.greater(judgments["relevance"], 0), "+1", "-1")
    what = pc.binary_join_element_wise(signs, judgments["judge"], " by ")
    return judgments.select(["topic_id", "intent_id", "passage_id"]).append_column("what", what)


def _seeds(alone: pa.Table, other: _Side) -> pa.Table:
    """The seeds of topics that one run alone has, which the other run has no topic of."""
    keys = ["corpus", "seed_id"]
    seeds = alone.group_by(keys).aggregate([])
    if not len(seeds):
        return seeds.append_column("what", seeds["seed_id"])
    has = pa.concat_tables([read_columns(part, keys) for part in other.snapshot.parts("topics")] or [seeds.slice(0, 0)])
    missing = seeds.join(has, keys, join_type="left anti").sort_by([(key, "ascending") for key in keys])
    return missing.append_column("what", missing["seed_id"])


def _instructions(a: pa.Table, b: pa.Table) -> Iterator[dict[str, Any]]:
    """A row an instruction that one run has; one of A and one of B with the same topic and role have changed."""
    keys = ["topic_id", "intent_id", "role"]
    gone, new = a.join(b.select(keys), keys, join_type="left anti"), b.join(a.select(keys), keys, join_type="left anti")
    pairs: dict[tuple[str, str], tuple[Rows, Rows]] = defaultdict(lambda: ([], []))
    for place, table in enumerate((gone, new)):
        for row in table.sort_by([(key, "ascending") for key in keys]).to_pylist():
            pairs[row["topic_id"], row["role"]][place].append(row)
    for (topic, role), sides in pairs.items():
        for old, fresh in zip_longest(*sides):
            change = CHANGES[2] if old and fresh else CHANGES[0] if old else CHANGES[1]
            yield {
                "kind": "instruction", "change": change, "topic_id": topic, "role": role,
                "intent_id": (fresh or old)["intent_id"], "before": _words(old), "after": _words(fresh),
            }  # fmt: skip


def _words(intent: Mapping[str, str] | None) -> str | None:
    return f"{intent['instruction']} [{intent['query']}]".lstrip() if intent else None


def _joined(kind: Kind, a: pa.Table, b: pa.Table, keys: Sequence[str]) -> pa.Table:
    """A row for each key of which A and B say different things, or one says nothing."""
    both = a.join(b, list(keys), join_type="full outer", left_suffix="_a", right_suffix="_b")
    before, after = both["what_a"], both["what_b"]
    differ = pc.fill_null(pc.not_equal(before, after), True)
    change = pc.if_else(pc.is_null(before), CHANGES[1], pc.if_else(pc.is_null(after), CHANGES[0], CHANGES[2]))
    columns = {name: both[name] for name in keys} | {"before": before, "after": after, "change": change}
    return _as_rows(kind, pa.table(columns).filter(differ).sort_by([(key, "ascending") for key in keys]))


def _one_sided(kind: Kind, side: Change, found: pa.Table) -> pa.Table:
    what = "before" if side == "only_in_a" else "after"
    renamed = found.rename_columns([what if name == "what" else name for name in found.column_names])
    return _as_rows(kind, renamed.append_column("change", pa.repeat(pa.scalar(side), len(renamed))))


def _as_rows(kind: Kind, table: pa.Table) -> pa.Table:
    """The table with the columns of DIFFERENCES, null where it has none."""
    table = table.append_column("kind", pa.repeat(pa.scalar(kind), len(table)))
    columns = [
        table[name].cast(pa.string()) if name in table.column_names else pa.nulls(len(table), pa.string())
        for name in DIFFERENCES.names
    ]
    return pa.Table.from_arrays(columns, schema=DIFFERENCES)
