"""The recipe `infosearch`: its matrix, its six dimensions, and what it refuses."""

import asyncio
import json
import time
from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from yaml import safe_load

from engine.errors import Rejected, UnreadableReplyError
from engine.flow.ask import schema_of
from engine.seeds.catalog import READERS, open_seeds
from engine.topic import Seed, Topic
from prompts.constraints.constraint import all_hold, constraints_of
from prompts.constraints.detectors import fold_text
from prompts.constraints.dimensions import (
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
    obeys,
)
from prompts.parse import parse_reply
from prompts.passages.answer_evidence import answers, evidence_of
from prompts.passages.reply_types import AskedInstruction, Condition, Keywords, Rewritten
from prompts.recipes.infosearch import InfoSearch, InfoSearchSettings
from tests.support.topics.sample_seeds import CORPORA, SEEDS, RuleAsk, in_prose, passage
from validators.catalog import VALIDATORS

ENGLISH = "The ferry to Lower Saltmarsh takes 35 minutes. It runs twice an hour from the northern pier in all weathers."
CHINESE = "前往盐沼镇的渡轮需要三十五分钟。渡轮每小时从北码头开出两班，风雨无阻，票在船上出售。"


FIELDS = SEEDS["python_docs"]
SEEDS = {**SEEDS, "python_docs": in_prose(FIELDS)}


def made(seed: Seed, ask=None, **settings) -> Topic:
    (topic,) = asyncio.run(InfoSearch(InfoSearchSettings(**settings))(seed, ask or RuleAsk()))
    return topic


def several(corpus: str, count: int) -> list[Seed]:
    """The same text under many ids, so under many draws."""
    return [replace(SEEDS[corpus], id=f"{corpus}{i}") for i in range(count)]


def check(topic: Topic, *, by_rule: bool = True) -> None:
    """The table of the method, cell by cell; for topics of the rule writer also what stands behind it."""
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
    if by_rule:
        check_rules(topic)


def check_rules(topic: Topic) -> None:
    *wanted, hard = topic.passages
    for intent in topic.intents:
        evidence, constraints = evidence_of(intent), constraints_of(intent)
        assert [answers(evidence, p) for p in (*wanted, hard)] == [True] * len(wanted) + [False]
        if topic.attributes["dimension"] == "keyword" and intent.role != "original":
            assert fold_text(intent.attributes["condition"]) in fold_text(intent.instruction)
            assert [all_hold(constraints, p) for p in wanted] == [obeys(intent, p) for p in wanted]


@pytest.mark.parametrize(
    ("corpus", "dimension", "conditions"),
    [
        ("msmarco", "length", ["sentence", "paragraph"]),
        ("robust04", "length", ["sentence", "paragraph"]),
        ("python_docs", "format", ["stackoverflow_post", "code_snippet", "manual"]),
    ],
)
def test_a_seed_meets_the_fixed_conditions_that_its_text_allows(corpus, dimension, conditions):
    topic = made(SEEDS[corpus], dimensions=(dimension,))
    check(topic)
    assert json.loads(topic.attributes["conditions"]) == conditions


def test_a_manuals_list_of_fields_is_no_answer_of_a_post():
    topic = made(in_prose(FIELDS), dimensions=("format",))
    assert "Parameters" not in topic.passages[0].text
    with pytest.raises(Rejected, match="no_condition"):
        made(FIELDS, dimensions=("format",))


def test_code_with_a_question_above_it_is_hardly_more_than_code():
    with pytest.raises(Rejected, match="no_condition"):
        made(SEEDS["leetcode"], dimensions=("format",))


def test_nobody_asks_for_the_length_of_an_answer_that_is_one_number():
    with pytest.raises(Rejected, match="no_condition"):
        made(SEEDS["metamath"], dimensions=("length",))


