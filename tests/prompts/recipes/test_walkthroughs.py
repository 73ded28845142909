"""Every prompt of the published recipes, answered by hand as a strong writer would, and as careless ones do.

The good answers make topics that pass the checks; each careless one is caught under a name.
"""

import asyncio
import json
import re

import pytest

from engine.errors import Rejected
from engine.flow.ask import schema_of
from engine.models.hosted import body_of
from engine.requests import Request
from engine.topic import Passage
from prompts.constraints.dimensions import DIMENSIONS, meets
from prompts.passages import reply_types
from prompts.passages.reply_types import Rewritten
from prompts.render import load
from tests.support.topics.matrices import build, matrix
from tests.support.topics.walkthroughs import Writer, pages, seed_of
from validators.catalog import VALIDATORS

PAGES = pages()
CHECKS = ("shape", "leak", "refusal", "injection", "newline_truncation")
RECIPES = {
    "promptriever": {"lengths": ["medium"], "negatives": 3},
    "infir": {},
    "dual_view": {},
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


def test_a_good_writer_loses_no_negative():
    for page in PAGES:
        topic, _, _ = topic_of("promptriever", page)
        roles = [p.role for p in topic.passages]
        assert (roles.count("generated_positive"), roles.count("instruction_negative")) == (1, 2), page


def put(**fields):
    return lambda _, page: {k: v(page) if callable(v) else v for k, v in fields.items()}


def every_negative(text):
    """All negatives with a text that follows from the page and the one that was there."""
    return lambda answer, page: {"negatives": [{**one, "text": text(one["text"], page)} for one in answer["negatives"]]}


def in_front(words):
    return lambda answer, _: {"text": words + answer["text"]}


def first_positive(page):
    return page["positives"][0]


def first_sentence(page):
    return f"I need a text for my work, and it should say this: {' '.join(first_positive(page).split()[:16])}."


def wrong(page):
    return "First the numbers are added: 5 + 6 = 11.\nThe result is 11."


INSTRUCTION = {
    "it keeps a hard negative too": (put(kept=["P1", "N1"], excluded=["P2"]), "keeps_other_passages"),
    "it forgets a passage": (put(excluded=[]), "keeps_other_passages"),
    "it speaks of what it was shown": (
        put(instruction="I want a text that covers everything in the passage above. " * 4), "speaks_of_task",
    ),
    "it names an id": (put(instruction="Relevant is only what [P1] says about this, and nothing else. " * 4),
                       "speaks_of_task"),
    "it is too short": (put(instruction="Be specific."), "wrong_length"),
    "it is an essay": (put(instruction="I want to know more. " * 100), "wrong_length"),
    "it quotes the passage": (put(instruction=first_sentence), "leak"),
    "it gives nothing": (put(instruction=""), "no_instruction"),
    "it refuses": (put(instruction="", refusal="nothing_sets_it_apart"), "nothing_sets_it_apart"),
    "it refuses in prose": (put(instruction="", refusal="I am not able to do this."), "writer_refused"),
}  # fmt: skip
POISON = {
    "it repeats the first": (put(instruction=lambda page: page["plus"]), "same_instruction"),
    "it thinks nothing through": (put(differences=["it is different"]), "no_analysis"),
    "it repeats itself": (put(aspects=["noise", "Noise "], differences=["a", "b", "A"]), "no_analysis"),
    "it is too short": (put(instruction="The opposite."), "wrong_length"),
}
QUERY = {
    "it is the query again": (put(query=lambda page: page["query"].upper()), "same_query"),
    "it thinks nothing through": (put(aspects=[]), "no_analysis"),
    "it refuses": (put(refusal="no_other_query"), "no_other_query"),
}
DUAL = {
    "it keeps both": (put(kept=["P1", "P2"], excluded=[]), "keeps_other_passages"),
    "it repeats the first": (put(instruction=lambda page: page["plus"]), "same_instruction"),
    "it is much longer": (put(instruction="Please look for something else this time, as I need it. " * 20),
                          "wrong_length"),
    "it speaks of the shown passage": (put(instruction="I want what the text shown above does not say at all. " * 2),
                                       "speaks_of_task"),
}  # fmt: skip
PROSE = {
    "it is a copy": (put(text=lambda page: first_positive(page) + " That is all."), "near_copy"),
    "it is a line": (put(text="It is what it is."), "wrong_length"),
    "it speaks of its task": (put(text=lambda page: page["two"] + " This passage does not treat electronics."),
                              "speaks_of_task"),
    "it refuses in the text": (in_front("I'm sorry, but I cannot help with that. "),
                               "refusal"),
}  # fmt: skip
CODE = {
    "it is fenced": (put(text=lambda page: f"```python\n{page['two']}```"), "not_code"),
    "it is explained": (put(text=lambda page: "Here is a function that does what you want in Python:\n" + page["two"]),
                        "not_code"),
    "it is another language": (put(text="int main(void) { puts(\"hello\"); return 0; }"), "not_code"),
    "it is cut": (put(text=lambda page: page["two"].rstrip()[:-1] + "(("), "not_code"),
}  # fmt: skip
MATHEMATICS = {
    "it is wrong": (put(text=wrong), "wrong_answer"),
    "it is the shown one": (put(text=first_positive), "same_passage"),
}
PASSAGE = {"text": PROSE, "code": CODE, "mathematics": MATHEMATICS}
CARELESS = [
    *(("infir", "infir.instruction", *case) for case in INSTRUCTION.items()),
    *(("promptriever", "promptriever.instruction", *case) for case in INSTRUCTION.items()),
    *(("infir", "infir.poisoned_instruction", *case) for case in POISON.items()),
    *(("infir", "infir.poisoned_query", *case) for case in QUERY.items()),
    *(("dual_view", "dual_view.instruction", *case) for case in DUAL.items()),
]


def caught(recipe, page, task, change):
    """The name under which the first problem is told."""
    try:
        topic, verdicts, _ = topic_of(recipe, page, {task: change})
    except Rejected as problem:
        return problem.reason
    return verdicts[0].validator if verdicts else f"nothing, {topic.id}"


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("recipe", "task", "how", "case"), CARELESS)
def test_a_careless_writer_is_caught(recipe, task, how, case, page):
    change, name = case
    if name == "leak" and PAGES[page]["kind"] != "text":
        pytest.skip("code and formulas are no sentences that could be quoted")
    assert caught(recipe, page, task, change) == name, how


