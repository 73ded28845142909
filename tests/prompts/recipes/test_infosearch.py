"""The recipe `infosearch`: its matrix, its six dimensions, and what it refuses."""

import asyncio
import json
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from foil.engine.errors import FaultyReply, Rejected
from foil.engine.topic import Seed, Topic
from foil.prompts.constraints.dimensions import (
    ARTICLE_WORDS,
    CONDITIONS,
    DIMENSIONS,
    EXACT_DIMENSIONS,
    PARAGRAPH_WORDS,
    SENTENCE_WORDS,
    classify_format,
    classify_length,
    count_words,
    describe,
    meets,
    name_of,
    names,
    obeys,
)
from foil.prompts.parse import parse_reply
from foil.prompts.recipes.infosearch import InfoSearch, InfoSearchSettings
from tests.support.topics.sample_seeds import SEEDS, passage

ENGLISH = "The ferry to Lower Saltmarsh takes 35 minutes. It runs twice an hour from the northern pier in all weathers."
CHINESE = "前往盐沼镇的渡轮需要三十五分钟。渡轮每小时从北码头开出两班，风雨无阻，票在船上出售。"


def made(seed: Seed, ask=None, **settings) -> Topic:
    (topic,) = asyncio.run(InfoSearch(InfoSearchSettings(**settings))(seed, ask or Scripted()))
    return topic


def several(corpus: str, count: int) -> list[Seed]:
    """The same text under many ids, so under many draws."""
    return [replace(SEEDS[corpus], id=f"{corpus}{i}") for i in range(count)]


def check(topic: Topic) -> None:
    """The table of the method, cell by cell."""
    conditions = json.loads(topic.attributes["conditions"])
    dimension = topic.attributes["dimension"]
    told = {(j.intent_id, j.passage_id): j.relevance for j in topic.judgments}
    *wanted, hard = topic.passages
    assert 2 <= len(conditions) == len(wanted)
    assert [p.attributes["condition"] for p in wanted] == conditions
    assert {p.role for p in wanted} <= {"seed_positive", "generated_positive"}
    assert hard.role in {"seed_negative", "query_negative"}
    original, *rows = topic.intents
    assert (original.role, original.instruction) == ("original", "")
    assert [told[original.id, p.id] for p in topic.passages] == [1] * len(wanted) + [-1]
    assert [(i.role, i.attributes["condition"]) for i in rows] == [
        (role, c) for c in conditions for role in ("instructed", "reversed")
    ]
    for intent in rows:
        sign = 1 if intent.role == "instructed" else -1
        due = [sign if p.attributes["condition"] == intent.attributes["condition"] else -sign for p in wanted]
        assert [told[intent.id, p.id] for p in topic.passages] == [*due, -1]
        assert intent.attributes["dimension"] == dimension
        assert intent.query == topic.query
        if dimension in EXACT_DIMENSIONS:
            assert [obeys(intent, p) for p in wanted] == [relevance > 0 for relevance in due]
    assert len(told) == len(topic.judgments) == len(topic.intents) * len(topic.passages)


def test_passages_of_the_corpus_in_two_languages_are_taken_as_they_are():
    seed = Seed(
        "ferry", "web", "how long does the ferry take", (passage(ENGLISH), passage(CHINESE)), SEEDS["msmarco"].negatives
    )
    topic = made(seed, dimensions=("language",))
    check(topic)
    assert [(p.role, p.text) for p in topic.passages[:2]] == [("seed_positive", CHINESE), ("seed_positive", ENGLISH)]
    assert {i.attributes.get("condition") for i in topic.intents[1:]} == {"zh", "en"}


def test_a_passage_that_says_what_it_is_needs_no_writer():
    both = (passage(ENGLISH, source="news"), passage(SEEDS["msmarco"].positives[1].text, source="blog"))
    refusing = Scripted(rewrite="I cannot do that.")
    topic = made(replace(SEEDS["msmarco"], positives=both), refusing, dimensions=("source",))
    check(topic)
    assert json.loads(topic.attributes["conditions"]) == ["blog", "news"]
    assert {j.judge for j in topic.judgments} == {"seed", "construction"}