@pytest.mark.parametrize("corpus", ["msmarco", "robust04"])
def test_keywords_stand_in_one_passage_each(corpus):
    for seed in several(corpus, 10):
        topic = made(seed, dimensions=("keyword",))
        check(topic)
        for word in json.loads(topic.attributes["conditions"]):
            assert sum(meets("keyword", word, p) for p in topic.passages[:-1]) == 1


def test_passages_of_the_corpus_in_two_languages_are_taken_as_they_are():
    seed = Seed(
        "ferry", "web", "how long does the ferry take", (passage(ENGLISH), passage(CHINESE)), SEEDS["msmarco"].negatives
    )
    topic = made(seed, dimensions=("language",))
    check(topic)
    assert [(p.role, p.text) for p in topic.passages[:2]] == [("seed_positive", CHINESE), ("seed_positive", ENGLISH)]
    assert {i.attributes.get("condition") for i in topic.intents[1:]} == {"zh", "en"}
    with pytest.raises(Rejected, match="no_condition"):
        made(SEEDS["msmarco"], dimensions=("language",))


@pytest.mark.parametrize("dimension", ["audience", "source"])
def test_what_needs_understanding_is_refused_by_the_rule_writer(dimension):
    with pytest.raises(Rejected, match="no_condition"):
        made(SEEDS["msmarco"], dimensions=(dimension,))


def test_a_passage_that_says_what_it_is_needs_no_writer():
    both = (passage(ENGLISH, source="news"), passage(SEEDS["msmarco"].positives[1].text, source="blog"))
    topic = made(replace(SEEDS["msmarco"], positives=both), dimensions=("source",))
    check(topic)
    assert json.loads(topic.attributes["conditions"]) == ["blog", "news"]
    assert {j.judge for j in topic.judgments} == {"seed", "construction"}


def test_the_next_dimension_of_the_draw_is_tried_where_one_has_no_conditions():
    drawn = Counter(made(seed).attributes["dimension"] for seed in several("msmarco", 40))
    assert set(drawn) == {"keyword", "length"}
    assert min(drawn.values()) >= 10
    for seed in several("python_docs", 20):
        check(made(seed))


def test_the_same_seed_gives_the_same_topic_and_wordings_vary():
    seeds = several("msmarco", 30)
    assert made(seeds[0]) == made(seeds[0])
    sayings = {i.instruction.split("? ")[-1] for s in seeds for i in made(s, dimensions=("length",)).intents[1:]}
    assert len(sayings) >= 30


def test_the_instruction_is_the_query_rephrased_and_then_the_condition():
    for intent in made(SEEDS["msmarco"], dimensions=("length",)).intents[1:]:
        question, _, condition = intent.instruction.partition("? ")
        assert SEEDS["msmarco"].query in question
        assert condition
        assert "\n" not in intent.instruction
    long = made(replace(in_prose(SEEDS["python_docs"]), query=" ".join([SEEDS["python_docs"].query] * 3)))
    assert not any(long.query in i.instruction for i in long.intents)


def test_whoever_asks_in_the_first_person_or_says_what_is_needed_gets_no_opening():
    for query in ("I want the height of the water", "Need something for the height of the water"):
        topic = made(replace(in_prose(SEEDS["python_docs"]), query=query))
        assert all(intent.instruction.startswith(f"{query}. ") for intent in topic.intents[1:])


def test_a_benchmark_says_that_it_is_held_out():
    assert "split" not in made(SEEDS["msmarco"]).attributes
    assert made(SEEDS["msmarco"], purpose="benchmark").attributes["split"] == "heldout"


def test_without_a_negative_there_is_no_topic():
    with pytest.raises(Rejected, match="no_negative"):
        made(replace(SEEDS["msmarco"], negatives=()))
    answering = tuple(replace(p, role="seed_negative") for p in SEEDS["msmarco"].positives)
    with pytest.raises(Rejected, match="no_negative"):
        made(replace(SEEDS["msmarco"], negatives=answering))


