"""The judge of demands: what it asks, how its answers become P(relevant), and which labels of a topic then stand."""

import asyncio
import json
import math
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from foil.engine.errors import RefusedRequestError, UsageError
from foil.engine.model_traits import ModelTraits
from foil.engine.models.endpoints import HostedSettings
from foil.engine.models.hosted import Hosted
from foil.engine.protocols import Model
from foil.engine.requests import Reply
from foil.engine.topic import Passage
from foil.prompts.demands import dump_demands
from foil.prompts.judge_answers import TrueFalse
from foil.prompts.judge_logprobs import probability_of_yes
from foil.validators.judges.demands import JudgeDemands, JudgeDemandsSettings, questions_of
from tests.support.models.corrupt_judge import asker
from tests.support.models.fault_server import Behaviour, FaultServer
from tests.support.topics.judged_topics import (
    ASKED,
    BARE,
    DUAL,
    FAR,
    N1,
    N2,
    OBEYS,
    OFF_TOPIC,
    PLUS,
    TURNED,
    judged,
    promptriever,
    reasons,
    sound,
    topic,
    unproven,
)

SEA_QUESTION, GAS_QUESTION = "Which sea is meant?", "What does it burn?"
CHANCES = {SEA_QUESTION: "Red Sea", GAS_QUESTION: "gas", "answer the query": "floats on mercury"}
"""What is asked -> the words by which a passage answers it."""


def chance(prompt: str) -> float:
    """0.9 that a passage with the telling words answers, 0.1 for another."""
    passage, _, asked = prompt.partition("<query-")
    telling = next((words for question, words in CHANCES.items() if question in asked), "Red Sea")
    return 0.9 if telling in passage else 0.1


def answered(request, _choice):
    """What a model of one word says, with both spellings among its likeliest tokens."""
    true = chance(request["messages"][-1]["content"])
    likeliest = {"True": true * 0.7, " true": true * 0.2, "Yes": true * 0.1, "false": 1 - true}
    return "True" if true > 0.5 else "false", "length", likeliest


class Words(Model):
    """A judge of one word, with or without logprobs; keeps its requests."""

    name = "words"
    traits = ModelTraits(samples=True)

    def __init__(self, told=chance, logprobs=True, refuses=False) -> None:
        self.told, self.logprobs, self.refuses, self.sent = told, logprobs, refuses, []

    async def complete(self, request):
        self.sent.append(request)
        if self.refuses and "logprobs" in request.params:
            raise RefusedRequestError("logprobs are not supported")
        p = self.told(request.messages[-1].content)
        tokens = [{"token": word, "logprob": math.log(of or 1e-9)} for word, of in (("true", p), ("false", 1 - p))]
        content = [{**max(tokens, key=lambda each: each["logprob"]), "top_logprobs": tokens}]
        logprobs = {"content": content} if self.logprobs and "logprobs" in request.params else None
        return Reply(request.id, "true" if p > 0.5 else "false", logprobs=logprobs, cost_usd=0.001)


def demands(**options) -> JudgeDemands:
    return JudgeDemands(JudgeDemandsSettings(canaries={"share": 0}, **options))


def with_demands(one, *intents):
    """The topic with demand questions at its intents: the sea for ASKED, gas and no sea for the other view."""
    told = {ASKED.id: dump_demands([SEA_QUESTION]), TURNED.id: dump_demands([GAS_QUESTION], [SEA_QUESTION])}
    return replace(one, intents=tuple(
        replace(i, attributes={"demands": told[i.id]}) if i.id in told else i for i in one.intents
    ))  # fmt: skip