def test_a_benchmark_says_that_it_is_held_out():
    assert "split" not in made(SEEDS["msmarco"], dimensions=("audience",)).attributes
    assert made(SEEDS["msmarco"], dimensions=("audience",), purpose="benchmark").attributes["split"] == "heldout"


def test_without_a_negative_there_is_no_topic():
    with pytest.raises(Rejected, match="refusal"):
        made(
            replace(SEEDS["msmarco"], negatives=()),
            Scripted(query_negative="I cannot do that."),
            dimensions=("audience",),
        )


def test_settings_change_the_fingerprint_and_wrong_ones_are_refused():
    plain, other = InfoSearch(InfoSearchSettings()), InfoSearch(InfoSearchSettings(keywords=2))
    assert plain.fingerprint == InfoSearch(InfoSearchSettings()).fingerprint != other.fingerprint
    for wrong in ({"languages": ("en", "klingon")}, {"languages": ("en", "en")}, {"dimensions": ("mood",)}):
        with pytest.raises(ValidationError):
            InfoSearchSettings(**wrong)


class Scripted:
    """A hosted writer in small: it sees the messages alone and answers each task from a table, `changes` over it.

    No reply is corrected, and a usable one is taken."""

    calls = ()

    def __init__(self, **changes) -> None:
        self.changes, self.asked = changes, []

    async def __call__(self, prompt, answer, *, role="writer", check=None):
        self.asked.append(prompt.task)
        text = prompt.messages[-1].content
        wanted = text.partition("Wanted: ")[2].partition(".\n")[0]
        named = text.partition("Kind: ")[2].partition("\n")[0]
        wording = {"condition": f"I want {named}.", "reversal": f"I want no {named}."}
        replies = {
            "keywords": json.dumps({"keywords": ["winter", "seals"]}),
            "rewrite": f"35 minutes, told for this reader: {wanted}. {ENGLISH}",
            "question": f"Tell me: {text.partition('Query: ')[2].partition(chr(10))[0]}",
            "wording": json.dumps({**wording, **self.changes.get("wording", {})}),
            "query_negative": "The ferry is painted white.",
        }
        task = prompt.task.partition(".")[2]
        said = replies[task] if task == "wording" else self.changes.get(task, replies[task])
        try:
            return check(parse_reply(said, answer))
        except FaultyReply as fault:
            if fault.usable is None:
                raise
            return fault.usable


@pytest.mark.parametrize("dimension", ["audience", "source"])
def test_a_writer_that_understands_makes_topics_that_a_judge_must_check(dimension):
    ask = Scripted()
    topic = made(SEEDS["msmarco"], ask, dimensions=(dimension,))
    check(topic)
    assert json.loads(topic.attributes["conditions"]) == list(CONDITIONS[dimension])
    assert {j.judge for j in topic.judgments} == {"construction", "seed"}
    assert not any({"constraints", "evidence"} & i.attributes.keys() for i in topic.intents)
    assert len(ask.asked) == 3 * len(CONDITIONS[dimension])
    assert all(i.instruction.startswith(f"Tell me: {topic.query}") for i in topic.intents[1:])
    assert all(json.loads(i.attributes["demands"]) for i in topic.intents[1:])
    assert all(p.edited_from == SEEDS["msmarco"].positives[0].id for p in topic.passages[:-1])


def test_a_query_negative_is_written_where_that_is_wanted_or_the_corpus_has_none():
    for seed, settings in (
        (SEEDS["msmarco"], {"query_negative": "written"}),
        (replace(SEEDS["msmarco"], negatives=()), {}),
    ):
        topic = made(seed, Scripted(), dimensions=("audience",), **settings)
        assert (topic.passages[-1].role, topic.passages[-1].text) == ("query_negative", "The ferry is painted white.")


