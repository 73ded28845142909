"""The stages of a contrast: what each asks, what it mends, and what it refuses."""

import asyncio
import json
from collections import Counter
from dataclasses import replace

import pytest

from foil.engine.errors import FaultyReply, Rejected
from foil.engine.protocols import Prompt
from foil.engine.requests import Message
from foil.prompts.constraints.instructions import LENGTHS, STYLES
from foil.prompts.demands import Demands, dump_demands
from foil.prompts.parse import parse_reply
from foil.prompts.writing.answers import Questions
from foil.prompts.writing.contrast import (
    MANNERS,
    ContrastWriter,
    GridCell,
    PassageTask,
    cell_of,
    contrast_of,
    length_of,
)
from foil.prompts.writing.contrast_checks import instruction_problems, mended_questions
from foil.prompts.writing.examples import WORDS
from foil.prompts.writing.frames import framed
from foil.prompts.writing.material import writing_material
from tests.support.commands import foil, hosted_job
from tests.support.models.character import Character, without_fences
from tests.support.models.fault_server import serving
from tests.support.small_parts import topics
from tests.support.topics.sample_seeds import SEEDS
from tests.support.topics.trades import trade_seeds

SEED = trade_seeds()[0]
PROSE = (
    "Slate from that town is split while the frost is still in the stone, one wedge at a time, by whoever has hands. "
)
NO_EXAMPLE = Prompt("t", "t@1", (Message("system", "Rules."), Message("user", "Query")))
SOLUTION = "def second(values):\n    return sorted(values)"


class Says:
    """An `ask` that says one thing, and keeps the prompts; nothing is corrected, a usable answer is taken."""

    calls = ()

    def __init__(self, text: str) -> None:
        self.text, self.prompts = text, []

    async def __call__(self, prompt, answer, *, role="writer", check=None):
        self.prompts.append(prompt)
        try:
            return check(parse_reply(self.text, answer))
        except FaultyReply as fault:
            if fault.usable is None:
                raise
            return fault.usable


def writer(text, seed=SEED, policy=None):
    ask = Says(text)
    return ContrastWriter(writing_material(seed, passage_chars=2_000), ask, policy or {}), ask


def said(work, text, seed=SEED, policy=None):
    """What a stage makes of a reply, or the code by which it refuses it, and the marks."""
    made, _ = writer(text, seed, policy)
    try:
        return asyncio.run(work(made)), made.marks
    except FaultyReply as fault:
        return fault.reason, made.marks


def test_cells_are_balanced_over_numbers():
    cells = Counter(cell_of(number) for number in range(1_600))
    assert cells == dict.fromkeys([GridCell(length, style) for length in LENGTHS for style in STYLES], 100)
    assert cell_of(5, ["long"], ["plain"]) == GridCell("long", "plain")


@pytest.mark.parametrize("length", WORDS)
def test_an_instruction_of_the_words_asked_for_is_in_the_cell_asked_for(length):
    for share in (0.9, 1.0, 1.1):
        assert length_of("word " * round(WORDS[length] * share)) == length


def test_demands_come_from_what_is_answered_and_bans_from_the_other_list():
    material, asked = writing_material(SEED, passage_chars=2_000), Questions(answered=("a?", "b?"), open=("c?", "d?"))
    wanted, other = contrast_of(asked, material, GridCell("short", "plain"))
    assert (wanted, other) == (Demands(("a?",)), Demands(("c?",)))
    wanted, other = contrast_of(asked, material, GridCell("short", "negation"))
    assert (wanted, other) == (Demands(("a?",), ("c?",)), Demands(("c?",), ("a?",)))
    counts = set()
    for seed in trade_seeds():
        wanted, _ = contrast_of(asked, writing_material(seed, passage_chars=2_000), GridCell("medium", "plain"))
        counts.add(len(wanted.demands))
    assert counts == {1, 2}
    assert json.loads(dump_demands(("a?",), ("c?",))) == {"demands": ["a?"], "bans": ["c?"]}