def test_each_question_is_asked_in_one_word_over_an_endpoint_and_its_logprobs_are_multiplied(tmp_path):
    async def ask_hosted():
        async with FaultServer(Behaviour(), answered) as server:
            model = Hosted(HostedSettings(kind="hosted", model="small", url=server.url))
            ask = asker(tmp_path, judge=model)
            after, verdicts = await demands()(with_demands(DUAL), ask)
            await model.close()
            return after, verdicts, ask.calls

    after, verdicts, calls = asyncio.run(ask_hosted())
    assert [v.outcome for v in verdicts] == ["pass"] * len(verdicts)
    scores = {(json.loads(v.evidence)["intent"], v.scope): v.score for v in verdicts}
    assert scores == {
        (ASKED.id, PLUS.id): 0.9, (ASKED.id, N1.id): 0.09, (TURNED.id, PLUS.id): 0.1, (TURNED.id, N1.id): 0.729,
        (BARE.id, N1.id): 0.9,
    }  # fmt: skip
    assert {j.judge for j in after.judgments} == {"seed", "judge:small"}
    assert {j.votes for j in after.judgments if j.judge == "judge:small"} == {(1,), (-1,)}
    assert {call.completion_tokens for call in calls} <= {1, 2}
    assert {call.fault for call in calls} == {""}, "a word that was cut at its limit is read"


def test_prompts_of_a_passage_share_all_that_stands_before_the_question_and_nothing_is_asked_twice(tmp_path):
    model = Words()
    judged(demands(), with_demands(DUAL), tmp_path, judge=model)
    for passage in (PLUS, N1):
        own = [r.messages[-1].content for r in model.sent if passage.text in r.messages[-1].content]
        heads = {text[: text.index("</query-")] for text in own}
        assert len(heads) == 1
        assert len(set(own)) == len(own) > 1
    assert {r.schema for r in model.sent} == {None}
    assert all(r.params["temperature"] == 0 and r.params["max_tokens"] <= 4 for r in model.sent)
    plus = [r for r in model.sent if PLUS.text in r.messages[-1].content]
    assert not any("answer the query" in r.messages[-1].content for r in plus), "the corpus says that it does"


def test_a_contradicted_label_leaves_the_matrix_with_a_reason_in_words(tmp_path):
    after, verdicts, _ = judged(demands(), with_demands(promptriever(OBEYS, N1, OFF_TOPIC)), tmp_path, judge=Words())
    fallen = [(v.scope, v.reason) for v in verdicts if v.outcome == "edit"]
    assert fallen == [(OFF_TOPIC.id, "positive_not_relevant"), (OBEYS.id, "negative_is_relevant")] or set(fallen) == {
        (OBEYS.id, "negative_is_relevant"), (OFF_TOPIC.id, "positive_not_relevant"),
    }  # fmt: skip
    cells = {(j.intent_id, j.passage_id): j.relevance for j in after.judgments}
    assert (ASKED.id, OBEYS.id) not in cells
    assert cells[BARE.id, OBEYS.id] == 1, "the other label of the passage stands"
    assert cells[ASKED.id, OFF_TOPIC.id] == -1
    assert sound(after)
    assert reasons(verdicts) == []
    [told] = [json.loads(v.evidence) for v in verdicts if v.reason == "negative_is_relevant"]
    assert told["why"] == "the label says not relevant; P(relevant) is 0.81"
    [[judge, why]] = told["reasons"]
    assert (judge, "answers the query: 0.90" in why, SEA_QUESTION in why) == ("judge", True, True)


def test_a_passage_without_a_label_and_an_intent_without_a_relevant_passage_go_too(tmp_path):
    other = Passage("A gas lamp of the Red Sea hung in our kitchen.", "generated_positive")
    asked = [(PLUS, 1), (N1, -1), (other, 1)]
    one = with_demands(topic((BARE, [(PLUS, 1), (FAR, -1)]), (ASKED, asked), (TURNED, [(OBEYS, 1)])))
    after, verdicts, _ = judged(demands(), one, tmp_path, judge=Words())
    assert {p.id for p in after.passages} == {PLUS.id, FAR.id, N1.id}
    assert {i.id for i in after.intents} == {BARE.id, ASKED.id}
    assert [v.scope for v in verdicts if v.reason == "no_positive_left"] == [TURNED.id]
    assert sound(after)


@pytest.mark.parametrize(
    ("negatives", "expected"),
    [([N1], []), ([N1, N2], []), ([OBEYS], ["no_contrast_left"]), ([OFF_TOPIC], ["no_contrast_left"])],
)
def test_a_topic_falls_only_where_no_instruction_parts_its_passages(tmp_path, negatives, expected):
    """A negative that obeys loses its label; one that does not answer the query contrasts nothing."""
    _, verdicts, _ = judged(demands(), with_demands(promptriever(*negatives)), tmp_path, judge=Words())
    assert reasons(verdicts) == expected