@pytest.mark.parametrize(("page", "how"), [(page, how) for page, one in PAGES.items() for how in PASSAGE[one["kind"]]])
def test_a_careless_writer_of_a_passage_is_caught(page, how):
    change, name = PASSAGE[PAGES[page]["kind"]][how]
    assert caught("infir", page, "infir.passage", change) == name


NEGATIVES = {
    "text": [
        (every_negative(lambda text, page: first_positive(page) + " " + text[:40]), "near_copy"),
        (every_negative(lambda text, page: text + " It violates the instruction on purpose."), "speaks_of_task"),
        (every_negative(lambda text, page: text[:80]), "wrong_length"),
        (put(negatives=[]), "differs from the positive"),
    ],
    "code": [(every_negative(lambda text, page: f"```\n{text}\n```"), "not_code")],
    "mathematics": [(every_negative(lambda text, page: wrong(page)), "wrong_answer")],
}


@pytest.mark.parametrize(
    ("page", "number"), [(page, n) for page, one in PAGES.items() for n in range(len(NEGATIVES[one["kind"]]))]
)
def test_written_negatives_that_fail_are_left_out_and_named(page, number):
    change, name = NEGATIVES[PAGES[page]["kind"]][number]
    with pytest.raises(Rejected) as caught:
        topic_of("promptriever", page, {"promptriever.passages": change})
    assert caught.value.reason == "no_negative"
    assert name in caught.value.detail


EXAMPLES = {
    "promptriever/instruction": "WrittenInstruction",
    "promptriever/passages": "WrittenPassages",
    "infir/instruction": "WrittenInstruction",
    "infir/poisoned_instruction": "PoisonedInstruction",
    "infir/poisoned_query": "WrittenQuery",
    "infir/passage": "ContrastedPassage",
    "dual_view/instruction": "WrittenInstruction",
    "infosearch/keywords": "Keywords",
    "infosearch/instruction": "AskedInstruction",
    "infosearch/query_negative": "Rewritten",
}


def examples_in(template, kind, **more):
    """The answers that the examples of a template show for a kind."""
    known = {"kind": kind, "others": [], "negatives": [], "passages": [], "unwanted": [], **more}
    variables = {name: known.get(name, "x") for name in load(template).variables}
    system = load(template).render(**variables).messages[0].content
    return [json.loads(line) for line in system.splitlines() if re.fullmatch(r'\{".*\}', line)]


@pytest.mark.parametrize("template", EXAMPLES)
def test_the_examples_of_a_template_are_answers_of_its_type(template):
    answer = getattr(reply_types, EXAMPLES[template])
    fields = list(schema_of(answer)["properties"])
    for kind in ("text", "code", "mathematics", "documentation"):
        shown = examples_in(template, kind)
        assert len(shown) == 2, kind
        for example in shown:
            assert list(example) == fields
            answer.model_validate(example)
            if "aspects" in example and "differences" in example:
                assert 2 <= len(example["aspects"]) <= 3 <= len(example["differences"])


REWRITTEN = {
    "keyword": ("larynx", "compressor"), "format": ("stackoverflow_post", "code_snippet"),
    "language": ("zh", "en"), "length": ("sentence", "paragraph"),
}  # fmt: skip


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_the_examples_of_rewriting_have_the_property_that_they_show(dimension):
    shown = [Rewritten.model_validate(one) for one in examples_in("infosearch/rewrite", "text", dimension=dimension)]
    assert len(shown) == 2
    for condition, example in zip(REWRITTEN.get(dimension, ()), shown, strict=False):
        assert meets(dimension, condition, Passage(example.text, "generated_positive")), condition


def test_only_the_kind_at_hand_is_shown():
    pythons = ["def " in json.dumps(examples_in("infir/passage", kind)) for kind in ("text", "code", "mathematics")]
    assert pythons == [False, True, False]


def test_every_schema_goes_through_strict_mode():
    for name in {*EXAMPLES.values(), "Keywords", "Rewritten", "AskedInstruction", "Condition"}:
        schema = schema_of(getattr(reply_types, name))
        sent = body_of(Request("m", (), schema=schema), "json_schema")["response_format"]["json_schema"]
        assert sent["strict"] is True, name
        assert not {"maxLength", "minLength", "default", "prefixItems", "minItems"} & set(
            re.findall(r'"(\w+)":', json.dumps(sent))
        ), name