def test_settings_change_the_fingerprint_and_wrong_ones_are_refused():
    plain, other = InfoSearch(InfoSearchSettings()), InfoSearch(InfoSearchSettings(keywords=2))
    assert plain.fingerprint == InfoSearch(InfoSearchSettings()).fingerprint != other.fingerprint
    for wrong in ({"languages": ("en", "klingon")}, {"languages": ("en", "en")}, {"dimensions": ("mood",)}):
        with pytest.raises(ValidationError):
            InfoSearchSettings(**wrong)


def test_the_validators_pass_every_topic_and_find_what_is_changed_in_one():
    chain = [
        VALIDATORS[kind][1](VALIDATORS[kind][0]()) for kind in ("shape", "leak", "constraint_check", "dimension_check")
    ]
    for corpus in SEEDS.keys() - {"metamath", "leetcode"}:
        for seed in several(corpus, 5):
            topic = made(seed)
            for validator in chain:
                _, verdicts = validator(topic)
                assert [v.outcome for v in verdicts] == ["pass"], verdicts


class Scripted:
    """A hosted writer in small: it sees the messages alone and answers each task from a table, `changes` over it."""

    def __init__(self, **changes) -> None:
        self.changes, self.asked = changes, []

    async def __call__(self, prompt, answer, *, role="writer"):
        self.asked.append(prompt.task)
        text = prompt.messages[-1].content
        wanted = text.partition("Wanted: ")[2].partition(".\n")[0]
        said = {"facts": ["35 minutes"], "refusal": ""}
        replies = {
            "keywords": {"aspects": [], "keywords": ["winter", "seals"], "refusal": ""},
            "rewrite": {**said, "text": f"35 minutes, told for this reader: {wanted}. {ENGLISH}"},
            "instruction": {"question": "How long is the crossing?", "condition": f"Give me this: {text[-300:-1]}"},
            "reversal": {"condition": f"Anything but this: {text.splitlines()[0]}"},
            "query_negative": {**said, "text": "The ferry is painted white."},
        }
        task = prompt.task.partition(".")[2]
        reply = {**replies[task], **self.changes.get(task, {})}
        return parse_reply(
            json.dumps({k: " ".join(v.split()) if isinstance(v, str) else v for k, v in reply.items()}), answer
        )


@pytest.mark.parametrize("dimension", ["audience", "source"])
def test_a_writer_that_understands_makes_topics_that_a_judge_must_check(dimension):
    ask = Scripted()
    topic = made(SEEDS["msmarco"], ask, dimensions=(dimension,))
    check(topic, by_rule=False)
    assert json.loads(topic.attributes["conditions"]) == list(CONDITIONS[dimension])
    assert {j.judge for j in topic.judgments} == {"construction", "seed"}
    assert not any({"constraints", "evidence"} & i.attributes.keys() for i in topic.intents)
    assert len(ask.asked) == 3 * len(CONDITIONS[dimension])
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
        ("length", {"rewrite": {"text": "35 minutes. Not one."}}, "condition_not_met"),
        ("format", {"rewrite": {"text": "35 minutes, without any code."}}, "condition_not_met"),
        ("length", {"rewrite": {"text": "It does not take long."}}, "answer_lost"),
        ("audience", {"rewrite": {"text": "It takes 35 minutes, as requested."}}, "speaks_of_task"),
        ("audience", {"reversal": {"condition": "Give me a text for children."}}, "not_reversed"),
        ("keyword", {"keywords": {"keywords": ["ferry", "spaceship"]}}, "no_condition"),
        ("keyword", {"rewrite": {"text": ENGLISH + " Captains know it, even in winter."}}, "condition_not_met"),
        ("language", {"rewrite": {"text": ENGLISH}}, "condition_not_met"),
        ("audience", {"rewrite": {"text": " \n"}}, "empty_text"),
        ("audience", {"rewrite": {"text": ENGLISH}}, "same_passage"),
        ("audience", {"rewrite": {"refusal": "too short"}}, "no_condition"),
        (
            "audience",
            {"instruction": {"condition": "The same."}, "reversal": {"condition": "The same."}},
            "same_instruction",
        ),
        ("keyword", {"keywords": {"keywords": ["one"]}}, "no_condition"),
        ("keyword", {"keywords": {"keywords": ["Salt", "salt"]}}, "no_condition"),
        ("audience", {"instruction": {"demands": [{"family": "sings"}]}}, "bad_constraint"),
    ],
)
def test_a_reply_that_is_not_what_was_asked_for_is_named(dimension, changes, reason):
    with pytest.raises(Rejected) as refused:
        made(SEEDS["msmarco"], Scripted(**changes), dimensions=(dimension,))
    assert refused.value.reason == reason


