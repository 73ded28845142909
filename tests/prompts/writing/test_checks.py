"""Checks of written texts: what each finds, and what its policy does to the reply and to the topic."""

import ast
import asyncio
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil import prompts
from foil.engine.answer_forms import WRITE_AGAIN
from foil.engine.errors import FaultyReply, Rejected
from foil.engine.flow.ask import SeedAsk
from foil.engine.flow.budget import Budget
from foil.engine.flow.journal import Journal
from foil.engine.flow.limits import BudgetSettings
from foil.engine.flow.reply_service import ReplyService
from foil.engine.model_traits import ModelTraits
from foil.engine.protocols import Model, Prompt
from foil.engine.requests import Message, Reply
from foil.engine.storage.opening import open_store
from foil.prompts.parse import parse_reply
from foil.prompts.writing.answers import WrittenText
from foil.prompts.writing.checks import (
    DEFAULTS,
    ECHO_WORDS,
    AnswerChecks,
    OnFail,
    Problem,
    Reason,
    ask_checked,
    denies,
    echo_of,
    figures_in,
    near_copy,
    reaches,
    text_problems,
)

RULES = "Write one text.\nExample\nThe old ferry leaves the northern pier at six each morning of the week.\n"
PROMPT = Prompt("t", "t@1", (Message("system", RULES), Message("user", "Query: how long does the ferry take")))


class Script(Model):
    """A model that says these texts one after the other, and keeps what it was sent."""

    name = "script"

    def __init__(self, *texts: str) -> None:
        self.traits, self.texts, self.sent = ModelTraits({}, samples=True), list(texts), []

    async def complete(self, request):
        self.sent.append(request)
        return Reply(request.id, self.texts.pop(0))


def told(text: WrittenText) -> list[Problem]:
    """A small check: what is long, and what names the query."""
    found = [Problem("too_long", f"{len(text.text)} letters", "Write four letters.")] if len(text.text) > 4 else []
    return found + [Problem("repeats_query", "it names it", "Leave it out.")] * ("q" in text.text)


def asked(folder, *texts, policy, mend=lambda text: text, corrections=1):
    """The answer or the rejection, the marks, what the calls say, and what the model was sent."""
    model, marks = Script(*texts), set()
    replies = ReplyService(Journal(open_store(folder)).open(0), Budget(BudgetSettings()), "me")
    ask = SeedAsk(replies, {"writer": model}, parse_reply, corrections=corrections)
    work = ask_checked(ask, PROMPT, WrittenText, AnswerChecks(mend, told, policy), role="writer", marks=marks)
    try:
        answer: object = asyncio.run(work).text
    except Rejected as error:
        answer = error
    return answer, marks, [(call.fault, call.salvaged) for call in ask.calls], model.sent


def test_correct_asks_again_and_rejects_after_the_last_turn(tmp_path):
    answer, marks, calls, sent = asked(tmp_path / "a", "longer", "good", policy={"too_long": "correct"})
    assert (answer, marks, calls) == ("good", set(), [("too_long: 6 letters", ""), ("", "")])
    assert "Write four letters." in sent[1].messages[-1].content
    answer, marks, calls, _ = asked(tmp_path / "b", "longer", "longest", policy={"too_long": "correct"})
    assert isinstance(answer, FaultyReply)
    assert (answer.reason, answer.detail, marks) == ("too_long", "7 letters", set())
    assert [fault for fault, _ in calls] == ["too_long: 6 letters", "too_long: 7 letters"]


def test_correct_or_mark_asks_again_and_takes_the_last_answer_with_a_mark(tmp_path):
    answer, marks, calls, sent = asked(tmp_path, "longer", "longest", policy={"too_long": "correct_or_mark"})
    assert (answer, marks, len(sent)) == ("longest", {"too_long"}, 2)
    assert [fault for fault, _ in calls] == ["too_long: 6 letters", "too_long: 7 letters"]
    answer, marks, _, _ = asked(tmp_path / "b", "longer", "good", policy={"too_long": "correct_or_mark"})
    assert (answer, marks) == ("good", set())


