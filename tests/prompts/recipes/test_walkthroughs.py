"""Every prompt of the published recipes, answered by hand as a strong writer would, and as careless ones do.

The good answers make topics that pass the checks; each careless one is caught under a name, or marked.
"""

import asyncio
import json
import re

import pytest

from foil.engine.answer_forms import body_of
from foil.engine.errors import CutReplyError, Rejected
from foil.engine.flow.ask import schema_of
from foil.engine.requests import Request
from foil.prompts.writing.answers import ConditionWording, Keywords, Questions
from foil.validators.catalog import VALIDATORS
from tests.support.models.character import without_fences
from tests.support.topics.matrices import build, matrix
from tests.support.topics.walkthroughs import Writer, pages, seed_of

PAGES = pages()
CHECKS = ("shape", "leak", "refusal", "injection", "newline_truncation")
RECIPES = {
    "promptriever": {"lengths": ["medium"], "styles": ["plain"], "negatives": 3, "frames": False},
    "infir": {"frames": False},
    "dual_view": {"frames": False},
    "infosearch": {"query_negative": "written"},
}
GOOD = [(recipe, page) for recipe in RECIPES for page in PAGES]


def topic_of(recipe, page, changes=None):
    """The topic that a writer makes from a page, the verdicts of the checks on it, and the writer."""
    writer = Writer(PAGES[page], changes)
    seed = seed_of(PAGES[page], instructed=recipe == "dual_view")
    dimension = "format" if PAGES[page]["kind"] == "code" else "length"
    settings = {**RECIPES[recipe], **({"dimensions": [dimension]} if recipe == "infosearch" else {})}
    (topic,) = asyncio.run(build(recipe, **settings)(seed, writer))
    verdicts = []
    for name in CHECKS:
        settings, check = VALIDATORS[name]
        topic, found = check(settings())(topic)
        verdicts += [verdict for verdict in found if verdict.outcome == "reject"]
    return topic, verdicts, writer


@pytest.mark.parametrize(("recipe", "page"), GOOD)
def test_good_answers_pass_every_check(recipe, page):
    topic, verdicts, writer = topic_of(recipe, page)
    assert not verdicts
    signs = {sign for row in matrix(topic).values() for cell in row.values() for sign in cell}
    assert signs == {1, -1}
    assert {"instructed", "poisoned_instruction", "dual", "reversed"} & {intent.role for intent in topic.intents}
    assert set(writer.roles) <= {"instruction_writer", "passage_writer"}
    assert all(0.7 <= p.sampling["temperature"] <= 1 for p in writer.prompts)


def put(text):
    return lambda _, page: text(page) if callable(text) else text


def first_positive(page):
    return page["positives"][0]


def wrong(_page):
    return "First the numbers are added: 5 + 6 = 11.\nThe result is 11."


INSTRUCTION = {
    "it speaks of what it was shown": (put("I want a text that covers everything in the first passage. " * 3),
                                       "speaks_of_task"),
    "it names an id": (put("Relevant is only what [P1] says about this, and nothing else. " * 4), "speaks_of_task"),
    "it is too short": (put("Be specific."), "too_short"),
    "it is an essay": (put("I want to know more. " * 100), "too_long"),
    "it gives nothing": (put(""), "empty_text"),
    "it refuses": (put("I am sorry, but I cannot do this for you, whatever it may be good for."), "refusal"),
    "it asks the same twice": (put("Bring me whatever seems worthy of anybody's attention, and plenty of it."),
                               "same_instruction"),
}  # fmt: skip
QUERY = {
    "it is the query again": (put(lambda page: page["query"].upper()), "same_query"),
    "it is an essay": (put("I want to know more about this and that. " * 50), "too_long"),
    "it refuses": (put("I can't think of another one."), "refusal"),
}
QUESTIONS = {
    "it asks nothing": (put('{"answered": [], "open": []}'), "no_questions"),
    "it asks the query": (put(lambda page: json.dumps({"answered": [page["query"] + "?"] * 3, "open": ["Why?"]})),
                          "no_questions"),
}  # fmt: skip
PROSE = {
    "it is a copy": (put(lambda page: first_positive(page) + " That is all."), "near_copy"),
    "it is the shown one": (put(first_positive), "same_passage"),
    "it speaks of its task": (put(lambda page: page["two"] + " The first passage does not treat this."),
                              "speaks_of_task"),
    "it refuses in the text": (lambda text, _: f"I'm sorry, but I cannot help with that. {text}", "refusal"),
}  # fmt: skip
CODE = {
    "it is another language": (put('int main(void) { puts("hello"); return 0; }'), "not_code"),
    "it is explained": (put(lambda page: "Here is a function that does what you want:\n" + page["two"]), "not_code"),
    "it is cut": (put(lambda page: page["two"].rstrip()[:-1] + "(("), "not_code"),
}
MATHEMATICS = {
    "it is wrong": (put(wrong), "wrong_answer"),
    "it is the shown one": (put(first_positive), "same_passage"),
}
PASSAGE = {"text": PROSE, "code": CODE, "mathematics": MATHEMATICS}
CARELESS = [
    *(("writing.instruction", *case) for case in INSTRUCTION.items()),
    *(("writing.other_query", *case) for case in QUERY.items()),
    *(("writing.questions", *case) for case in QUESTIONS.items()),
]