@pytest.mark.parametrize(
    ("dimension", "changes", "reason"),
    [
        ("length", {"rewrite": "35 minutes. Not one."}, "condition_not_met"),
        ("format", {"rewrite": "35 minutes, without any code."}, "condition_not_met"),
        ("audience", {"rewrite": "It takes 35 minutes, as requested."}, "speaks_of_task"),
        ("keyword", {"keywords": '{"keywords": ["ferry", "spaceship"]}'}, "0 conditions"),
        ("keyword", {"rewrite": ENGLISH + " Captains know it, even in winter."}, "condition_not_met"),
        ("language", {"rewrite": ENGLISH}, "condition_not_met"),
        ("audience", {"rewrite": " \n"}, "empty_text"),
        ("keyword", {"keywords": '{"keywords": ["one"]}'}, "0 conditions"),
    ],
)
def test_a_dimension_without_two_passages_is_named_with_what_was_wrong(dimension, changes, reason):
    with pytest.raises(Rejected) as refused:
        made(SEEDS["msmarco"], Scripted(**changes), dimensions=(dimension,))
    assert refused.value.reason == "no_condition"
    assert reason in refused.value.detail


@pytest.mark.parametrize(
    ("dimension", "wording", "reason"),
    [
        ("audience", {"reversal": "Give me a text for children."}, "not_reversed"),
        ("language", {"reversal": "Exclude texts that aren't in English, and not in Chinese."}, "denies twice"),
        ("audience", {"condition": "I want to know how long the ferry takes."}, "property_not_named"),
        ("language", {"reversal": "The ferry does not take long."}, "property_not_named"),
        ("keyword", {"condition": "Let it be about cold months."}, "property_not_named"),
    ],
)
def test_a_wording_that_is_none_is_named(dimension, wording, reason):
    ask, seed = Scripted(wording=wording), SEEDS["msmarco"]
    if dimension == "keyword":
        both = (passage("It takes 35 minutes in winter."), passage("It takes 35 minutes; seals follow it."))
        seed = replace(seed, positives=both)
    if dimension == "language":
        seed = replace(seed, positives=(passage(ENGLISH), passage(CHINESE)))
    with pytest.raises(Rejected) as refused:
        made(seed, ask, dimensions=(dimension,))
    assert refused.value.reason == "no_condition"
    assert reason in refused.value.detail


def test_a_condition_without_a_wording_keeps_its_passage_for_the_other_rows():
    class OneFails(Scripted):
        async def __call__(self, prompt, answer, *, role="writer", check=None):
            lost = prompt.task == "infosearch.wording" and "specialists" in prompt.messages[-1].content
            self.changes = {"wording": {"reversal": "Yes, please."}} if lost else {}
            return await super().__call__(prompt, answer, role=role, check=check)

    topic = made(SEEDS["msmarco"], OneFails(), dimensions=("audience",))
    assert json.loads(topic.attributes["conditions"]) == ["layman", "expert"]
    assert [(i.role, i.attributes.get("condition")) for i in topic.intents] == [
        ("original", None), ("instructed", "layman"), ("reversed", "layman"),
    ]  # fmt: skip
    assert len(topic.judgments) == 3 * 3
    assert "not_reversed" in topic.attributes["dropped"]


@pytest.mark.parametrize("said", ["What do seals eat?", "How long is the 7 o'clock ferry?", "I cannot do that.", ""])
def test_a_query_whose_other_words_ask_for_something_else_stays_as_it_is(said):
    topic = made(SEEDS["msmarco"], Scripted(question=said), dimensions=("audience",))
    assert all(i.instruction.startswith(f"{topic.query} I want") for i in topic.intents[1:])


