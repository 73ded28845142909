"""The recipe `custom`: stages of a user's own, what they yield, and every mistake refused when the job is read."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from foil.cluster.job import load_job
from foil.engine.errors import Rejected, UsageError
from foil.engine.flow.ask import schema_of
from foil.engine.topic import Seed, Topic
from foil.prompts.constraints.constraint import all_hold, constraints_of
from foil.prompts.parse import parse_reply
from foil.prompts.recipes.catalog import RECIPES
from foil.prompts.recipes.custom.recipe import Custom, model_of
from foil.prompts.recipes.custom.settings import CustomSettings
from foil.prompts.recipes.custom.specs import AnswerField, Stage
from foil.validators.catalog import VALIDATORS
from tests.support.models.character import without_fences
from tests.support.paths import REPO
from tests.support.topics.sample_seeds import SEEDS

EXAMPLE = REPO / "examples" / "jobs" / "custom.yaml"
SEED = SEEDS["msmarco"]


def example() -> dict[str, Any]:
    recipe = yaml.safe_load(EXAMPLE.read_text())["recipe"]
    return {**recipe, "templates": str(REPO / "examples" / "custom")}


class Scripted:
    """Answers each stage from a table: a mapping, or a function of the prompt's last message."""

    def __init__(self, **replies) -> None:
        self.replies, self.asked = replies, []

    async def __call__(self, prompt, answer, *, role="writer"):
        self.asked.append((prompt.task, role))
        reply = self.replies[prompt.task.partition(".")[2]]
        reply = reply(without_fences(prompt.messages[-1].content)) if callable(reply) else reply
        return parse_reply(json.dumps(reply), answer)


def without(text: str) -> dict[str, str]:
    """The passage shown, without the sentences that have the word that stands last."""
    passage, _, word = text.partition("Passage:\n")[2].rpartition("\n\nLeave out what mentions: ")
    return {"text": ". ".join(sentence for sentence in passage.split(". ") if word.lower() not in sentence.lower())}


EXAMPLE_WRITER = {
    "aspects": {"keywords": ["seals", "tickets"]},
    "ask": lambda text: {"instruction": f"I want a text that mentions {text.split()[-1]}."},
    "without": without,
}


def made(recipe: dict[str, Any], seed: Seed = SEED, ask=None) -> list[Topic]:
    settings_class, build = RECIPES["custom"]
    return list(asyncio.run(build(settings_class.model_validate(recipe))(seed, ask or Scripted(**EXAMPLE_WRITER))))


@pytest.fixture
def own(tmp_path):
    """Writes templates into a folder and gives a recipe with them."""

    def recipe(templates: dict[str, str], **sections) -> dict[str, Any]:
        for name, text in templates.items():
            (tmp_path / f"{name}.j2").write_text(f"=== user ===\n{text}\n", encoding="utf-8")
        return {"kind": "custom", "templates": str(tmp_path), **sections}

    return recipe


@pytest.mark.parametrize("corpus", ["msmarco", "robust04"])
def test_the_example_makes_topics_whose_judgments_hold(corpus):
    (topic,) = made(example(), SEEDS[corpus])
    whole, *shortened = [p for p in topic.passages if p.role in {"seed_positive", "instruction_negative"}]
    original, *asked = topic.intents
    told = {(j.intent_id, j.passage_id): (j.relevance, j.judge) for j in topic.judgments}
    assert len(asked) == len(shortened) >= 2
    assert told[original.id, whole.id] == (1, "seed")
    assert all(told[original.id, p.id] == (1, "construction") for p in shortened)
    for i, intent in enumerate(asked):
        constraints = constraints_of(intent)
        assert told[intent.id, whole.id] == (1, "rule")
        for k, passage in enumerate(shortened):
            assert told[intent.id, passage.id] == ((-1, "rule") if i == k else (1, "rule"))
            assert all_hold(constraints, passage) is (i != k)
    for kind in ("shape", "leak", "constraint_check"):
        settings, build = VALIDATORS[kind]
        _, verdicts = build(settings())(topic)
        assert [v.outcome for v in verdicts] == ["pass"], verdicts


