"""Tables for `datasets`: one configuration a table, Parquet, columns of plain types alone.

topics, intents, passages, judgments, verdicts, calls as they are committed (attributes as JSON text), and triplets.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from foil.datasets_out.commits.schema import TABLES
from foil.datasets_out.release.formats.release_format import TEXT, Layout, ReleaseFormat, columns
from foil.datasets_out.release.released_topic import ReleasedTopic, judged_intents
from foil.datasets_out.release.row_files import OutputRow
from foil.engine.ids import canonical_json
from foil.engine.topic import Topic

_LEFT_OUT = {"partition", "status", "reason", "detail", "reply_text"}
_IDS = {"intents": "intent_id", "passages": "passage_id"}
_TRIPLETS = columns(
    topic_id=TEXT, intent_id=TEXT, intent_role=TEXT, instruction=TEXT, query=TEXT, positive_id=TEXT,
    positive_title=TEXT, positive=TEXT, negative_id=TEXT, negative_title=TEXT, negative=TEXT,
)  # fmt: skip


def _released(table: str) -> pa.Schema:
    left_out = _LEFT_OUT - ({"reason"} if table == "verdicts" else set())
    return pa.schema(
        [
            (column.name, TEXT if pa.types.is_map(column.type) else column.type)
            for column in TABLES[table]
            if column.name not in left_out
        ]
    )


_SCHEMAS = {table: _released(table) for table in TABLES} | {"triplets": _TRIPLETS}


def _rows(released: ReleasedTopic, _layout: Layout) -> Iterator[OutputRow]:
    topic, file = released.topic, f"{released.split}.parquet"
    yield OutputRow(f"topics/{file}", _values("topics", topic, topic))
    for table in ("intents", "passages", "judgments", "verdicts", "calls"):
        yield from (OutputRow(f"{table}/{file}", _values(table, topic, record)) for record in getattr(topic, table))
    yield from (OutputRow(f"triplets/{file}", row) for row in _triplets(topic))


def _values(table: str, topic: Topic, record: Any) -> dict[str, Any]:
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    values |= {"topic_id": topic.id, _IDS.get(table, "topic_id"): values.get("id", topic.id)}
    if "attributes" in values:
        values["attributes"] = canonical_json(dict(values["attributes"]))
    return {name: list(values[name]) if name == "votes" else values[name] for name in _SCHEMAS[table].names}


def _triplets(topic: Topic) -> Iterator[dict[str, Any]]:
    for judged in judged_intents(topic):
        intent = judged.intent
        for yes in judged.positives:
            for no in judged.negatives:
                values = (
                    topic.id, intent.id, intent.role, intent.instruction, intent.query, yes.id, yes.title, yes.text,
                    no.id, no.title, no.text,
                )  # fmt: skip
                yield dict(zip(_TRIPLETS.names, values, strict=True))


HUGGING_FACE = ReleaseFormat(
    "hf", _rows, 'from datasets import load_dataset\n\ntriplets = load_dataset("{folder}", split="{split}")', _SCHEMAS
)