def test_neither_a_task_nor_a_query_that_shall_stay_is_reworded():
    task = replace(SEEDS["msmarco"], query="Given a list of boats, " * 10)
    for seed, settings in ((task, {}), (SEEDS["msmarco"], {"question": "same"})):
        ask = Scripted()
        assert made(seed, ask, dimensions=("audience",), **settings)
        assert "infosearch.question" not in ask.asked


def test_every_condition_has_a_name_by_which_it_is_known():
    for dimension, conditions in {**CONDITIONS, "keyword": ("mint",)}.items():
        for condition in conditions:
            assert names(dimension, condition, name_of(dimension, condition))
            assert not names(dimension, condition, "I want it by tomorrow, with a ferry.")


def test_a_rewritten_passage_keeps_the_answer_of_the_seed():
    seed = replace(SEEDS["msmarco"], positives=(passage(ENGLISH),), attributes={"answer": "35 minutes"})
    with pytest.raises(Rejected) as refused:
        made(seed, Scripted(rewrite="It does not take long."), dimensions=("audience",))
    assert refused.value.reason == "no_condition"
    assert "answer_lost" in refused.value.detail
    hours = replace(
        seed, attributes={"answer": "1 hour by boat, 2 hours by bus"}, positives=(passage("1 hour or 2 hours."),)
    )
    with pytest.raises(Rejected) as refused:
        made(hours, Scripted(rewrite="It takes an hour or so."), dimensions=("audience",))
    assert "answer_lost" in refused.value.detail
    for answer, rewrite in (
        ("1. 35 minutes. 2. Walk.", "It takes 35 minutes, then walk."),
        ("2 boats", "Of boats there are two."),
        ("1. Take the ferry. 2. Walk.", "Take the ferry, and walk."),
        ("1 Take the ferry. 2  walk, 3 rest", "Take the ferry, walk and rest."),
    ):
        listed = replace(seed, positives=(passage(f"{answer} {ENGLISH}"),), attributes={"answer": answer})
        with pytest.raises(Rejected) as refused:
            made(listed, Scripted(rewrite=rewrite), dimensions=("audience",))
        assert refused.value.reason == "same_passage"  # both conditions were written, and nothing was lost


def test_a_query_negative_that_gives_the_answer_is_named():
    seed = replace(SEEDS["msmarco"], negatives=(), attributes={"answer": "35 minutes"})
    with pytest.raises(Rejected) as refused:
        made(seed, Scripted(query_negative="The other ferry takes 35 minutes as well."), dimensions=("audience",))
    assert refused.value.reason == "answers_query"
    listed = replace(seed, attributes={"answer": "1. Take the ferry. 2. Walk."})
    assert made(listed, Scripted(query_negative="The 2 piers were built in 1 year."), dimensions=("audience",))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It takes 35 minutes.", "sentence"),
        ("It takes Dr. Holm 35 minutes, e.g. on Mondays.", "sentence"),
        ("Too short.", ""),
        ("It takes 35 minutes. It runs daily.", ""),
        ("word " * 41, ""),
        ("渡轮需要三十五分钟。", "sentence"),
        ("It runs daily. " * 10, "paragraph"),
        ("It runs daily.\n" * 10, "paragraph"),
        ("It runs daily. " * 44, ""),
        ("It runs daily. " * 10 + "\n\nIt runs.", ""),
        ("It runs daily. " * 40 + "\n\n" + "It runs daily. " * 10, "article"),
        ("def f(x):\n    return x\n\n" * 60, ""),
    ],
)
def test_length_classes(text, found):
    assert classify_length(text) == found


@given(
    st.lists(
        st.sampled_from(["The boat runs. ", "boat ", "\n\n", "\n", "Dr. ", "船。", "    return x\n"]), max_size=200
    )
)
def test_a_text_of_a_length_class_is_within_its_bounds(pieces):
    text = "".join(pieces)
    found, count = classify_length(text), count_words(text)
    if found == "sentence":
        assert SENTENCE_WORDS[0] <= count <= SENTENCE_WORDS[1]
        assert "\n" not in text.strip()
    elif found == "paragraph":
        assert PARAGRAPH_WORDS[0] <= count <= PARAGRAPH_WORDS[1]
        assert "\n\n" not in text.strip()
    elif found == "article":
        assert count >= ARTICLE_WORDS
        assert "\n\n" in text.strip()