def test_one_view_of_two_is_enough(tmp_path):
    """The sea is said of both, so the first view is lost, and the second is not."""
    blind = Words(lambda prompt: 0.9 if SEA_QUESTION in prompt else chance(prompt))
    bare, asked, turned = with_demands(DUAL).intents
    gas = replace(turned, attributes={"demands": dump_demands([GAS_QUESTION])})
    one = replace(DUAL, intents=(bare, asked, gas))
    after, verdicts, _ = judged(demands(), one, tmp_path, judge=blind)
    assert reasons(verdicts) == []
    assert (ASKED.id, N1.id) not in {(j.intent_id, j.passage_id) for j in after.judgments}


def test_an_instruction_without_questions_is_asked_as_a_whole(tmp_path):
    model = Words()
    after, verdicts, _ = judged(demands(), unproven(promptriever(N1)), tmp_path, judge=model)
    assert reasons(verdicts, "edit", "reject") == []
    whole = [r for r in model.sent if ASKED.instruction in r.messages[-1].content]
    assert len(whole) == 2
    assert [(asked.words, asked.instruction) for asked in questions_of(ASKED)] == [
        ("answers the query", ""), ("is what the instruction asks for", ASKED.instruction),
    ]  # fmt: skip
    assert sound(after)


@pytest.mark.parametrize(("unsure", "left"), [("keep", 2), ("drop", 0)])
def test_labels_in_between_are_kept_or_dropped_by_a_setting(tmp_path, unsure, left):
    doubtful = Words(lambda prompt: 0.4 if SEA_QUESTION in prompt else 0.9)
    after, verdicts, _ = judged(demands(unsure=unsure), with_demands(promptriever(N1)), tmp_path, judge=doubtful)
    assert sum(j.intent_id == ASKED.id for j in after.judgments) == left
    assert reasons(verdicts, "edit") == ([*["label_unsure"] * 2, "no_positive_left"] if unsure == "drop" else [])
    assert reasons(verdicts) == (["no_contrast_left"] if unsure == "drop" else [])


def test_probabilities_count_from_what_is_neutral_to_the_model(tmp_path):
    """A model that says true of everything, more or less: from 0.7 on it means it."""
    model = Words(lambda prompt: 0.8 if chance(prompt) > 0.5 else 0.6)
    one = with_demands(promptriever(N1, OBEYS))
    _, verdicts, _ = judged(demands(), one, tmp_path, judge=model)
    assert reasons(verdicts, "edit") == ["negative_is_relevant"], "0.8 x 0.6 is in between"
    after, verdicts, _ = judged(demands(neutral=0.7, keep=0.35, drop=0.3), one, tmp_path, judge=model)
    assert {v.score for v in verdicts if v.scope == N1.id} == {0.6316, 0.2471}
    assert (ASKED.id, OBEYS.id) not in {(j.intent_id, j.passage_id) for j in after.judgments}


def test_a_demand_is_compared_among_the_passages_of_its_intent(tmp_path):
    """A model that says true of everything still says it more surely of the passage that answers."""

    def doubtful(prompt):
        return 0.9 if "floats" in prompt and SEA_QUESTION not in prompt else 0.88 if chance(prompt) > 0.5 else 0.6

    model = Words(doubtful)
    compared = demands(compare=True, drop=0.4, keep=0.6)
    after, verdicts, _ = judged(compared, with_demands(promptriever(N1)), tmp_path, judge=model)
    scores = {(json.loads(v.evidence)["intent"], v.scope): v.score for v in verdicts}
    odds = [math.log(0.88 / 0.12), math.log(0.6 / 0.4)]
    half = (odds[0] - odds[1]) / 2
    assert scores[ASKED.id, PLUS.id] == round(1 / (1 + math.exp(-half)), 4)
    assert scores[ASKED.id, N1.id] == round(1 / (1 + math.exp(half)), 4), "its 0.9 for the query is no factor"
    assert reasons(verdicts, "edit", "reject") == []
    assert len({r.messages[-1].content for r in model.sent}) == len(model.sent)
    assert sound(after)
    _, verdicts, _ = judged(demands(drop=0.4), with_demands(promptriever(N1)), tmp_path, judge=model)
    assert reasons(verdicts, "edit") == ["negative_is_relevant"]


