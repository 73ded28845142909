"""The schema: a golden file, and topics that come back as they went."""

import dataclasses
import json
import string
from typing import get_args

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foil.datasets_out.commits.encoding import encode
from foil.datasets_out.commits.schema import SCHEMA_VERSION, TABLES, from_tables, to_tables
from foil.engine.errors import UnstorableTopicError
from foil.engine.topic import (
    Call,
    Intent,
    IntentRole,
    Judgment,
    Passage,
    PassageRole,
    Topic,
    Verdict,
)
from tests.support.paths import GOLDEN

SCHEMA = GOLDEN / "schema-1.json"

odd = st.one_of(
    st.text(alphabet=st.characters(codec="utf-8"), max_size=40),
    st.sampled_from(
        ["", "\x00", "\u202e", "e\u0301", "\u00e9", "\U0001f9d1\u200d\U0001f680", "\ufeff", "\r\n\t", "a\x1fb"]
    ),
)
ids = st.text(string.ascii_lowercase + "/-", min_size=1, max_size=8)
mappings = st.dictionaries(odd, odd, max_size=3)
finite = st.floats(allow_nan=False)
intents = st.builds(Intent, ids, st.sampled_from(get_args(IntentRole)), odd, odd, mappings)
passages = st.builds(Passage, odd, st.sampled_from(get_args(PassageRole)), odd, odd, odd, mappings)
votes = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3).map(tuple)
judgments = st.builds(Judgment, ids, ids, st.integers(-128, 127), odd, votes)
outcomes = st.sampled_from(["pass", "edit", "reject"])
verdicts = st.builds(Verdict, odd, odd, outcomes, odd, odd, st.none() | finite, finite)
tokens = st.integers(0, 2**63 - 1)
calls = st.builds(Call, ids, odd, odd, odd, tokens, tokens, finite, odd, odd)


def tuples(parts):
    return st.lists(parts, max_size=3).map(tuple)


topics = st.builds(
    Topic, ids, ids, odd, odd, odd, tuples(intents), tuples(passages), tuples(judgments), tuples(verdicts),
    tuples(calls), st.sampled_from(["accepted", "rejected", "failed"]), odd, odd, odd, st.booleans(), mappings,
)  # fmt: skip


@given(st.lists(topics, max_size=5, unique_by=lambda topic: topic.id), st.integers(0, 2**31 - 1))
@settings(max_examples=100, deadline=None)
def test_topics_come_back_as_they_went(group, partition):
    tables = to_tables(group, partition)
    assert from_tables(tables) == group
    for name, table in tables.items():
        assert table.schema.equals(TABLES[name], check_metadata=True)
        assert set(table.column("partition").to_pylist()) <= {partition}
        table.validate(full=True)


@given(st.lists(topics, max_size=3, unique_by=lambda topic: topic.id))
@settings(max_examples=30, deadline=None)
def test_topics_come_back_through_parquet_and_equal_topics_give_equal_bytes(group):
    blobs = {name: encode(table) for name, table in to_tables(group, 1).items()}
    assert from_tables({name: pa.parquet.read_table(pa.BufferReader(blob)) for name, blob in blobs.items()}) == group
    again = [dataclasses.replace(topic, attributes=dict(reversed(topic.attributes.items()))) for topic in group]
    assert {name: encode(table) for name, table in to_tables(again, 1).items()} == blobs


def test_the_schema_is_the_one_in_the_golden_file():
    """A changed column is a new SCHEMA_VERSION, and a new golden file beside the old one."""
    now = {
        "version": SCHEMA_VERSION,
        "tables": {
            name: {f.name: f"{f.type}{'' if f.nullable else ' not null'}" for f in schema}
            for name, schema in TABLES.items()
        },
    }
    assert now == json.loads(SCHEMA.read_text())


@pytest.mark.parametrize(
    ("table", "noun"),
    list(zip(TABLES, (Topic, Intent, Passage, Judgment, Verdict, Call), strict=True)),
)
def test_every_field_of_a_noun_is_a_column(table, noun):
    fields = {f.name for f in dataclasses.fields(noun)} - set(TABLES)
    columns = set(TABLES[table].names) - {"topic_id", "partition", "intent_id", "passage_id"}
    assert columns - {"id"} == fields - {"id", "intent_id", "passage_id"}


BARE = Topic("t", "s", "c", "r", "q")


@pytest.mark.parametrize(
    ("topic", "match"),
    [
        (dataclasses.replace(BARE, query="\ud800"), "surrogates not allowed"),
        (dataclasses.replace(BARE, passages=(Passage("x", "distractor", "\udfff", id="p"),)), "surrogates not allowed"),
        (dataclasses.replace(BARE, attributes={"\udc80": ""}), "surrogates not allowed"),
        (dataclasses.replace(BARE, detail=None), r"column topics\.detail must not be null"),
        (dataclasses.replace(BARE, judgments=(Judgment("i", "p", 128, "rule"),)), "128"),
        (dataclasses.replace(BARE, intents=(Intent("i", "original", 7, "q"),)), "int"),
    ],
)  # fmt: skip
def test_what_a_column_cannot_hold_is_refused_and_the_topic_named(topic, match):
    good = dataclasses.replace(BARE, id="good")
    with pytest.raises(UnstorableTopicError, match=match) as error:
        to_tables([good, topic], 0)
    assert error.value.topic_id == "t"


def test_several_partitions_read_together_keep_their_order():
    first, second = (to_tables([dataclasses.replace(BARE, id=f"{p}-{i}") for i in (2, 0, 1)], p) for p in (0, 1))
    both = {name: pa.concat_tables([first[name], second[name]]) for name in TABLES}
    assert [topic.id for topic in from_tables(both)] == ["0-2", "0-0", "0-1", "1-2", "1-0", "1-1"]
