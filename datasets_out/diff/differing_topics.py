"""The rows of those topics that two runs do not have alike; of equal files nothing is read.

    partitions with other files than the other run's -> pairs of one number -> digests -> rows of topics that differ
    topics without a partner in their pair -> compared once more, wherever they lie

Promise: a file that both runs committed with the same sha256 is not opened, so it is not checked either (`foil verify`
does that). Price: some 4 seconds of CPU for a million topics of which every file differs, and 40 MB for a million
topics that lie in partitions of other numbers.
"""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from foil.datasets_out.commits.entries import partition_of
from foil.datasets_out.commits.schema import TABLES
from foil.datasets_out.commits.snapshot import Snapshot
from foil.datasets_out.commits.stored_rows import TablePart, read_columns
from foil.datasets_out.diff.topic_digests import Hashes, TopicDigests, digest_topics, holds, join_digests

PLACE = "place"
"""The column of `DifferingTopics.rows` that says which of the snapshot's partitions a row lies in, from 0."""
COLUMNS = {
    "topics": ("topic_id", "corpus", "seed_id", "status", "reason"),
    "intents": ("topic_id", "intent_id", "role"),
    "judgments": ("topic_id", "intent_id", "passage_id", "relevance", "judge"),
}
_PLAIN = ("relevance", "seed_id")
_SCHEMAS = {
    table: pa.schema([TABLES[table].field(name).with_nullable(True) for name in names]).append(
        pa.field(PLACE, pa.int32())
    )
    for table, names in COLUMNS.items()
}
_OF_TABLE = {"topics": "outcomes", "intents": "intents", "judgments": "judgments"}

Places = NDArray[np.int64]
Rows = dict[str, pa.Table]


@dataclass(frozen=True, slots=True)
class DifferingTopics:
    """A run's rows by table, COLUMNS and PLACE: `topics` that the other run lacks or gives another outcome, `intents`
    and `judgments` of topics that both have, with others."""

    snapshot: Snapshot
    rows: Mapping[str, pa.Table]


@dataclass(frozen=True, slots=True)
class _Partition:
    place: int
    number: int
    topics: int
    sha256: tuple[str, ...]
    parts: Mapping[str, TablePart]

    def read(self, table: str) -> pa.Table:
        """COLUMNS of this table, ids encoded, and PLACE."""
        columns = COLUMNS[table]
        rows = read_columns(self.parts[table], columns, [name for name in columns if name not in _PLAIN])
        return rows.append_column(
            _SCHEMAS[table].field(PLACE), pa.repeat(pa.scalar(self.place, pa.int32()), rows.num_rows)
        )


@dataclass(frozen=True, slots=True)
class _Found:
    """What a comparison found of one run: rows by table, and the topics without a partner with their places."""

    rows: Mapping[str, pa.Table]
    alone: TopicDigests
    places: Places


@dataclass(frozen=True, slots=True)
class _Match:
    """Topics that two sets of digests share, as their rows in each; `unlike`: which of them differ, by digest."""

    rows: tuple[Places, Places]
    unlike: Mapping[str, NDArray[np.bool_]]

    @property
    def alike(self) -> int:
        """How many do not differ at all."""
        return len(self.rows[0]) - int(np.logical_or.reduce(list(self.unlike.values())).sum())


def find_differing(a: Snapshot, b: Snapshot) -> tuple[DifferingTopics, DifferingTopics, dict[str, int]]:
    """What differs of each, and the numbers of topics in `a`, in `b`, in `both`, and in both `alike`.

    Raises CorruptDataError for a file that is missing or damaged, of those that are read.
    """
    of_a, of_b = _partitions(a), _partitions(b)
    shared = {part.sha256 for part in of_a} & {part.sha256 for part in of_b}
    first, second = ({p.number: p for p in parts if p.sha256 not in shared} for parts in (of_a, of_b))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        numbers = sorted(first.keys() | second.keys())
        pairs = list(pool.map(lambda number: _compare_pair(first.get(number), second.get(number)), numbers))
        moved = _compare_moved((of_a, of_b), [pair for pair, _ in pairs], pool)
    matches = [match for _, match in (*pairs, moved)]
    equal = sum(part.topics for part in of_a if part.sha256 in shared)
    counts = {
        "a": sum(part.topics for part in of_a),
        "b": sum(part.topics for part in of_b),
        "both": equal + sum(len(match.rows[0]) for match in matches),
        "alike": equal + sum(match.alike for match in matches),
    }
    rows = [_joined_rows([pair[side].rows for pair, _ in (*pairs, moved)]) for side in (0, 1)]
    return DifferingTopics(a, rows[0]), DifferingTopics(b, rows[1]), counts