@pytest.mark.parametrize("model", [Words(logprobs=False), Words(refuses=True)])
def test_without_logprobs_an_answer_counts_0_or_1(tmp_path, model):
    after, verdicts, _ = judged(demands(), with_demands(promptriever(N1)), tmp_path, judge=model)
    assert {v.score for v in verdicts} == {0.0, 1.0}
    assert reasons(verdicts, "edit", "reject") == []
    assert sound(after)


def test_a_reply_that_says_neither_leaves_the_label_in_doubt(tmp_path):
    class Mute(Words):
        async def complete(self, request):
            self.sent.append(request)
            return Reply(request.id, "I cannot tell.")

    _, verdicts, calls = judged(demands(unsure="drop"), with_demands(promptriever(N1)), tmp_path, judge=Mute())
    assert set(reasons(verdicts, "edit")) == {"unreadable_judge", "no_positive_left"}
    assert len(calls) == len({c.request_id for c in calls}), "no correction is paid for"
    after, verdicts, _ = judged(demands(), with_demands(promptriever(N1)), tmp_path, judge=Mute())
    assert {j.judge for j in after.judgments} == {"construction", "seed"}, "nobody has judged it"


def test_a_panel_takes_the_mean(tmp_path):
    sure, unsure = Words(), Words(lambda prompt: 0.5)
    sure.name, unsure.name = "sure", "unsure"
    _, verdicts, _ = judged(
        demands(judges=("judge", "judge2")), with_demands(promptriever(N1)), tmp_path, judge=sure, judge2=unsure
    )
    [score] = [v.score for v in verdicts if v.scope == PLUS.id]
    assert score == 0.7


def test_a_judge_of_demands_that_guesses_fails_its_canaries(tmp_path):
    validator = JudgeDemands(JudgeDemandsSettings(canaries={"share": 0.5, "at_least": 1}))
    _, verdicts, _ = judged(validator, promptriever(N1), tmp_path, judge=Words())
    assert [v.reason for v in verdicts if v.reason.startswith("canary")] != []


PUBLISHED = """=== user ===
Is the document relevant to the query? Use one word, true or false.
Query: {{ query }} {{ instruction }}
Document: {{ passage }}
Relevant:
"""


def test_a_published_template_is_asked_as_it_is_once_a_passage_and_without_a_system_turn(tmp_path):
    path = tmp_path / "published.j2"
    path.write_text(PUBLISHED)
    model = Words(lambda prompt: 0.8 if ("Red Sea" in prompt.partition("Document:")[2]) else 0.1)
    after, verdicts, _ = judged(demands(template=path), with_demands(promptriever(N1, OBEYS)), tmp_path, judge=model)
    assert {tuple(message.role for message in r.messages) for r in model.sent} == {("user",)}
    assert any(f"Query: {ASKED.query} {ASKED.instruction}" in r.messages[0].content for r in model.sent)
    assert ("negative_is_relevant", OBEYS.id) in {(v.reason, v.scope) for v in verdicts}
    assert sound(after)
    assert demands(template=path).fingerprint != demands().fingerprint


@pytest.mark.parametrize(
    "source", ["=== user ===\n{{ query }} {{ passage }} {{ secret }}", "=== user ===\n{{ query }}"]
)
def test_a_template_that_cannot_be_asked_is_refused(tmp_path, source):
    path = tmp_path / "own.j2"
    path.write_text(source)
    with pytest.raises(UsageError, match="names query and passage"):
        demands(template=path)


def test_drop_is_at_most_keep():
    with pytest.raises(ValidationError, match="drop is at most keep"):
        JudgeDemandsSettings(keep=0.3, drop=0.4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("True", True), (" false.", False), ("Is it false? Yes", True), ("truely", None), ("", None), ("NO", False)],
)
def test_a_word_is_read(text, expected):
    assert TrueFalse.read(text).answer is expected