def test_lists_lose_the_query_repetitions_and_what_is_no_question():
    reply = Questions(
        answered=("What  does it cost?", "what does it COST?", "How is it done?", "Why", "The price", "Who pays it."),
        open=("Who pays it?", "One? " * 30, "Where is it sold?", "Who sells it?", "Who buys it?", "Who likes it?"),
    )
    mended = mended_questions(reply, query="How is it done?", noun="program", prompt=NO_EXAMPLE)
    assert mended.answered == ("What does it cost?", "Who pays it?")
    assert mended.open == ("Where is it sold?", "Who sells it?", "Who buys it?")
    reply = Questions(
        answered=("What does this program do?", "Is the solution correct for all inputs?"),
        open=("When should strawberries be washed?", "Who eats it?"),
    )
    mended = mended_questions(reply, query="when should you wash strawberries", noun="program", prompt=NO_EXAMPLE)
    assert (mended.answered, mended.open) == ((), ("Who eats it?",))


def test_a_list_that_is_mended_stays():
    reply = Questions(answered=("What does it cost?", "Who pays it?"), open=("Where is it sold?",))
    assert mended_questions(reply, query="How is it done?", noun="program", prompt=NO_EXAMPLE) == reply


@pytest.mark.parametrize("bans", [(), ("Who learns the trade there?",)])
def test_a_writer_that_has_nothing_to_rule_out_is_not_asked_to(bans):
    made, ask = writer("Tell me what a slate costs, since I have a roof to mend and little money.")
    asyncio.run(made.instruction(Demands(("What does a slate cost?",), bans), GridCell("short", "negation")))
    (prompt,) = ask.prompts
    example, asked = prompt.messages[1].content, prompt.messages[-1].content
    for text in (example, asked):
        assert ("Not wanted:" in text) == (MANNERS["negation"] in text) == bool(bans)


@pytest.mark.parametrize(
    ("reply", "due"),
    [
        ({"answered": ["What does a slate cost?"], "open": ["Who learns the trade there?"]}, ""),
        ({"answered": [], "open": ["Who learns the trade there?"]}, ""),
        ({"answered": ["What does it cost?"], "open": [SEED.query, "what does it cost?"]}, "no_questions"),
    ],
)
def test_questions_of_a_passage(reply, due):
    made, _ = said(lambda w: w.questions(SEED.positives[0]), json.dumps(reply))
    assert (made if due else made.model_dump(mode="json")) == (due or reply)


@pytest.mark.parametrize(
    ("answered", "left", "due"),
    [
        (["Who learns the trade there?"], [], ""),
        ([], ["Who learns the trade there?"], ""),
        ([], [], "no_questions"),
        (["Who learns the trade there?"], ["The price"], "no_questions"),
    ],
)
def test_of_a_pair_one_passage_may_tell_nothing_that_the_other_lacks(answered, left, due):
    reply = {"answered": answered, "open": left}
    made, _ = said(lambda w: w.questions(SEED.positives[0], SEED.negatives[0]), json.dumps(reply))
    assert (made if due else made.model_dump(mode="json")) == (due or reply)


class _OneList(Character):
    """Lists what the text answers, and only when it is corrected what the text leaves open, and then that alone."""

    def __call__(self, request, choice):
        text, reason = super().__call__(request, choice)
        is_corrected = '"open" needs' in request["messages"][-1]["content"]
        if text.startswith('{"answered"'):
            lists = json.loads(text)
            text = json.dumps({"open": lists["open"]} if is_corrected else {"answered": lists["answered"]})
        return text, reason


