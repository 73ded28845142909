"""Topics as Arrow tables and back: the one shape in which they are stored, queried and trained on.

Six flat tables; every row carries the `topic_id` and the `partition` that it belongs to:

    topics  intents  passages  judgments  verdicts  calls

Promise: `from_tables(to_tables(topics, p)) == topics`, order kept, and equal topics give equal tables. A new column
goes into _LATER_COLUMNS too, with what its absence in older files means. Whoever changes, renames or drops a column
raises SCHEMA_VERSION (a test compares with a golden file).
"""

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import pyarrow as pa

from foil.engine.errors import UnstorableTopicError
from foil.engine.topic import Call, Intent, Judgment, Passage, Topic, Verdict

SCHEMA_VERSION = 1

_TEXT, _MAP = pa.string(), pa.map_(pa.string(), pa.string())
_COLUMNS: dict[str, dict[str, pa.DataType]] = {
    "topics": {
        "topic_id": _TEXT, "partition": pa.int32(), "seed_id": _TEXT, "corpus": _TEXT, "recipe": _TEXT,
        "query": _TEXT, "status": _TEXT, "reason": _TEXT, "detail": _TEXT, "licence": _TEXT,
        "redistributable": pa.bool_(), "attributes": _MAP,
    },
    "intents": {
        "topic_id": _TEXT, "partition": pa.int32(), "intent_id": _TEXT, "role": _TEXT, "instruction": _TEXT,
        "query": _TEXT, "attributes": _MAP,
    },
    "passages": {
        "topic_id": _TEXT, "partition": pa.int32(), "passage_id": _TEXT, "role": _TEXT, "title": _TEXT,
        "text": _TEXT, "source_id": _TEXT, "edited_from": _TEXT, "attributes": _MAP,
    },
    "judgments": {
        "topic_id": _TEXT, "partition": pa.int32(), "intent_id": _TEXT, "passage_id": _TEXT,
        "relevance": pa.int8(), "judge": _TEXT, "votes": pa.list_(pa.int32()),
    },
    "verdicts": {
        "topic_id": _TEXT, "partition": pa.int32(), "validator": _TEXT, "scope": _TEXT, "outcome": _TEXT,
        "reason": _TEXT, "evidence": _TEXT, "score": pa.float64(), "cost_usd": pa.float64(),
    },
    "calls": {
        "topic_id": _TEXT, "partition": pa.int32(), "request_id": _TEXT, "task": _TEXT, "model": _TEXT,
        "template": _TEXT, "prompt_tokens": pa.int64(), "completion_tokens": pa.int64(), "cost_usd": pa.float64(),
        "finish_reason": _TEXT, "reply_text": _TEXT, "reused": pa.bool_(),
        "fault": _TEXT, "salvaged": _TEXT, "turn": _TEXT,
    },
}  # fmt: skip

_OPTIONAL = {"score"}

TABLES: dict[str, pa.Schema] = {
    table: pa.schema(
        [pa.field(name, kind, nullable=name in _OPTIONAL) for name, kind in columns.items()],
        metadata={"foil.table": table, "foil.schema_version": str(SCHEMA_VERSION)},
    )
    for table, columns in _COLUMNS.items()
}
"""The Arrow schema of each table. Only `verdicts.score` may be null: no score was given."""

_CHILDREN: dict[str, type[Any]] = {
    "intents": Intent, "passages": Passage, "judgments": Judgment, "verdicts": Verdict, "calls": Call,
}  # fmt: skip
_LATER_COLUMNS = {"reused": False, "fault": "", "salvaged": "", "turn": ""}
"""Columns added since the first files of this schema, and what their absence in a file means."""
RECORD_IDS = (
    ("topic", "topics", "topic_id"),
    ("seed", "topics", "seed_id"),
    ("intent", "intents", "intent_id"),
    ("passage", "passages", "passage_id"),
    ("call", "calls", "request_id"),
)
"""What is found by an id: its kind, its table, and the column of its id."""
_KEY_DIGITS = 8
_KEY = re.compile(f"[0-9a-f]{{{_KEY_DIGITS}}}")
_ID_COLUMN = {"topics": "topic_id", "intents": "intent_id", "passages": "passage_id"}