CODE = "def add(a, b):\n    # the sum\n    return a + b\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (CODE, "code_snippet"),
        (
            "# Definition of it.\n# class Node:\nclass List:\n    def add(\n        self\n    ):\n        x = 1\n",
            "code_snippet",
        ),
        (
            "/**\n * Definition for a singly linked list.\n */\nclass A {\n    int a() {\n        go();\n    }\n}",
            "code_snippet",
        ),
        (">>> add(1, 2)\n3\n>>> add(2, 2)\n4", "code_snippet"),
        (
            "# Of a node.\ndef f(a):\n    if a.left is None and a.right is None and a.sum == 3:\n        x = a\n",
            "code_snippet",
        ),
        ('# One of them.\ndef f(a):\n    """Decodes the encoded data to trees."""\n    x = a\n', "code_snippet"),
        (">>> add(1, 2)\n3\nIt is common to have missing numbers here:\n>>> add(2, 2)\n4", ""),
        ("Examples:\n>>> add(1, 2)\n3\n>>> add(2, 2)\n4\n>>> add(3, 3)\n6\n>>> add(4, 4)\n8", "manual"),
        (f"This adds two numbers and gives their sum back.\n{CODE}", ""),
        (f"```python\n# Question: what?\n{CODE}```", "code_snippet"),
        (f"```\n{CODE}```\n```\n{CODE}```", "code_snippet"),
        (f"Question: how to add?\n\nAnswer:\nLike so.\n\n```\n{CODE}```", "stackoverflow_post"),
        ("# Adding\n\nAdds two numbers and gives back their sum, whatever they are.", "manual"),
        ("Adds two numbers and gives back their sum.\n\nReturns\n-------\nint\n    The sum of both.", "manual"),
        ("Adds two numbers and gives back their sum, whatever they are.", ""),
        ("# Adding\n\nAdds.", ""),
        (f"Adds two numbers:\n\n```\n{CODE}```", ""),
        ("Answer: yes.\nQuestion: why?", ""),
        ("", ""),
        (
            "```python\nCOST = 498_888  # what it costs to open one there\n\nprint(f'it costs {COST} in town')\n```",
            "code_snippet",
        ),
        ("```python\nfor weight, minutes in baking_minutes.items():\n    print(weight)\n```", "code_snippet"),
        ("```python\nfor figure, source in PROJECTIONS.items():\n    print(source)\n```", "code_snippet"),
        ("```\nThe ferry runs twice an hour from the pier  # in all weathers\n```", ""),
    ],
)
def test_formats(text, found):
    assert classify_format(text) == found


def test_every_condition_is_described_and_only_four_dimensions_are_exact():
    for dimension, conditions in CONDITIONS.items():
        assert all(describe(dimension, condition) for condition in conditions)
    assert '"mint"' in describe("keyword", "mint")
    assert frozenset(DIMENSIONS) - EXACT_DIMENSIONS == {"audience", "source"}
    with pytest.raises(KeyError):
        meets("mood", "good", passage(ENGLISH))


def test_hostile_texts_take_no_time():
    start = time.process_time()
    for text in (
        "a. " * 60_000,
        "```\n" * 50_001,
        "```x\n" * 50_001,
        "Dr. " * 60_000,
        "x" * 300_000 + "\n-",
        "Question\n" * 50_000,
        "#" * 200_000,
        "A\n---\n" * 40_000,
        "。" * 100_000,
    ):
        assert classify_length(text) in {"", "article"}
        assert classify_format(text) in {"", "code_snippet", "manual"}
    assert time.process_time() - start < 10