def test_a_hosted_model_answers_the_same_stages_and_every_item_keeps_its_place():
    ask = Scripted(
        aspects={"keywords": ["seals", "tickets"]},
        ask=lambda text: {"instruction": f"I want a text about {text.split()[-1]}."},
        without=lambda text: {"text": f"35 minutes, without {text.split()[-1]}."},
    )
    (topic,) = made(example(), ask=ask)
    assert [name for name, _ in ask.asked] == ["custom.aspects", *["custom.ask"] * 2, *["custom.without"] * 2]
    assert [i.instruction for i in topic.intents[1:]] == ["I want a text about seals.", "I want a text about tickets."]
    assert [constraints_of(i)[0].value for i in topic.intents[1:]] == ["seals", "tickets"]
    texts = {p.id: p.text for p in topic.passages}
    denied = [
        (intent.attributes["constraints"].split('"')[-2], texts[j.passage_id])
        for intent in topic.intents[1:]
        for j in topic.judgments
        if j.intent_id == intent.id and j.relevance < 0
    ]
    assert denied == [("seals", "35 minutes, without seals."), ("tickets", "35 minutes, without tickets.")]


def test_a_stage_sees_the_answer_for_its_own_item_and_elsewhere_the_list_of_them(own):
    recipe = own(
        {
            "words": "{{ query }}",
            "first": "{{ item }}",
            "second": "{{ item }} after {{ first.text }}",
            "last": "{% for one in second %}{{ one.text }};{% endfor %}{{ words.items|join('+') }}",
        },
        stages=[
            {"name": "words", "answer": {"items": "list"}},
            {"name": "first", "each": "words.items", "answer": {"text": "string"}},
            {"name": "second", "each": "words.items", "answer": {"text": "string"}},
            {"name": "last", "answer": {"text": "string"}},
        ],
        rows={"one": "first.text", "two": "second.text", "all": "last.text"},
    )
    echo = {name: lambda text: {"text": text.strip()} for name in ("first", "second", "last")}
    topics = made(recipe, ask=Scripted(words={"items": ["a", "b"]}, **echo))
    assert [json.loads(t.attributes["row"]) for t in topics] == [
        {"one": "a", "two": "a after a", "all": "a after a;b after b;a+b"},
        {"one": "b", "two": "b after b", "all": "a after a;b after b;a+b"},
    ]
    assert len({t.id for t in topics}) == 2


def conditional(own) -> dict[str, Any]:
    return own(
        {"check": "{{ positive.text }}", "ask": "{{ query }}", "more": "{{ ask.instruction }}"},
        stages=[
            {"name": "check", "answer": {"fits": "boolean"}},
            {"name": "ask", "when": "check.fits", "answer": {"instruction": "string"}},
            {"name": "more", "answer": {"instruction": "string"}},
        ],
        topic={
            "intents": [
                {"role": "original"},
                {"role": "instructed", "instruction": "ask.instruction"},
                {"role": "reversed", "instruction": "more.instruction"},
            ],
            "passages": [{"role": "seed_positive", "text": "positive"}, {"role": "seed_negative", "text": "negatives"}],
            "judgments": [
                ["original", "seed_positive", 1],
                ["instructed", "seed_positive", 1],
                ["instructed", "seed_negative", -1],
                ["reversed", "seed_positive", -1],
            ],
        },
    )


def test_when_leaves_a_stage_out_and_all_that_needs_it(own):
    ask = Scripted(check={"fits": False})
    with pytest.raises(Rejected, match="nothing_made"):
        made(conditional(own), ask=ask)
    assert ask.asked == [("custom.check", "writer")]
    replies = {"check": {"fits": True}, "ask": {"instruction": "Only this."}, "more": {"instruction": "Not this."}}
    (topic,) = made(conditional(own), ask=Scripted(**replies))
    assert [i.role for i in topic.intents] == ["original", "instructed", "reversed"]
    assert sum(p.role == "seed_negative" for p in topic.passages) == 3


def test_a_stage_is_answered_by_the_model_of_its_role(own):
    recipe = own(
        {"a": "{{ query }}"}, stages=[{"name": "a", "role": "critic", "answer": {"b": "string"}}], rows={"b": "a.b"}
    )
    ask = Scripted(a={"b": "c"})
    made(recipe, ask=ask)
    assert ask.asked == [("custom.a", "critic")]