def record_key(name: str) -> str:
    """What a pack's filter has of an id: its first 8 digits, or all of it where it does not begin so."""
    return name[:_KEY_DIGITS] if has_key(name) else name


def has_key(beginning: str) -> bool:
    """Whether the beginning of an id says what a filter has of it."""
    return bool(_KEY.match(beginning))


def to_tables(topics: Sequence[Topic], partition: int) -> dict[str, pa.Table]:
    """The six tables of one partition, rows in the order of the topics and of the records within them.

    Raises UnstorableTopicError naming the topic that UTF-8 or a column cannot hold (a lone surrogate, a null), or whose
    id occurs twice.
    """
    _check_ids(topics)
    try:
        return _convert(topics, partition)
    except (ValueError, TypeError, OverflowError):
        _raise_for_topic(topics, partition)
        raise


def from_tables(tables: Mapping[str, pa.Table]) -> list[Topic]:
    """The topics of the tables, in the order of the rows of `topics`; the exact inverse of `to_tables`.

    The tables may hold several partitions; a topic's own rows must keep their order.
    """
    children = {table: _by_topic(table, record_type, tables[table]) for table, record_type in _CHILDREN.items()}
    ids = tables["topics"].column("topic_id").to_pylist()
    columns = [
        [tuple(children[f.name].get(i, ())) for i in ids]
        if f.name in _CHILDREN
        else _values("topics", f.name, tables["topics"])
        for f in dataclasses.fields(Topic)
    ]
    return [Topic(*row) for row in zip(*columns, strict=True)]


def _convert(topics: Sequence[Topic], partition: int) -> dict[str, pa.Table]:
    tables = {"topics": _table("topics", topics, [t.id for t in topics], partition)}
    for table in _CHILDREN:
        groups = list(map(attrgetter(table), topics))
        owners = [t.id for t, group in zip(topics, groups, strict=True) for _ in group]
        tables[table] = _table(table, [record for group in groups for record in group], owners, partition)
    return tables


def _table(table: str, records: Sequence[Any], owners: list[str], partition: int) -> pa.Table:
    arrays = []
    for field in TABLES[table]:
        if field.name == "partition":
            array = pa.repeat(pa.scalar(partition, pa.int32()), len(owners))
        else:
            array = pa.array(_cells(table, field, records, owners), field.type)
        if array.null_count and not field.nullable:
            raise ValueError(f"column {table}.{field.name} must not be null")
        arrays.append(array)
    return pa.Table.from_arrays(arrays, schema=TABLES[table])


def _cells(table: str, field: pa.Field, records: Sequence[Any], owners: list[str]) -> list[Any]:
    if field.name == "topic_id":
        return owners
    values = list(map(attrgetter("id" if field.name == _ID_COLUMN.get(table) else field.name), records))
    return [sorted(value.items()) for value in values] if field.type == _MAP else values


def _by_topic(table: str, record_type: type[Any], rows: pa.Table) -> dict[str, list[Any]]:
    columns = [_values(table, f.name, rows) for f in dataclasses.fields(record_type)]
    groups: dict[str, list[Any]] = defaultdict(list)
    for owner, row in zip(rows.column("topic_id").to_pylist(), zip(*columns, strict=True), strict=True):
        groups[owner].append(record_type(*row))
    return groups


def _values(table: str, name: str, rows: pa.Table) -> list[Any]:
    column = _ID_COLUMN[table] if name == "id" else name
    if column not in rows.column_names and column in _LATER_COLUMNS:
        return [_LATER_COLUMNS[column]] * rows.num_rows
    kind = TABLES[table].field(column).type
    values: list[Any] = rows.column(column).to_pylist()
    if kind == _MAP:
        return [dict(pairs) for pairs in values]
    return [tuple(value) for value in values] if column == "votes" else values


def _check_ids(topics: Sequence[Topic]) -> None:
    for topic, count in Counter(topic.id for topic in topics).items():
        if count > 1:
            raise UnstorableTopicError(topic, f"its id occurs {count} times in the partition; seed ids must be unique")


def _raise_for_topic(topics: Sequence[Topic], partition: int) -> None:
    """Converts one topic at a time, and names the first that fails."""
    for topic in topics:
        try:
            _convert([topic], partition)
        except (ValueError, TypeError, OverflowError) as error:
            raise UnstorableTopicError(topic.id, str(error)) from error
