"""Replies: the object is found wherever a model puts it, and what does not fit is said."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from engine.errors import UnreadableReplyError
from prompts.parse import MAX_REPLY, parse_reply
from prompts.writing.answers import Questions


class Fruit(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    weight: int


@pytest.mark.parametrize(
    "reply",
    [
        '{"name": "pear", "weight": 3}',
        '\n {"name": "pear", "weight": 3}\n',
        'Sure!\n```json\n{"name": "pear", "weight": 3}\n```\nAnything else?',
        '```\n{"name": "pear", "weight": 3}\n```',
        'The answer is {"name": "pear", "weight": 3}.',
        '<think>{"name": "plum"} or {not json}</think> {"name": "pear", "weight": 3}',
        '{"name": "plum", "weight": 1}\nNo, on reflection:\n{"name": "pear", "weight": 3}',
    ],
)
def test_an_object_is_found_in_what_models_write(reply):
    assert parse_reply(reply, Fruit) == Fruit(name="pear", weight=3)


def test_what_does_not_fit_is_named():
    with pytest.raises(UnreadableReplyError, match="does not fit Fruit: weight: Input should be a valid integer"):
        parse_reply('{"name": "pear", "weight": "heavy"}', Fruit)
    with pytest.raises(UnreadableReplyError, match="colour: Extra inputs are not permitted"):
        parse_reply('{"name": "pear", "weight": 3, "colour": "green"}', Fruit)


@pytest.mark.parametrize("reply", ["", "no", "[1, 2]", "{", '{"name": "pear", "weight": 3'])
def test_a_reply_without_an_object_says_so(reply):
    with pytest.raises(UnreadableReplyError, match=r"holds no JSON object|does not fit"):
        parse_reply(reply, Fruit)


def test_only_a_reply_that_was_cut_is_closed_behind_its_last_whole_text():
    cut = parse_reply('{"answered": ["Is it old?"], "open": ["Is it red?", "Is it', Questions)
    assert (cut.answered, cut.open) == (("Is it old?",), ("Is it red?",))
    with pytest.raises(UnreadableReplyError, match="confidence"):
        parse_reply('{"answered": ["Is it old?", "Is it big?"], "open": ["Is it red?"], "confidence": 1}', Questions)


def test_a_reply_beyond_all_measure_is_refused():
    with pytest.raises(UnreadableReplyError, match=f"more than {MAX_REPLY}"):
        parse_reply("x" * (MAX_REPLY + 1), Fruit)


@given(st.text())
def test_any_text_parses_or_raises_the_declared_error(text):
    with pytest.raises(UnreadableReplyError):
        parse_reply(text, Fruit)


@given(st.text(), st.integers())
def test_an_object_survives_its_own_json(name, weight):
    fruit = Fruit(name=name, weight=weight)
    assert parse_reply(fruit.model_dump_json(), Fruit) == fruit


@pytest.mark.parametrize("hostile", ["{" * 300_000, '{"a":' * 60_000, "```json\n" * 40_000, '{"a": {}} ' * 30_000])
def test_hostile_replies_end_soon(hostile):
    start = time.process_time()
    with pytest.raises(UnreadableReplyError):
        parse_reply(hostile, Fruit)
    assert time.process_time() - start < 5