def test_the_list_that_a_correction_leaves_out_is_as_it_was(tmp_path):
    """As a real small model does; else all instructions would ask for nothing, and only ban."""
    texts = []
    for character in (Character(), _OneList()):
        with serving(answer=character) as server:
            folder = tmp_path / type(character).__name__
            folder.mkdir()
            job = hosted_job(folder, server.url, 6)
            assert foil("run", job).returncode == 0
            texts.append([[intent.attributes for intent in topic.intents] for topic in topics(folder / "out")])
            turns = [call.turn for topic in topics(folder / "out") for call in topic.calls]
    assert texts[0] == texts[1]
    assert "correction" in turns


@pytest.mark.parametrize("frames", [True, False])
def test_an_instruction_that_only_bans_is_put_together_where_frames_may_stand_in(frames):
    ask = Says("I want all that tells me what it costs, and who pays for it, as briefly as can be.")
    made = ContrastWriter(writing_material(SEED, passage_chars=2_000), ask, {}, frames=frames)
    written = asyncio.run(made.instruction(Demands((), ("What does it cost?",)), cell_of(0)))
    assert ("what does it cost?" in written) == frames == (not ask.prompts)
    assert ("framed_instruction" in made.marks) == frames


DEMANDS = Demands(("Who learns the trade?",), ("What does it cost?",))
GOOD = "I teach children and look for anything that says who learns this trade, and from whom they learn it."


@pytest.mark.parametrize(
    ("text", "due", "marks"),
    [
        (GOOD, GOOD, set()),
        (
            "The price is 40 coins, and whoever learns this trade pays it back within a few years.",
            "answers_question",
            set(),
        ),
        (
            "Sure, whoever learns this trade learns it from an uncle, and it takes three years.",
            "answers_question",
            set(),
        ),
        (f"Yes, I know the price. {GOOD}", "answers_question", set()),
        (f"Absolutely! {GOOD}", "answers_question", set()),
        (
            "The trade is learnt from an uncle who knows it. It takes three years, and an apprentice pays nothing.",
            "answers_question",
            set(),
        ),
        ("The trade is learnt somewhere. Texts that say who learns it there are what I am after.", ..., set()),
        ("No text is of use that only says who learns the trade and from whom.", ..., set()),
        ("Texts that leave open whether the question is one for the uncle or for whoever learns it.", ..., set()),
        ("It's for my nephew, so name whoever learns the trade, and the price.", ..., set()),
        ("For our talk with the guild: give the name of whoever learns it.", ..., set()),
        ("For a first program about it, state whoever learns the trade.", ..., set()),
        (f'"{GOOD}"', GOOD, set()),
        (f"Instruction: {GOOD}\n\nQuery: another", GOOD, set()),
        ("Who learns the trade.", "too_short", set()),
        (f"Questions: Who learns it? Manner: a plain demand. {GOOD}", "speaks_of_task", set()),
        (GOOD * 18, "too_long", {"other_length"}),
        ("Bring me whatever seems worthy of attention, and plenty of it.", ..., {"ignores_demand"}),
        (f"{SEED.query} {GOOD}", ..., {"repeats_query", "other_length"}),
        (f"{GOOD} {GOOD.replace('I ', 'We ')} " * 3, ..., {"other_length"}),
        ("", "empty_text", set()),
    ],
)
def test_an_instruction(text, due, marks):
    made, found = said(lambda w: w.instruction(DEMANDS, GridCell("brief", "plain")), text)
    if due is not ...:
        assert made == due
    if due not in ("too_short", "too_long", "empty_text", "answers_question", "speaks_of_task"):
        assert found == marks


@pytest.mark.parametrize(("length", "due"), [("brief", "Tell me who learns it there."), ("medium", "too_short")])
def test_a_line_is_enough_where_a_line_was_asked_for(length, due):
    assert said(lambda w: w.instruction(DEMANDS, GridCell(length, "plain")), "Tell me who learns it there.")[0] == due


def test_the_second_instruction_may_not_be_the_first():
    for again in (GOOD, GOOD.replace("anything", "all")):
        made, _ = said(lambda w, a=again: w.instruction(DEMANDS, GridCell("short", "plain"), unlike=a), GOOD)
        assert made == "same_instruction"
    other = "Only texts about the price that buyers pay are of any use, since my children will open a shop."
    assert said(lambda w: w.instruction(DEMANDS, GridCell("short", "plain"), unlike=other), GOOD)[0] == GOOD