def _partitions(snapshot: Snapshot) -> list[_Partition]:
    parts = zip(*(snapshot.parts(table) for table in COLUMNS), strict=True)
    contents = zip(*(snapshot.contents[table] for table in COLUMNS), strict=True)
    return [
        _Partition(
            place,
            partition_of(facts[0]),
            facts[0].rows,
            tuple(file.sha256 for file in facts),
            dict(zip(COLUMNS, stored, strict=True)),
        )
        for place, (stored, facts) in enumerate(zip(parts, contents, strict=True))
    ]


def _compare_pair(a: _Partition | None, b: _Partition | None) -> tuple[tuple[_Found, _Found], _Match]:
    """Two partitions of one number, or one without a partner. A child table whose files are equal is not read."""
    same = {table for n, table in enumerate(COLUMNS) if a and b and a.sha256[n] == b.sha256[n]} - {"topics"}
    read = [table for table in COLUMNS if table not in same]
    tables = [_joined_rows([{table: part.read(table) for table in read}] if part else []) for part in (a, b)]
    digests = [digest_topics(each) for each in tables]
    match = _match(*digests)
    first, second = (
        _found(part.place if part else 0, rows, own, shared, match)
        for part, rows, own, shared in zip((a, b), tables, digests, match.rows, strict=True)
    )
    return (first, second), match


def _found(place: int, tables: Mapping[str, pa.Table], own: TopicDigests, shared: Places, match: _Match) -> _Found:
    rows = {table: _rows_of(table, tables[table], own.topics[shared[match.unlike[table]]]) for table in COLUMNS}
    alone = np.ones(len(own.topics), bool)
    alone[shared] = False
    return _Found(rows, own.take(alone), np.full(int(alone.sum()), place))


def _compare_moved(
    partitions: tuple[Sequence[_Partition], Sequence[_Partition]],
    pairs: Sequence[tuple[_Found, _Found]],
    pool: ThreadPoolExecutor,
) -> tuple[tuple[_Found, _Found], _Match]:
    """The topics that found no partner in their pair of partitions: among them all, or they are in one run alone."""
    digests = [join_digests([pair[side].alone for pair in pairs]) for side in (0, 1)]
    match = _match(*digests)
    results = []
    for side, (own, shared) in enumerate(zip(digests, match.rows, strict=True)):
        places = np.concatenate([np.empty(0, np.int64), *(pair[side].places for pair in pairs)])
        alike = np.zeros(len(places), bool)
        alike[shared[~match.unlike["topics"]]] = True
        selected = {table: shared[match.unlike[table]] for table in COLUMNS} | {"topics": np.flatnonzero(~alike)}
        results.append(_Found(_read_topics(partitions[side], own.topics, places, selected, pool), own, places))
    return (results[0], results[1]), match


def _read_topics(
    partitions: Sequence[_Partition],
    topics: Hashes,
    places: Places,
    selected: Mapping[str, Places],
    pool: ThreadPoolExecutor,
) -> Rows:
    """The rows of these topics, given by their numbers in `topics`; a file that has none of them is not opened."""

    def read(task: tuple[str, int]) -> Rows:
        table, place = task
        numbers = selected[table][places[selected[table]] == place]
        return {table: _rows_of(table, partitions[place].read(table), topics[numbers])}

    tasks = [(table, place) for table, rows in selected.items() for place in np.unique(places[rows]).tolist()]
    return _joined_rows(list(pool.map(read, tasks)))


def _match(a: TopicDigests, b: TopicDigests) -> _Match:
    _, in_a, in_b = np.intersect1d(a.topics, b.topics, assume_unique=True, return_indices=True)
    unlike = {table: getattr(a, name)[in_a] != getattr(b, name)[in_b] for table, name in _OF_TABLE.items()}
    return _Match((in_a, in_b), unlike)


def _rows_of(table: str, rows: pa.Table, topics: Hashes) -> pa.Table:
    """The rows that belong to these topics, decoded."""
    if not len(topics):
        return _SCHEMAS[table].empty_table()
    return rows.filter(pa.array(holds(rows["topic_id"], np.sort(topics)))).cast(_SCHEMAS[table])


def _joined_rows(parts: Sequence[Mapping[str, pa.Table]]) -> Rows:
    """The rows of all parts by table."""
    tables = {table: [part[table] for part in parts if table in part] for table in COLUMNS}
    return {table: pa.concat_tables(rows or [_SCHEMAS[table].empty_table()]) for table, rows in tables.items()}