@pytest.mark.parametrize("said", ["Short please.\nAs an assistant I may add:", " ", ""])
def test_a_sentence_that_goes_on_after_its_line_is_asked_for_again(said):
    with pytest.raises(UnreadableReplyError, match="condition"):
        parse_reply(json.dumps({"condition": said}), Condition)


def test_an_instruction_must_name_its_keyword():
    class Mute(RuleAsk):
        async def __call__(self, prompt, answer, *, role="writer"):
            found = await super().__call__(prompt, answer, role=role)
            return found.model_copy(update={"condition": "Something else."}) if answer is Condition else found

    with pytest.raises(Rejected, match="keyword_not_named"):
        made(SEEDS["msmarco"], Mute(), dimensions=("keyword",))


def test_a_hosted_model_is_not_shown_what_only_the_rule_writer_fills():
    assert set(schema_of(AskedInstruction)["properties"]) == {"question", "condition"}
    assert set(schema_of(Condition)["properties"]) == {"condition"}
    assert set(schema_of(Rewritten)["properties"]) == {"facts", "text", "refusal"}
    assert set(schema_of(Keywords)["properties"]) == {"aspects", "keywords", "refusal"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("The other ferry takes 35 minutes as well.", "answers_query"),
        (SEEDS["msmarco"].positives[0].text, "near_copy"),
        ("This passage does not answer how long it takes.", "speaks_of_task"),
    ],
)
def test_a_query_negative_that_answers_is_named(text, reason):
    changed = Scripted(query_negative={"text": text})
    with pytest.raises(Rejected) as refused:
        made(replace(SEEDS["msmarco"], negatives=()), changed, dimensions=("audience",))
    assert refused.value.reason == reason


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


LEAST = {
    "msmarco": {"keyword": 0.0, "length": 0.0},
    "gsm8k": {"length": 0.0},
    "cacm": {"keyword": 0.0},
    "cranfield": {"keyword": 0.0},
}
"""Share of seeds that make topics. A solution has no other length, and of prose that a collection's assessors judged
relevant little is believed to answer, and none is cut (docs/audit.md)."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dimension"), [(name, d) for name, of in LEAST.items() for d in of])
def test_real_seeds_make_topics_with_the_matrix_of_the_method(name, dimension, shared_data):
    settings = safe_load(CORPORA[name].replace("DATA", str(shared_data)))
    seeds = list(islice(open_seeds(READERS[settings["kind"]][0].model_validate(settings)), 60))
    accepted, reasons = 0, Counter()
    for seed in seeds:
        try:
            topic = made(seed, dimensions=(dimension,))
        except Rejected as reason:
            reasons[reason.reason] += 1
            continue
        check(topic)
        accepted += 1
        for validator in ("shape", "leak", "constraint_check", "dimension_check"):
            _, verdicts = VALIDATORS[validator][1](VALIDATORS[validator][0]())(topic)
            reasons.update(f"{validator}: {v.reason}" for v in verdicts if v.outcome == "reject")
    print(name, dimension, accepted, len(seeds), dict(reasons))
    assert set(reasons) <= {"no_answer", "no_condition", "no_negative", "unreadable"}
    assert accepted >= LEAST[name][dimension] * len(seeds)