def test_a_writer_that_stands_by_its_text_is_taken_at_its_word_where_the_check_may_be_wrong(tmp_path):
    said = ("longer", "longer", "good")
    answer, marks, _, sent = asked(tmp_path, *said, policy={"too_long": "correct_or_mark"}, corrections=2)
    assert (answer, marks, len(sent)) == ("longer", {"too_long"}, 2)
    answer, marks, _, sent = asked(tmp_path / "b", *said, policy={"too_long": "correct"}, corrections=2)
    assert (answer, marks, len(sent)) == ("good", set(), 3)


def test_mark_takes_the_answer_at_once(tmp_path):
    answer, marks, calls, sent = asked(tmp_path, "longer", policy={"too_long": "mark"})
    assert (answer, marks, calls, len(sent)) == ("longer", {"too_long"}, [("", "")], 1)


def test_the_words_of_a_correction_are_no_answer(tmp_path):
    policy = {"too_long": "correct_or_mark"}
    answer, marks, calls, _ = asked(tmp_path, "longer", "write four letters: 4", "good", policy=policy, corrections=2)
    assert (answer, marks) == ("good", set())
    assert calls[1][0] == "echo: it repeats the correction 'Write four letters.'"
    answer, _, calls, _ = asked(tmp_path / "b", "longer", f"{WRITE_AGAIN} good", "good", policy=policy, corrections=2)
    assert answer == "good"
    assert calls[1][0] == f"echo: it repeats the correction {WRITE_AGAIN!r}"


def test_reject_ends_the_seed_at_once(tmp_path):
    answer, marks, calls, sent = asked(tmp_path, "longer", policy={"too_long": "reject"})
    assert isinstance(answer, Rejected)
    assert not isinstance(answer, FaultyReply)
    assert (answer.reason, marks, len(sent)) == ("too_long", set(), 1)
    assert [fault for fault, _ in calls] == ["too_long: 6 letters"]


def test_the_gravest_policy_decides_and_the_writer_is_told_everything_that_is_no_mark(tmp_path):
    both = {"too_long": "correct_or_mark", "repeats_query": "correct"}
    answer, marks, calls, sent = asked(tmp_path / "a", "queries", "no qs", "qi", policy=both, corrections=2)
    assert isinstance(answer, FaultyReply)
    assert answer.reason == "repeats_query"
    assert "Write four letters.\nLeave it out." in sent[1].messages[-1].content
    assert calls[0][0] == "repeats_query: it names it"
    ended = asked(tmp_path / "b", "queries", policy={"too_long": "correct", "repeats_query": "reject"})[0]
    assert ended.reason == "repeats_query"
    _, marks, _, sent = asked(tmp_path / "c", "queries", "qi", policy={"too_long": "correct"})  # a mark by default
    assert marks == {"repeats_query"}
    assert "Leave it out" not in sent[1].messages[-1].content


def test_what_can_be_mended_is_mended_first_and_the_call_says_so(tmp_path):
    cut = lambda text: WrittenText(text=text.text[:4])  # noqa: E731
    answer, marks, calls, sent = asked(tmp_path, "longer", policy={"too_long": "reject"}, mend=cut)
    assert (answer, marks, calls, len(sent)) == ("long", set(), [("", "text")], 1)


def test_every_problem_has_a_reason_with_a_default_and_every_reason_a_problem():
    """Problems of the source, by their first argument."""
    known = set()
    for path in Path(prompts.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Problem":
                assert isinstance(node.args[0], ast.Constant), (path, node.lineno)
                known.add(node.args[0].value)
    assert known == set(get_args(Reason)) == set(DEFAULTS)
    assert set(DEFAULTS.values()) <= set(get_args(OnFail))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty_text"),
        (" \n", "empty_text"),
        ("I'm sorry, but I can't help with that.", "refusal"),
        ("I cannot write this.", "refusal"),
        ("As an AI language model I have no opinion.", "refusal"),
        ("I apologize, but there is no passage for me to change.", "refusal"),
        ("Sure! Here is a passage about ferries.", "refusal"),
        ("Sure, please provide the text that is to be mended.", "refusal"),
        ("I'm sorry for any confusion, the text should have forty words.", "refusal"),
        ("Can dogs swim? It has 18 words. It has 40 words.", "speaks_of_task"),
        ("The passage does not mention a ferry.", "speaks_of_task"),
        ("I have prepared a news article about the ferry.", "speaks_of_task"),
        ("p2 = 1", "speaks_of_task"),
        ("Unlike P1, it goes by boat.", "speaks_of_task"),
        ("The first passage says nothing of prices.", "speaks_of_task"),
        ("Most of it is the same as in the original passage.", "speaks_of_task"),
        ("Tells: it goes by boat.", "speaks_of_task"),
        ("It goes by boat, as requested.", "speaks_of_task"),
        ("At dawn the old ferry leaves the northern pier at six each morning.", "echo"),
    ],
)
def test_problems_of_any_text(text, reason):
    assert [p.reason for p in text_problems(text, PROMPT)] == [reason]