def caught(page, task, change):
    """The name under which the first problem is told."""
    try:
        topic, verdicts, _ = topic_of("infir", page, {task: change})
    except Rejected as problem:
        return problem.reason
    return verdicts[0].validator if verdicts else f"nothing, {topic.id}"


@pytest.mark.parametrize(
    ("recipe", "task"), [("promptriever", "writing.passage"), ("infosearch", "infosearch.rewrite")]
)
def test_one_passage_that_cannot_be_read_is_left_out(recipe, task):
    asked = []

    def cut(text, _page):
        asked.append(text)
        if len(asked) == 2:
            raise CutReplyError("the reply was cut at its limit of 558 tokens")
        return text

    topic, _, _ = topic_of(recipe, next(name for name in PAGES if PAGES[name]["kind"] == "text"), {task: cut})
    assert len(asked) >= 2
    assert "unreadable_reply: the reply was cut" in topic.attributes["dropped"]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("task", "how", "case"), CARELESS)
def test_a_careless_writer_is_caught(task, how, case, page):
    change, name = case
    assert caught(page, task, change) == name, how


@pytest.mark.parametrize(("page", "how"), [(page, how) for page, one in PAGES.items() for how in PASSAGE[one["kind"]]])
def test_a_careless_writer_of_a_passage_is_caught(page, how):
    change, name = PASSAGE[PAGES[page]["kind"]][how]
    assert caught(page, "writing.passage", change) == name


def test_where_d_minus_tells_nothing_of_its_own_what_d_plus_tells_is_not_wanted():
    page = next(name for name in PAGES if PAGES[name]["kind"] == "text")
    said = '{"answered": [], "open": ["Who pays for all of it?", "Where does it come from?"]}'
    topic, _, writer = topic_of("dual_view", page, {"writing.pair_questions": put(said)})
    [dual] = [intent for intent in topic.intents if intent.role == "dual"]
    assert json.loads(dual.attributes["demands"]) == {"demands": [], "bans": ["Who pays for all of it?"]}
    shown = [without_fences(prompt.messages[-1].content) for prompt in writer.prompts]
    assert any("Not wanted: Who pays for all of it?" in text for text in shown)


@pytest.mark.parametrize("page", PAGES)
def test_a_fence_around_a_passage_is_no_fault(page):
    fenced = topic_of("infir", page, {"writing.passage": lambda text, _: f"Sure:\n```\n{text}\n```\n"})[0]
    assert matrix(fenced) == matrix(topic_of("infir", page)[0])
    assert not any("```" in passage.text for passage in fenced.passages)


@pytest.mark.parametrize("page", PAGES)
def test_written_negatives_that_fail_are_left_out_and_named(page):
    with pytest.raises(Rejected) as caught:
        topic_of("promptriever", page, {"writing.passage": put("")})
    assert caught.value.reason == "no_negative"
    assert "empty_text" in caught.value.detail


def test_every_schema_goes_through_strict_mode():
    for answer in (Questions, Keywords, ConditionWording):
        sent = body_of(Request("m", (), schema=schema_of(answer)), "json_schema")["response_format"]["json_schema"]
        assert sent["strict"] is True
        assert not {"maxLength", "minLength", "default", "prefixItems", "minItems"} & set(
            re.findall(r'"(\w+)":', json.dumps(sent))
        )