@pytest.mark.parametrize(
    ("bans", "other", "text"),
    [
        ((), "Show what speaks for learning the trade there.", "Show what speaks against learning the trade there."),
        (
            ("Which tools lie there?",),
            "Say which tools it takes, not who learns it.",
            "Say who learns it, not which tools it takes.",
        ),
    ],
)
def test_two_instructions_of_the_same_words_may_take_two_sides(bans, other, text):
    demands = Demands(("Who learns it, and what speaks against it?",), bans)
    for unlike, due in ((other, text), (text, "same_instruction")):
        assert said(lambda w, u=unlike: w.instruction(demands, GridCell("brief", "plain"), unlike=u), text)[0] == due


def test_two_instructions_may_differ_in_their_demands_alone():
    frame = "I collect what old people remember, for our museum. Of use are texts that also say {}. Spare me pictures."
    other = frame.format("which tools lie on each bench and how much wood is kept")
    text = frame.format("who learns the trade")
    assert said(lambda w: w.instruction(DEMANDS, GridCell("short", "plain"), unlike=other), text)[0] == text
    assert said(lambda w: w.instruction(DEMANDS, GridCell("short", "plain"), unlike=f"{text} Bring many."), text)[
        0
    ] == ("same_instruction")


def test_the_writer_of_an_instruction_sees_questions_and_no_passage():
    made, ask = writer(GOOD)
    asyncio.run(made.instruction(DEMANDS, GridCell("medium", "persona")))
    [prompt] = ask.prompts
    user = without_fences(prompt.messages[-1].content)
    assert SEED.positives[0].text[:60] not in user
    assert "Questions: Who learns the trade?\nNot wanted: What does it cost?\n" in user
    assert user.endswith("Manner: first who is asking, then the demand\nLength: about 84 words")


def passage_of(text, task=None, others=(), seed=SEED, policy=None):
    task = task or PassageTask("instruction_negative", seed.query, ("Who learns the trade?",), ())
    return said(lambda w: w.passage(task, list(others)), text, seed, policy)


def test_a_passage_has_its_role_and_its_title():
    made, marks = passage_of(f"Of frost\n\n{PROSE * 3}")
    assert (made.role, made.title, made.text, marks) == ("instruction_negative", "Of frost", (PROSE * 3).strip(), set())
    untitled, _ = passage_of(f"{PROSE * 2}\n\n{PROSE}")
    assert untitled.title == ""
    assert untitled.text.startswith(PROSE.strip())
    bare = replace(SEED, positives=tuple(replace(p, title="") for p in SEED.positives))
    assert passage_of(f"Of frost\n\n{PROSE * 3}", seed=bare)[0].title == ""


@pytest.mark.parametrize(
    ("text", "due"),
    [
        (SEED.positives[0].text, "same_passage"),
        (SEED.negatives[0].text.upper(), "same_passage"),
        (SEED.positives[0].text + " That is all there is to say.", "near_copy"),
        (PROSE, "wrong_length"),
        (PROSE * 12, "wrong_length"),
        ("I'm sorry, but I cannot help with that.", "refusal"),
        (f"P2 says it. {PROSE * 3}", "speaks_of_task"),
    ],
)
def test_a_passage_that_is_none_is_named(text, due):
    made, marks = passage_of(text)
    assert due == made or due in marks


def test_a_passage_is_no_copy_of_another_of_its_topic():
    first, _ = passage_of(PROSE * 3)
    assert passage_of(PROSE * 3, others=[first])[0] == "same_passage"
    assert passage_of(PROSE * 3 + "So it is.", others=[first])[0] == "near_copy"