def listed(chosen, **chances):
    tops = [{"token": token.replace("_", " "), "logprob": math.log(p)} for token, p in chances.items()]
    return {"content": [{"token": chosen, "logprob": math.log(chances[chosen]), "top_logprobs": tops}]}


@pytest.mark.parametrize(
    ("logprobs", "expected"),
    [
        (listed("true", true=0.6, false=0.2), 0.75), (listed("TRUE", TRUE=0.3, _true=0.3, Yes=0.1, no=0.3), 0.7),
        (listed("true", true=0.9), 1.0), (listed("The", The=0.5, true=0.3, false=0.1), 0.75),
        (listed("The", The=0.9), None), (None, None), ({"content": []}, None),
    ],
)  # fmt: skip
def test_a_word_that_is_not_listed_counts_nothing(logprobs, expected):
    assert probability_of_yes(logprobs) == (None if expected is None else pytest.approx(expected))


@settings(max_examples=40, deadline=None)
@given(
    labels=st.lists(st.sampled_from([-1, 0, 1]), min_size=6, max_size=6),
    chances=st.lists(st.sampled_from([0.02, 0.3, 0.6, 0.97]), min_size=9, max_size=9),
    unsure=st.sampled_from(["keep", "drop"]),
)
def test_what_is_left_is_sound_and_contradicts_no_answer(labels, chances, unsure):
    """Over any matrix and any answers: no label is turned round or added, none that stands is contradicted, ids fit,
    and the topic is rejected exactly where no instruction parts two passages that answer."""
    cells = dict(zip([(i.id, p.id) for i in (ASKED, TURNED) for p in (PLUS, N1, N2)], labels, strict=True))
    rows = [(i, [(p, cells[i.id, p.id]) for p in (PLUS, N1, N2) if cells[i.id, p.id]]) for i in (ASKED, TURNED)]
    one = with_demands(topic((BARE, [(PLUS, 1), (FAR, -1)]), *((i, row) for i, row in rows if row)))
    told = dict(zip([(p.text, q) for p in (PLUS, N1, N2) for q in CHANCES], chances, strict=True))

    def answer(prompt: str) -> float:
        passage = next(p for p in (PLUS, N1, N2) if p.text in prompt)
        question = next(q for q in (SEA_QUESTION, GAS_QUESTION, "answer the query") if q in prompt)
        return told[passage.text, question]

    def truth(intent, passage) -> float:
        query = 1.0 if passage is PLUS else told[passage.text, "answer the query"]
        sea, gas = told[passage.text, SEA_QUESTION], told[passage.text, GAS_QUESTION]
        return query * (sea if intent.id == ASKED.id else gas * (1 - sea))

    with TemporaryDirectory() as folder:
        after, verdicts, _ = judged(demands(unsure=unsure), one, Path(mkdtemp(dir=folder)), judge=Words(answer))
    before = {(j.intent_id, j.passage_id): j.relevance for j in one.judgments}
    left = {(j.intent_id, j.passage_id): j.relevance for j in after.judgments}
    assert left.items() <= before.items()
    assert {p.id for p in after.passages} == {passage for _, passage in left}
    assert {i.id for i in after.intents} == {intent for intent, _ in left}
    passages, parted = {p.id: p for p in (PLUS, N1, N2)}, False
    for intent in (ASKED, TURNED):
        own = [(passages[p], sign) for (i, p), sign in left.items() if i == intent.id]
        assert all(truth(intent, p) >= 0.2 if sign > 0 else truth(intent, p) < 0.5 for p, sign in own)
        signs = [sign for _, sign in own]
        assert not own or 1 in signs or all(sign < 0 for (i, _), sign in before.items() if i == intent.id)
        answering = [p is PLUS or told[p.text, "answer the query"] >= 0.2 for p, sign in own if sign < 0]
        parted |= 1 in signs and any(answering)
    instructed = any(i.id != BARE.id for i in one.intents)
    assert ("no_contrast_left" in reasons(verdicts)) is (instructed and not parted)