@pytest.mark.parametrize(
    "text",
    [
        "The crossing takes half an hour.",
        "I am sorry for the captain.",
        "Please provide the text of the treaty.",
        "A line of it has many words.",
        "A passage through the ice.",
        "I cannot eat gluten, so only bread without it is of use.",
        "Unfortunately, the ferry was late.",
    ],
)
def test_texts_without_a_problem(text):
    assert list(text_problems(text, PROMPT)) == []


def test_an_echo_is_a_run_of_the_rules_or_the_example_that_the_material_does_not_have():
    run = "the old ferry leaves the northern pier at"
    assert len(run.split()) == ECHO_WORDS
    assert echo_of(f"Note: {run.upper()}, all right", PROMPT) == run
    assert echo_of("the old ferry leaves the northern pier", PROMPT) == ""
    assert echo_of(f"{run} six", PROMPT, 16) == ""
    own = Prompt("t", "t@1", (PROMPT.messages[0], Message("user", f"P1:\nSee: {run} six")))
    assert echo_of(run, own) == ""
    example = (Message("user", "P1:"), Message("assistant", run), Message("user", "P1: another"))
    assert echo_of(run, Prompt("t", "t@1", example)) == run


P1 = "A ferry crosses the bay in half an hour with cars, mail and sheep; in winter it lies at the pier for weeks."


def test_a_near_copy_shares_most_of_its_runs_of_three_words():
    assert near_copy(P1 + " That is all there is.", ["Nothing", P1]) == P1
    assert near_copy(P1, ["The boat needs thirty minutes. " * 8]) == ""
    half = " ".join(P1.split()[:12]) + " while the captain sings to twenty bored passengers from the rainy south coast."
    assert near_copy(half, [P1]) == ""


def test_short_texts_are_copies_only_where_all_words_are_the_same():
    assert near_copy("By boat, twice.", ["by boat twice"]) == "by boat twice"
    assert near_copy("By boat, three times.", ["by boat twice"]) == ""


@given(st.lists(st.sampled_from(["a", "bay", "car", "ferry", "in", "pier", "the"]), min_size=1, max_size=60))
def test_a_text_is_a_copy_of_itself_and_of_no_empty_list(words):
    text = " ".join(words)
    assert near_copy(text, [text]) == text
    assert near_copy(text, []) == ""


@pytest.mark.parametrize(
    ("text", "answer", "reached"),
    [
        ("So it is 72 km/h.", "72", True),
        ("It takes 1,200 steps.", "1200", True),
        ("72 is first.\nThen 73.", "72", False),
        ("It is 72.\nThat is all.", "72", True),
        ("It is 72.0.", "72", True),
        ("It is 7.", "72", False),
        ("It is 1/2.", "1/2", True),
        ("It is -3.", "-3", True),
        ("There is none.", "4", False),
        ("So f(x) = x^2 + C", "x^2 + C", True),
        ("x^2 + C" + " and more" * 40, "x^2 + C", False),
    ],
)
def test_a_solution_reaches_its_result_in_the_last_line_with_a_number(text, answer, reached):
    assert reaches(text, answer) is reached


def test_figures_and_denials():
    assert figures_in("35 minutes, 1,200 people, 2.5 km") == {"35", "1200", "2.5"}
    assert figures_in("an MP3 of 10-20 s at -5 degrees, $3") == {"10", "20", "-5", "3"}
    assert figures_in("two SR-71 of the mid-1960s, x-5") == {"1960", "5"}
    assert figures_in("COST = 498_888  # dollars") == {"498888"}
    assert all(map(denies, ("No children.", "I don't want it.", "Anything but prose.", "It must not be long.")))
    assert not any(map(denies, ("For children.", "I know notes.", "It is long.")))