def test_a_program_is_freed_of_its_fence_and_must_parse():
    seed = SEEDS["leetcode"]
    language = seed.positives[0].attributes["language"]
    made, _ = passage_of(f"Here it is:\n```python\n{SOLUTION}\n```\nIt sorts.", seed=seed)
    assert (made.text, made.attributes["language"]) == (SOLUTION, language)
    assert passage_of("Sort the values and return them.", seed=seed)[0] == "not_code"
    made, marks = passage_of("Sort the values and return them.", seed=seed, policy={"not_code": "mark"})
    assert (made.text, marks) == ("Sort the values and return them.", {"not_code"})


def test_a_solution_must_end_with_the_result_of_its_own_problem():
    seed = replace(SEEDS["metamath"], attributes={"answer": "72"})
    task = PassageTask("instruction_negative", seed.query, (), ())
    assert passage_of("Otherwise put, half of 145 is not it.\nIt is 71.", task, seed=seed)[0] == "wrong_answer"
    assert passage_of("Otherwise put, half of 144.\nIt is 72.", task, seed=seed)[0].text.endswith("72.")
    elsewhere = replace(task, role="query_negative", query="What is 70 plus 1?")
    assert passage_of("Seventy and one.\nIt is 71.", elsewhere, seed=seed)[0].text.endswith("71.")


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("How is slate split in Ostrander?", "How is slate split in Ostrander?"),
        ('Other query: "How is slate split in Ostrander?"\nIt stays near.', "How is slate split in Ostrander?"),
        ("import duties on slate from Ostrander", "import duties on slate from Ostrander"),
        ("class action: who may join one?", "class action: who may join one?"),
        (SEED.query.upper(), "same_query"),
        ("how is it done " * 15, "too_long"),
    ],
)
def test_another_query(text, due):
    assert said(lambda w: w.other_query(GOOD), text)[0] == due


def test_a_query_of_several_lines_holds_no_program():
    seed = SEEDS["leetcode"]
    program = "Reverse the list.\n\nclass Solution:\n    def reverse(self, found):\n        return found[::-1]"
    assert (
        said(lambda w: w.other_query(GOOD), program, seed=replace(seed, query="Sort it.\n\nInput: 3"))[0]
        == "not_a_query"
    )


def test_an_instruction_that_no_turn_brought_is_put_together_from_its_questions_and_marked():
    material, says = writing_material(SEED, passage_chars=2_000), Says("It is learnt from an uncle.")
    made = ContrastWriter(material, says, {}, frames=True)
    text = asyncio.run(made.instruction(DEMANDS, GridCell("medium", "plain")))
    assert all(question[1:] in text for question in (*DEMANDS.demands, *DEMANDS.bans))
    assert made.marks == {"framed_instruction", "other_length"}
    assert list(instruction_problems(text, SEED.query, DEMANDS, "")) == []
    refusing = ContrastWriter(material, says, {"too_short": "reject"}, frames=True)
    with pytest.raises(Rejected, match="too_short"):
        asyncio.run(refusing.instruction(DEMANDS, GridCell("medium", "plain")))


@pytest.mark.parametrize("number", range(6))
def test_frames_ask_for_the_demands_and_exclude_the_bans(number):
    both = Demands(("What does it cost?", "Lily sells how many?"), ("Who learns it?",))
    text = framed(both, "text", number)
    assert text.index("what does it cost? And: Lily sells how many?") < text.index("who learns it?")
    assert text.count("?") == 3
    only = framed(Demands((), ("Who learns it?",)), "text", number)
    assert only == text[text.index("many?") + 6 :]
    code = framed(Demands(("Does it sort in place?",), ("Is it recursive?",)), "code", number)
    assert "yes" in code or "true" in code
    assert code.count(":") == 2
    assert framed(Demands(("Does it pay?",)), "text", number) != framed(Demands(("Does it pay?",)), "code", number)
    assert "yes" not in framed(Demands(("Is it iterative or recursive?",)), "code", number)
    assert len(framed(Demands(("Is it so?",)), "text", number).split()) >= 8
