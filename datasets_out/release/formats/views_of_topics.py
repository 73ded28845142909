"""A topic as one line of JSON with all that it has, and topics as a table for a map.

jsonl   SPLIT.jsonl          intents, passages, judgments and verdicts nested in their topic
atlas   topics/SPLIT.parquet text, id and columns, as Apple's embedding-atlas opens it; x and y where they are known
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from foil.datasets_out.release.formats.release_format import TEXT, Layout, ReleaseFormat, columns
from foil.datasets_out.release.released_topic import ReleasedTopic
from foil.datasets_out.release.row_files import OutputRow

_SHARED = ("seed_id", "corpus", "recipe", "query", "licence", "redistributable")
_PARTS = ("intents", "passages", "judgments", "verdicts")
_ATLAS = columns(
    id=TEXT, text=TEXT, query=TEXT, instruction=TEXT, split=TEXT, corpus=TEXT, recipe=TEXT, licence=TEXT,
    redistributable=pa.bool_(), intents=pa.int64(), passages=pa.int64(), relevant=pa.int64(), not_relevant=pa.int64(),
    x=pa.float64(), y=pa.float64(),
)  # fmt: skip


def _json_rows(released: ReleasedTopic, _layout: Layout) -> Iterator[OutputRow]:
    topic = released.topic
    head = {"topic_id": topic.id, "split": released.split, **{name: getattr(topic, name) for name in _SHARED}}
    parts = {name: [_plain(record) for record in getattr(topic, name)] for name in _PARTS}
    values = {**head, "attributes": dict(topic.attributes), **parts}
    yield OutputRow(f"{released.split}.jsonl", values)


def _plain(record: Any) -> dict[str, Any]:
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    if "attributes" in values:
        values["attributes"] = dict(values["attributes"])
    return values


def _atlas_rows(released: ReleasedTopic, layout: Layout) -> Iterator[OutputRow]:
    topic = released.topic
    intent = next((intent for intent in topic.intents if intent.instruction), topic.intents[0])
    x, y = layout.coordinates.get(topic.id, (None, None))
    values = (
        topic.id, layout.query(intent), intent.query, intent.instruction, released.split, topic.corpus, topic.recipe,
        topic.licence, topic.redistributable, len(topic.intents), len(topic.passages),
        sum(judgment.relevance > 0 for judgment in topic.judgments),
        sum(judgment.relevance < 0 for judgment in topic.judgments), x, y,
    )  # fmt: skip
    row = dict(zip(_ATLAS.names, values, strict=True))
    yield OutputRow(f"topics/{released.split}.parquet", row)


JSON_LINES = ReleaseFormat(
    "jsonl", _json_rows, 'import json\n\ntopics = [json.loads(line) for line in open("{folder}/{split}.jsonl")]'
)
ATLAS = ReleaseFormat(
    "atlas",
    _atlas_rows,
    "embedding-atlas {folder}/topics/{split}-00000.parquet --text text   # with coordinates: --x x --y y",
    {"topics": _ATLAS},
)
