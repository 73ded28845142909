"""What two runs do not share: seeds, topics, outcomes, instructions and judgments.

    rows of the topics that differ -> joins by id -> a row for each difference -> texts of those that are looked at

Topics are the same where their ids are, so where recipe, corpus and seed are. Instructions and judgments are compared
in topics that both runs have. Price: the differences are in memory, some 500 bytes each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foil.datasets_out.commits.snapshot import Snapshot, load_snapshot
from foil.datasets_out.commits.stored_rows import read_columns
from foil.datasets_out.diff.differing_topics import DifferingTopics, find_differing

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

_SIDES: tuple[Change, Change] = ("only_in_a", "only_in_b")
_PLACES = ("place_a", "place_b")
_FOUND = pa.schema([*DIFFERENCES, *(pa.field(name, pa.int32()) for name in _PLACES)])
"""DIFFERENCES before their texts are read: of an instruction `before` and `after` are ids, in these partitions."""


@dataclass(frozen=True, slots=True)
class RunDiff:
    """All differences; `topics` counts those of A, of B, of both, and those of both alike."""

    differences: pa.Table
    topics: dict[str, int]
    snapshots: tuple[Snapshot, Snapshot]

    @property
    def rows(self) -> pa.Table:
        """Every difference as a row of DIFFERENCES. Reads the texts of all instructions that differ."""
        return self._with_texts(self.differences)

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Differences by kind and change, zeros too."""
        pairs = Counter(zip(self.differences["kind"].to_pylist(), self.differences["change"].to_pylist(), strict=True))
        return {kind: {change: pairs[kind, change] for change in CHANGES} for kind in KINDS}

    def reasons(self) -> list[tuple[str, str, int]]:
        """How outcomes of topics changed: before, after, topics; most frequent first."""
        outcomes = self.differences.filter(pc.equal(self.differences["kind"], "outcome"))
        changed = outcomes.filter(pc.equal(outcomes["change"], "changed"))
        pairs = Counter(zip(changed["before"].to_pylist(), changed["after"].to_pylist(), strict=True))
        return [(before, after, count) for (before, after), count in pairs.most_common()]

    def examples(self, kind: Kind, change: Change, most: int) -> Rows:
        """The first of one kind."""
        mask = pc.and_(pc.equal(self.differences["kind"], kind), pc.equal(self.differences["change"], change))
        rows: Rows = self._with_texts(self.differences.filter(mask).slice(0, most)).to_pylist()
        return rows

    def _with_texts(self, rows: pa.Table) -> pa.Table:
        """The rows as DIFFERENCES, instructions in words."""
        is_instruction = pc.equal(rows["kind"], "instruction")
        for column, place, snapshot in zip(("before", "after"), _PLACES, self.snapshots, strict=True):
            texts = _words(rows.filter(is_instruction), column, place, snapshot)
            whole = pc.replace_with_mask(rows[column].combine_chunks(), is_instruction.combine_chunks(), texts)
            rows = rows.set_column(rows.schema.get_field_index(column), column, whole)
        return rows.select(DIFFERENCES.names)


def diff_runs(a: Path, b: Path, snapshot_a: str | None = None, snapshot_b: str | None = None) -> RunDiff:
    """Compares two runs: a snapshot of each, or what is committed now. Raises CorruptDataError for a damaged file.

    A file that both committed alike is not opened, so its damage is not found.
    """
    snapshots = (load_snapshot(a, snapshot_a), load_snapshot(b, snapshot_b))
    *sides, topics = find_differing(*snapshots)
    return RunDiff(_differences(*sides), topics, snapshots)


def _differences(a: DifferingTopics, b: DifferingTopics) -> pa.Table:
    topics = [_outcomes(side.rows["topics"]) for side in (a, b)]
    both = (topics, topics[::-1])
    alone = [own.join(partner.select(["topic_id"]), "topic_id", join_type="left anti") for own, partner in both]
    shared = [own.join(partner.select(["topic_id"]), "topic_id", join_type="left semi") for own, partner in both]
    intents = [side.rows["intents"] for side in (a, b)]
    judgments = [_labelled(side.rows["judgments"]) for side in (a, b)]
    seeds = [_seeds(own, partner.snapshot) for own, partner in zip(alone, (b, a), strict=True)]
    return pa.concat_tables(
        [
            *(_one_sided("seed", side, rows) for side, rows in zip(_SIDES, seeds, strict=True)),
            *(_one_sided("topic", side, rows) for side, rows in zip(_SIDES, alone, strict=True)),
            _joined("outcome", shared[0], shared[1], ["topic_id", "corpus", "seed_id"]),
            _instructions(*intents),
            _joined("judgment", judgments[0], judgments[1], ["topic_id", "intent_id", "passage_id"]),
        ]
    )


