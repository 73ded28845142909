"""Replies: the object is found wherever a model puts it, and what does not fit is said."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from foil.engine.errors import UnreadableReplyError
from foil.prompts.parse import MAX_REPLY, parse_reply
from foil.prompts.writing.answers import Questions, WrittenText


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


PEAR = '{"name": "pear", "weight": 3}'
PLUM = '{"name": "plum", "weight": 1}'


@pytest.mark.parametrize(
    "reply",
    [
        "<think>" + "if (a) { x(); } " * 40 + f"</think>\n{PEAR}",
        "if (a) { x(); } " * 40 + f"so: {PEAR}",
        f"{PLUM} " * 4_000 + PEAR,
        f"<think>```json\n{PLUM}\n```</think>{PEAR}",
        f"a plan, {PLUM}\n</think>\n\n{PEAR}",
        f"[THINK]{PLUM}[/THINK]{PEAR}",
        f"<|channel|>analysis<|message|>{PLUM}<|end|><|start|>assistant<|channel|>final<|message|>{PEAR}",
        '{"name": "pear", "weight": 3,}',
        '{"name": "pear",\n "weight": 3,\n}\n',
        '{“name”: “pear”, “weight”: 3}',
        '{“name”: "pear", \'weight\': 3}',
        "{'name': 'pear', 'weight': 3}",
        "Sure: {'name': 'pear', 'weight': 3,}.",
        "if (a) { x(); } " * 400 + "so {'name': 'pear', 'weight': 3}",
        '"{\\"name\\": \\"pear\\", \\"weight\\": 3}"',
        '{"answer": {"name": "pear", "weight": 3}}',
        '{"answer": {"name": "pear", "weight": 3,},}',
    ],
)  # fmt: skip
def test_an_object_is_found_behind_any_thoughts_and_through_the_slips_of_models(reply):
    assert parse_reply(reply, Fruit) == Fruit(name="pear", weight=3)


class Note(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: str
    open: bool | None = None


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ('{"text": "two\nlines"}', "two\nlines"),
        ('{"text": "a\ttab",}', "a\ttab"),
        ('{“text”: “a "word" in it”}', 'a "word" in it'),
        ("{'text': 'a \\'word\\' in it'}", "a 'word' in it"),
        ("""{'text': "it's fine"}""", "it's fine"),
        ("""{'text': "it's", 'open': None,}""", "it's"),
        ('{"text": "a “word”, ]", "open": null,}', "a “word”, ]"),
        ('{"text": "True, None, }",}', "True, None, }"),
        ('{"text": "the tag </think> ends it"}', "the tag </think> ends it"),
    ],
)
def test_a_text_that_was_mended_around_is_to_the_letter_what_was_written(reply, text):
    assert parse_reply(reply, Note).text == text


@pytest.mark.parametrize(
    "reply",
    [
        '{"text": "half',
        '{"text": "half"',
        "{'text': 'half",
        '{"text": "he said "no" and left"}',
        "{'text': 'it's fine'}",
        "{“text”: “he said “no” and left”}",
        '{"text": "draft"}</think>no object',
        '"{\\"text\\": \\"half"',
    ],
)
def test_what_was_cut_or_can_be_read_in_two_ways_is_not_made_up(reply):
    with pytest.raises(UnreadableReplyError):
        parse_reply(reply, Note)


@pytest.mark.parametrize(
    "reply",
    [
        "<think>a</think>the text",
        "a plan\n</think>\n\nthe text",
        "[THINK]x[/THINK]the text",
        "<seed:think>x</seed:think> the text ",
        "the text",
    ],
)
def test_of_a_plain_answer_only_the_text_behind_the_thoughts_is_kept(reply):
    assert parse_reply(reply, WrittenText).text == "the text"


def test_a_text_about_thinking_marks_is_kept_whole():
    text = "The tag <think> opens it and </think> closes it."
    assert parse_reply(text, WrittenText).text == text


def test_what_does_not_fit_is_named():
    with pytest.raises(UnreadableReplyError, match="does not fit Fruit: weight: Input should be a valid integer"):
        parse_reply('{"name": "pear", "weight": "heavy"}', Fruit)
    with pytest.raises(UnreadableReplyError, match="colour: Extra inputs are not permitted"):
        parse_reply('{"name": "pear", "weight": 3, "colour": "green"}', Fruit)


@pytest.mark.parametrize("reply", ["", "no", "[1, 2]", "{", '{"name": "pear", "weight": 3'])
def test_a_reply_without_an_object_says_so(reply):
    with pytest.raises(UnreadableReplyError, match=r"holds no JSON object|does not fit"):
        parse_reply(reply, Fruit)


def test_an_object_for_each_list_is_one_reply_unless_a_key_stands_twice():
    reply = '{"answered": ["Is it old?"]}\n\n{"open": ["Is it red?"]}'
    assert parse_reply(reply, Questions) == Questions(answered=("Is it old?",), open=("Is it red?",))
    twice = f'{reply} {{"open": ["Is it blue?"]}}'
    assert parse_reply(twice, Questions) == Questions(open=("Is it blue?",))
    alien = '{"thoughts": "red?"} {"open": ["Is it red?"]}'
    assert parse_reply(alien, Questions) == Questions(open=("Is it red?",))


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


@pytest.mark.parametrize(
    "hostile",
    [
        "{" * 300_000, '{"a":' * 60_000, "```json\n" * 40_000, '{"a": {}} ' * 30_000, '{"' * 150_000, "{'a" * 100_000,
        '{"a":[' * 1_000 + "0," * 190_000, "{“a" * 100_000, '{"a": "b" ' * 40_000, '{"' + "\\" * 300_000,
        "<think>" * 50_000, "</think>" * 40_000,
    ],
)  # fmt: skip
def test_hostile_replies_end_soon(hostile):
    start = time.process_time()
    with pytest.raises(UnreadableReplyError):
        parse_reply(hostile, Fruit)
    assert time.process_time() - start < 5
