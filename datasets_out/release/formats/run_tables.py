"""A run's topics as they are: tables for `datasets`, a topic as one line of JSON, and topics as a table for a map.

hf      one configuration a table, Parquet, columns of plain types alone: topics, intents, passages, judgments,
        verdicts, calls as they are committed (attributes as JSON text), and triplets
jsonl   SPLIT.jsonl          intents, passages, judgments and verdicts nested in their topic
atlas   topics/SPLIT.parquet text, id and columns, as Apple's embedding-atlas opens it; x and y where they are known

In hf and jsonl a judgment has a judge's P(relevant) as `probability`, null where it gave none; so has each triplet.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from foil.datasets_out.commits.schema import TABLES
from foil.datasets_out.release.formats.release_format import PROBABILITY, TEXT, Layout, ReleaseFormat, columns
from foil.datasets_out.release.formats.training_script import SCRIPT
from foil.datasets_out.release.released_topic import ReleasedTopic, judged_intents
from foil.datasets_out.release.row_files import OutputRow
from foil.engine.ids import canonical_json
from foil.engine.topic import Topic

_LEFT_OUT = {"partition", "status", "reason", "detail", "reply_text"}
_IDS = {"intents": "intent_id", "passages": "passage_id"}
_TRIPLETS = columns(
    topic_id=TEXT, intent_id=TEXT, intent_role=TEXT, instruction=TEXT, query=TEXT, positive_id=TEXT,
    positive_title=TEXT, positive=TEXT, negative_id=TEXT, negative_title=TEXT, negative=TEXT,
    positive_probability=pa.float64(), negative_probability=pa.float64(),
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
_SCHEMAS["judgments"] = _SCHEMAS["judgments"].append(pa.field("probability", pa.float64()))


def _rows(released: ReleasedTopic, _layout: Layout) -> Iterator[OutputRow]:
    topic, file = released.topic, f"{released.split}.parquet"
    yield OutputRow(f"topics/{file}", _values("topics", topic, topic))
    for table in ("intents", "passages", "verdicts", "calls"):
        yield from (OutputRow(f"{table}/{file}", _values(table, topic, record)) for record in getattr(topic, table))
    for judgment in topic.judgments:
        probability = released.probabilities.get((judgment.intent_id, judgment.passage_id))
        yield OutputRow(f"judgments/{file}", {**_values("judgments", topic, judgment), "probability": probability})
    yield from (OutputRow(f"triplets/{file}", row) for row in _triplets(released))


def _values(table: str, topic: Topic, record: Any) -> dict[str, Any]:
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    values |= {"topic_id": topic.id, _IDS.get(table, "topic_id"): values.get("id", topic.id)}
    if "attributes" in values:
        values["attributes"] = canonical_json(dict(values["attributes"]))
    return {
        name: list(values[name]) if name == "votes" else values[name]
        for name in _SCHEMAS[table].names
        if name in values
    }


def _triplets(released: ReleasedTopic) -> Iterator[dict[str, Any]]:
    topic = released.topic
    for judged in judged_intents(released):
        intent = judged.intent
        for yes in judged.positives:
            for no in judged.negatives:
                values = (
                    topic.id, intent.id, intent.role, intent.instruction, intent.query, yes.id, yes.title, yes.text,
                    no.id, no.title, no.text, judged.probabilities.get(yes.id), judged.probabilities.get(no.id),
                )  # fmt: skip
                yield dict(zip(_TRIPLETS.names, values, strict=True))


HUGGING_FACE = ReleaseFormat(
    "hf",
    _rows,
    'from datasets import load_dataset\n\ntriplets = load_dataset("{folder}", split="{split}")',
    _SCHEMAS,
    scores=f"{PROBABILITY} Triplets have `positive_probability` and `negative_probability`, and `{SCRIPT} BASE_MODEL "
    "--scores` trains on their log odds.",
)


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
    for row in parts["judgments"]:
        row["probability"] = released.probabilities.get((row["intent_id"], row["passage_id"]))
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
    "jsonl",
    _json_rows,
    'import json\n\ntopics = [json.loads(line) for line in open("{folder}/{split}.jsonl")]',
    scores=PROBABILITY,
)
ATLAS = ReleaseFormat(
    "atlas",
    _atlas_rows,
    "embedding-atlas {folder}/topics/{split}-00000.parquet --text text   # with coordinates: --x x --y y",
    {"topics": _ATLAS},
)