def test_a_broken_constraint_of_a_model_is_a_reject_and_never_a_crash(own):
    recipe = own(
        {"a": "{{ query }}"},
        stages=[{"name": "a", "answer": {"language": "string", "said": "string"}}],
        topic={
            "intents": [
                {
                    "role": "instructed",
                    "instruction": "a.said",
                    "constraints": [{"family": "language", "from": "a.language"}],
                }
            ],
            "passages": [{"role": "seed_positive", "text": "positive"}],
            "judgments": [["instructed", "seed_positive", 1]],
        },
    )
    with pytest.raises(Rejected, match="bad_constraint"):
        made(recipe, ask=Scripted(a={"language": "klingon", "said": "In Klingon."}))


def test_a_plain_row_passes_shape_as_a_row_and_a_broken_one_does_not(own):
    recipe = own({"a": "{{ query }}"}, stages=[{"name": "a", "answer": {"n": "integer", "t": "string"}}])
    recipe["rows"] = {"question": "query", "n": "a.n", "t": "a.t", "narrative": "attributes.narrative"}
    with pytest.raises(Rejected, match="nothing_made"):
        made(recipe, ask=Scripted(a={"n": 3, "t": "x"}))
    (topic,) = made(recipe, SEEDS["robust04"], Scripted(a={"n": 3, "t": "x"}))
    row = json.loads(topic.attributes["row"])
    assert row == {"question": SEED.query, "n": 3, "t": "x", "narrative": SEEDS["robust04"].attributes["narrative"]}
    assert (topic.intents, topic.passages, topic.judgments) == ((), (), ())
    assert outcome(topic) == ["pass"]
    for broken in ("{", "[]", "{}", '{"t":""}', '{"t":["a\\u0000"]}'):
        assert outcome(Topic("t", "s", "c", "custom", "q", attributes={"row": broken})) == ["reject"], broken


def outcome(topic: Topic) -> list[str]:
    settings, build = VALIDATORS["shape"]
    _, verdicts = build(settings())(topic)
    return [v.outcome for v in verdicts]


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("string", ["a"], ["", 3, None, "x" * 20_001]),
        ({"type": "string", "least": 0, "most": 3}, ["", "abc"], ["abcd"]),
        ({"type": "string", "values": ["yes", "no"]}, ["yes"], ["maybe", ""]),
        ("integer", [3], ["three", 3.5, 10**20]),
        ("number", [1e300], ["NaN", float("inf"), float("nan")]),
        ({"type": "number", "least": 0, "most": 1}, [0.5, 1], [1.1, -0.1]),
        ("boolean", [True], ["perhaps", 7]),
        ("list", [[], ["a"]], ["a", [""], ["a"] * 33]),
        ({"type": "list", "least": 1, "most": 2, "values": ["a", "b"]}, [["a"], ["a", "b"]], [[], ["c"], ["a"] * 3]),
    ],
)
def test_a_field_takes_what_it_says(field, good, bad):
    model = model_of(Stage.model_validate({"name": "s", "answer": {"x": field}}))
    for value in good:
        model.model_validate_json(json.dumps({"x": value}))
    for value in bad:
        with pytest.raises(ValidationError):
            model.model_validate_json(json.dumps({"x": value}))
    with pytest.raises(ValidationError):
        model.model_validate_json(json.dumps({"x": good[0], "y": 1}))
    assert set(schema_of(model)["properties"]) == {"x"}


@given(
    st.sampled_from(["string", "integer", "number", "boolean", "list"]),
    st.none() | st.integers(-3, 40),
    st.none() | st.integers(-3, 40),
    st.recursive(st.none() | st.booleans() | st.integers(-50, 50) | st.text(max_size=50), st.lists, max_leaves=5),
)
def test_bounds_hold_or_are_refused(kind, least, most, value):
    try:
        field = AnswerField(type=kind, least=least, most=most)
    except ValidationError:
        lowest = -3 if kind in {"integer", "number"} else 0
        bounds = [b for b in (least, most) if b is not None]
        assert any(b < lowest for b in bounds) or sorted(bounds) != bounds
        return
    stage = Stage(name="s", answer={"x": field})
    try:
        found = model_of(stage).model_validate_json(json.dumps({"x": value}, ensure_ascii=True)).x
    except ValidationError:
        return
    size = len(found) if kind in {"string", "list"} else found
    assert kind == "boolean" or ((least is None or size >= least) and (most is None or size <= most))