def _outcomes(topics: pa.Table) -> pa.Table:
    """The topics with a column `what`: accepted, or rejected: leak."""
    reasons = pc.if_else(pc.equal(topics["reason"], ""), "", pc.binary_join_element_wise(": ", topics["reason"], ""))
    words = pc.binary_join_element_wise(topics["status"], reasons, "")
    return topics.select(["topic_id", "corpus", "seed_id"]).append_column("what", words)


def _labelled(judgments: pa.Table) -> pa.Table:
    """The judgments with a column `what`: +1 by rule."""
    signs = pc.if_else(pc.greater(judgments["relevance"], 0), "+1", "-1")
    labels = pc.binary_join_element_wise(signs, judgments["judge"], " by ")
    return judgments.select(["topic_id", "intent_id", "passage_id"]).append_column("what", labels)


def _seeds(alone: pa.Table, other_run: Snapshot) -> pa.Table:
    """The seeds of topics that one run alone has, which the other run has no topic of."""
    keys = ["corpus", "seed_id"]
    seeds = alone.group_by(keys).aggregate([])
    parts = other_run.parts("topics") if len(seeds) else []
    if parts:
        has = pa.concat_tables(read_columns(part, keys) for part in parts)
        seeds = seeds.join(has, keys, join_type="left anti")
    return seeds.append_column("what", seeds["seed_id"]).sort_by([(key, "ascending") for key in keys])


def _instructions(a: pa.Table, b: pa.Table) -> pa.Table:
    """A row an instruction that one run has; one of A and one of B with the same topic and role have changed."""
    keys = ["topic_id", "intent_id", "role"]
    gone, new = a.join(b.select(keys), keys, join_type="left anti"), b.join(a.select(keys), keys, join_type="left anti")
    return _joined("instruction", _ranked(gone), _ranked(new), ["topic_id", "role", "rank"])


def _ranked(intents: pa.Table) -> pa.Table:
    """The intents with `what`, their id, and `rank`, which counts those of one topic and role from 0."""
    intents = intents.sort_by([(key, "ascending") for key in ("topic_id", "role", "intent_id")])
    rows = np.arange(len(intents))
    same = (
        [np.asarray(pc.equal(intents[key][1:], intents[key][:-1]), bool) for key in ("topic_id", "role")]
        if len(intents)
        else [rows.astype(bool)]
    )
    first = np.concatenate([[True], ~np.logical_and.reduce(same)])[: len(intents)]
    rank = rows - np.maximum.accumulate(np.where(first, rows, 0))
    return intents.rename_columns({"intent_id": "what"}).append_column("rank", pa.array(rank))


def _words(instructions: pa.Table, column: str, place: str, snapshot: Snapshot) -> pa.Array:
    """The instructions whose ids are in `column`, in words with their queries; null where there is no id."""
    parts, texts = snapshot.parts("intents"), {}
    for number in pc.unique(instructions[place].drop_null()).to_pylist():
        ids = instructions.filter(pc.equal(instructions[place], number))[column]
        rows = read_columns(parts[number], ("intent_id", "instruction", "query"))
        for row in rows.filter(pc.is_in(rows["intent_id"], ids.combine_chunks())).to_pylist():
            texts[row["intent_id"]] = f"{row['instruction']} [{row['query']}]".lstrip()
    return pa.array([text_id and texts[text_id] for text_id in instructions[column].to_pylist()], pa.string())


def _joined(kind: Kind, a: pa.Table, b: pa.Table, keys: Sequence[str]) -> pa.Table:
    """A row for each key of which A and B say different things, or one says nothing."""
    both = a.join(b, list(keys), join_type="full outer", left_suffix="_a", right_suffix="_b")
    before, after = both["what_a"], both["what_b"]
    differ = pc.fill_null(pc.not_equal(before, after), True)
    change = pc.if_else(pc.is_null(before), CHANGES[1], pc.if_else(pc.is_null(after), CHANGES[0], CHANGES[2]))
    rest = [name for name in (*keys, *_PLACES) if name in both.column_names]
    columns = {name: both[name] for name in rest} | {"before": before, "after": after, "change": change}
    if kind == "instruction":
        columns["intent_id"] = pc.coalesce(after, before)
    return _as_rows(kind, pa.table(columns).filter(differ).sort_by([(key, "ascending") for key in keys]))


def _one_sided(kind: Kind, side: Change, rows: pa.Table) -> pa.Table:
    column = "before" if side == "only_in_a" else "after"
    renamed = rows.rename_columns([column if name == "what" else name for name in rows.column_names])
    return _as_rows(kind, renamed.append_column("change", pa.repeat(pa.scalar(side), len(renamed))))


def _as_rows(kind: Kind, table: pa.Table) -> pa.Table:
    """The table with the columns of _FOUND, null where it has none."""
    table = table.append_column("kind", pa.repeat(pa.scalar(kind), len(table)))
    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in _FOUND
    ]
    return pa.Table.from_arrays(columns, schema=_FOUND)
