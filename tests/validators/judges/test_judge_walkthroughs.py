"""The judges' prompts about topics that were made by hand: a strong judge keeps them, careless ones are caught."""

import asyncio
import json
import re

import pytest

from foil.engine.answer_forms import _is_closed
from foil.engine.flow.ask import schema_of
from foil.prompts import judge_answers
from foil.prompts.judge_answers import LABELS, MostRelevant, Relevance, Relevant
from foil.prompts.parse import parse_reply
from foil.prompts.render import load
from foil.validators.catalog import VALIDATORS
from tests.support.models.corrupt_judge import question_of
from tests.support.topics.matrices import build
from tests.support.topics.walkthroughs import Writer, pages, seed_of

PAGES = pages()
CASES = {
    "judge_scenarios": ("infir", {}),
    "judge_relevance": ("promptriever", {"lengths": ["medium"]}),
    "judge_polarity": ("dual_view", {}),
}
CANARIES = {"canaries": {"share": 0}}


def topic_of(recipe, settings, page):
    seed = seed_of(PAGES[page], instructed=recipe == "dual_view")
    (topic,) = asyncio.run(build(recipe, **settings)(seed, Writer(PAGES[page])))
    return topic


class Judge:
    """Answers from the labels of `topic`, which were made by hand; `careless` answers in its place."""

    topic = None

    def __init__(self, careless=None) -> None:
        self.careless, self.prompts, self.calls = careless, [], ()

    async def __call__(self, prompt, answer, *, role="writer"):
        self.prompts.append(prompt)
        right = self.careless or self._right(prompt)
        reply = {"reason": "It is in the second sentence.", **right} if "reason" in answer.model_fields else right
        return parse_reply(f"Here is my answer.\n```json\n{json.dumps(reply)}\n```", answer)

    async def scored(self, prompt, answer, *, role="writer"):
        return await self(prompt, answer, role=role), None

    def _right(self, prompt):
        claims = {(j.intent_id, j.passage_id): j.relevance > 0 for j in self.topic.judgments}
        question = question_of(prompt, self.topic, self.topic.intents)
        claimed = [claims.get((question.intent.id, passage.id), False) for passage in question.passages]
        labels = [label for label, relevant in zip(LABELS, claimed, strict=False) if relevant]
        if prompt.task == "judges.scenario":
            return {"most_relevant": labels[0] if labels else "none"}
        if prompt.task == "judges.relevance":
            return {"relevant": claimed[0]}
        return {"relevant": "both" if len(labels) == 2 else labels[0] if labels else "neither"}


def judged(name, page, judge, **settings):
    recipe, made = CASES[name]
    kind, validator = VALIDATORS[name]
    judge.topic = topic_of(recipe, made, page)
    return asyncio.run(validator(kind.model_validate({**CANARIES, **settings}))(judge.topic, judge))


@pytest.mark.parametrize("rationale", [False, True])
@pytest.mark.parametrize(("name", "page"), [(name, page) for name in CASES for page in PAGES])
def test_a_strong_judge_keeps_a_good_topic(name, page, rationale):
    judge = Judge()
    topic, verdicts = judged(name, page, judge, rationale=rationale)
    assert {verdict.outcome for verdict in verdicts} == {"pass"}
    assert any(passage.role == "instruction_negative" for passage in topic.passages)
    reasons = [json.loads(verdict.evidence).get("reasons") for verdict in verdicts]
    assert all(reasons) is rationale
    assert all(prompt.sampling["temperature"] == 0 for prompt in judge.prompts)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(
    ("name", "answer", "reasons"),
    [
        ("judge_polarity", {"relevant": "A"}, {"order_decides"}),
        ("judge_polarity", {"relevant": "both"}, {"order_decides"}),
        ("judge_polarity", {"relevant": "neither"}, {"no_passage_named"}),
        ("judge_scenarios", {"most_relevant": "none"}, {"no_passage_named"}),
        ("judge_scenarios", {"most_relevant": "A"}, {"other_passage_named"}),
        ("judge_scenarios", {"most_relevant": "H"}, {"unreadable_judge"}),
        ("judge_relevance", {"relevant": True}, {"no_negative_left"}),
        ("judge_relevance", {"relevant": False}, {"positive_lost", "label_disputed"}),
        ("judge_relevance", {"relevant": "yes and no"}, {"unreadable_judge"}),
    ],
)
def test_a_careless_judge_accepts_nothing(name, answer, reasons, page):
    _, verdicts = judged(name, page, Judge(answer))
    rejected = {verdict.reason for verdict in verdicts if verdict.outcome == "reject"}
    assert rejected
    assert rejected <= reasons


ANSWERS = {"relevance": Relevance, "scenario": MostRelevant, "polarity": Relevant}


@pytest.mark.parametrize("rationale", [False, True])
@pytest.mark.parametrize("name", ANSWERS)
def test_the_examples_are_answers(name, rationale):
    template = load(f"judges/{name}")
    answer = getattr(judge_answers, f"Reasoned{ANSWERS[name].__name__}") if rationale else ANSWERS[name]
    assert _is_closed(schema_of(answer))
    for kind in ("text", "code", "mathematics"):
        known = {"kind": kind, "rationale": rationale, "shown": []}
        system = template.render(**{key: known.get(key, "x") for key in template.variables}).messages[0].content
        shown = [json.loads(line) for line in system.splitlines() if re.fullmatch(r'\{".*\}', line)]
        assert len(shown) == 2
        for example in shown:
            assert list(example) == list(schema_of(answer)["properties"])
            answer.model_validate(example)