@pytest.mark.parametrize("kind", ["integer", "string", "list"])
def test_bounds_of_what_is_counted_are_whole(kind):
    with pytest.raises(ValidationError, match="whole"):
        AnswerField(type=kind, least=1.5)


STAGES = [
    {"name": "a", "answer": {"items": "list", "fits": "boolean"}},
    {"name": "b", "each": "a.items", "answer": {"text": "string"}},
]
PARTS = {
    "intents": [{"role": "original"}, {"role": "instructed", "instruction": "b.text"}],
    "passages": [{"role": "seed_positive", "text": "positive"}],
    "judgments": [["original", "seed_positive", 1]],
}


def with_(stage: int, **changes) -> dict[str, Any]:
    return {"stages": [{**one, **(changes if i == stage else {})} for i, one in enumerate(STAGES)]}


@pytest.mark.parametrize(
    ("changes", "place", "why"),
    [
        (with_(1, name="a"), "stages.1.name", "is taken"),
        (with_(0, name="query"), "stages.0.name", "is taken"),
        (with_(0, answer={"model_dump": "string"}), "stages.0.answer.model_dump", "no name for a field"),
        (with_(0, answer={"A b": "string"}), "stages.0.answer.A b", "no name for a field"),
        (with_(0, template="missing"), "stages.0.template", "no readable template"),
        (with_(0, template="broken"), "stages.0.template", "refused"),
        (with_(0, template="with_item"), "stages.0.template", "'item', which nobody provides"),
        (with_(0, template="names_b"), "stages.0.template", "stage 'b', which comes later"),
        (with_(1, template="wrong_field"), "stages.1.template", "'a' has no field 'thing'; it has fits, items"),
        (with_(1, template="wrong_base"), "stages.1.template", "'positive' has no field 'body'"),
        (with_(1, template="list_as_one"), "stages.1.template", "'negatives' is a list"),
        (with_(1, template="wrong_in_loop"), "stages.1.template", "line 2: 'one' has no field 'body'"),
        (with_(0, each="b.text"), "stages.0.each", "comes later"),
        (with_(0, each="a.items"), "stages.0.each", "comes later"),
        (with_(1, each="a.fits"), "stages.1.each", "is a boolean; wanted is a list"),
        (with_(1, each="c.items"), "stages.1.each", "'c' is no stage"),
        (with_(1, when="a.items"), "stages.1.when", "is a list; wanted is a boolean"),
        ({"topic": None}, "", "either a `topic` or `rows`"),
        ({"rows": {"x": "query"}}, "", "either a `topic` or `rows`"),
        ({"topic": None, "rows": {"x": "b.words"}}, "rows.x", "has no field 'words'"),
        ({"topic": None, "rows": {"x": "positive"}}, "rows.x", "is a passage"),
        ({"intents": [{"role": "original", "instruction": "b.text"}]}, "topic.intents.0.instruction", "has none"),
        ({"intents": [{"role": "original"}, {"role": "dual"}]}, "topic.intents.1.instruction", "every other has one"),
        ({"intents": [{"role": "original"}] * 2}, "topic.intents.1.name", "stands twice"),
        ({"intents": [{"role": "original", "query": "a.fits"}]}, "topic.intents.0.query", "is a boolean"),
        (
            {"intents": [{"role": "original", "constraints": [{"family": "sings"}]}]},
            "topic.intents.0.constraints.0.family",
            "no constraint family",
        ),
        (
            {"intents": [{"role": "original", "constraints": [{"family": "mentions", "from": "a.items"}]}]},
            "topic.intents.0.constraints.0.from",
            "is a list",
        ),
        ({"passages": [{"role": "seed_positive", "text": "a.items"}]}, "topic.passages.0.text", "is a list"),
        ({"judgments": [["dual", "seed_positive", 1]]}, "topic.judgments.0", "'dual' is none of the intents"),
        ({"judgments": [["original", "other", 1]]}, "topic.judgments.0", "'other' is none of the passages"),
    ],
)
def test_every_mistake_is_refused_with_its_place(changes, place, why, own):
    recipe = own(
        {
            "a": "{{ query }}",
            "b": "{{ item }} {{ a.fits }}",
            "broken": "{{ query.upper() }}",
            "with_item": "{{ item }}",
            "names_b": "{{ b.text }}",
            "wrong_field": "{{ a.thing }}",
            "wrong_base": "{{ positive.body }}",
            "list_as_one": "{{ negatives.text }}",
            "wrong_in_loop": "{% for one in negatives %}{{ one.body }}{% endfor %}",
        }
    )
    parts = {key: changes.get(key, value) for key, value in PARTS.items()}
    recipe |= {"stages": STAGES, "topic": parts} | {k: v for k, v in changes.items() if k not in PARTS}
    with pytest.raises(ValidationError) as refused:
        CustomSettings.model_validate(recipe)
    found = {".".join(map(str, e["loc"])): e["msg"] for e in refused.value.errors()}
    assert why in found[place], found


def test_a_job_names_the_line_of_each_mistake_and_all_of_them(tmp_path):
    text = EXAMPLE.read_text().replace("examples/custom", str(REPO / "examples" / "custom"))
    broken = text.replace("from: aspects.keywords", "from: aspects.words").replace(
        "seed_negative, text: negatives", "seed_negative, text: negative"
    )
    (tmp_path / "job.yaml").write_text(broken)
    with pytest.raises(UsageError) as refused:
        load_job(tmp_path / "job.yaml")
    lines = broken.splitlines()
    for mark in ("text: negative,", "from: aspects.words"):
        at = next(i for i, line in enumerate(lines, start=1) if mark in line)
        assert f"job.yaml:{at}: recipe." in str(refused.value)


def test_the_fingerprint_follows_the_templates_and_not_their_folder(tmp_path):
    def fingerprint(folder: Path, **changes) -> str:
        return Custom(CustomSettings.model_validate({**example(), "templates": str(folder), **changes})).fingerprint

    copy = tmp_path / "copy"
    shutil.copytree(REPO / "examples" / "custom", copy)
    before = fingerprint(REPO / "examples" / "custom")
    assert fingerprint(copy) == before
    assert fingerprint(copy, negatives=2) != before
    (copy / "ask.j2").write_text((copy / "ask.j2").read_text() + "Be brief.\n")
    assert fingerprint(copy) != before


def test_the_page_shows_recipes_that_stand():
    page = (REPO / "docs" / "custom.md").read_text()
    stages, topic = (block.split("```")[0] for block in page.split("```yaml\n")[1:])
    recipe = {**yaml.safe_load(stages)["recipe"], "templates": str(REPO / "examples" / "custom")}
    CustomSettings.model_validate(recipe)
    CustomSettings.model_validate({**recipe, "rows": None, **yaml.safe_load(topic)})


def test_an_attribute_that_a_seed_lacks_is_tested_for_or_rejects_the_seed(own):
    stages = [{"name": "a", "answer": {"b": "string"}}]
    kind = "{% if attributes.narrative is defined %}told: {{ attributes.narrative }}{% else %}untold{% endif %}"
    seen: list[str] = []

    def reply(text: str) -> dict[str, str]:
        seen.append(text)
        return {"b": "c"}

    for seed in (SEEDS["msmarco"], SEEDS["robust04"]):
        made(own({"a": kind}, stages=stages, rows={"b": "a.b"}), seed, Scripted(a=reply))
    assert seen == ["untold", f"told: {SEEDS['robust04'].attributes['narrative']}"]
    with pytest.raises(Rejected, match=r"no_value.*there is no value 'mood'"):
        made(own({"a": "{{ attributes.mood }}"}, stages=stages, rows={"b": "a.b"}), ask=Scripted(a=reply))
