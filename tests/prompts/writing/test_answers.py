"""Texts freed of what models put around them, and texts that have nothing around them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.prompts.writing.answers import without_fence, without_wrapping
from foil.prompts.writing.examples import examples_of

PLAIN = [
    "Find pages that say how long the crossing takes. Prices do not matter.",
    'He called it "a small miracle" and left.',
    "Here is where the river bends.\nIt bends twice.",
    "The passage of the Drake: a story of ice.",
    "Sure-footed mules carry it down.",
]


@pytest.mark.parametrize("text", PLAIN)
def test_a_plain_text_comes_back_as_it_is(text):
    assert without_wrapping(text) == text
    assert without_fence(text) == text


@pytest.mark.parametrize("kind", ["text", "mathematics"])
def test_texts_of_the_examples_come_back_as_they_are(kind):
    for example in examples_of(kind):
        for text in (example.query, example.p1_minus, example.p2_minus, *example.i_plus.values(), example.q_minus):
            assert without_wrapping(text) == text.strip(), example.id


def test_programs_of_the_examples_come_back_as_they_are():
    for example in examples_of("code"):
        for text in (example.p_plus, example.p1_minus, example.p2_minus):
            assert without_fence(text) == text.strip("\n"), example.id


@pytest.mark.parametrize("text", PLAIN)
@pytest.mark.parametrize(
    "around",
    [
        "```\n{}\n```",
        "```text\n{}\n```\nI hope this helps.",
        "Sure, here it is:\n\n{}",
        "Here is the instruction:\n{}",
        "Here's the passage you asked for:\n\n{}",
        "**Instruction:** {}",
        "Instruction: {}",
        "The new query: {}",
        "# Title\n\n{}",
        "Certainly!\n\nPassage:\n{}",
        "{}\n\nQuery: another one\nIt must answer: nothing.",
        "  {}\n ",
    ],
)
def test_what_stands_around_a_text_goes(text, around):
    assert without_wrapping(around.format(text)) == text


@pytest.mark.parametrize("quotes", ['"{}"', "“{}”", "'{}'"])
def test_quotation_marks_around_the_whole_go(quotes):
    assert without_wrapping(quotes.format("how long is the crossing")) == "how long is the crossing"


def test_of_several_blocks_of_code_the_longest_is_the_program():
    assert (
        without_fence("Run\n```sh\npip\n```\nand\n```python\ndef f():\n    return 1\n```\n") == "def f():\n    return 1"
    )
    assert without_fence("```c++\nint x;\n```") == "int x;"


def test_a_label_alone_is_no_text_and_stays():
    assert without_wrapping("Instruction:") == "Instruction:"
    assert without_wrapping("") == ""


# Words that open no label, in sentences that end: nothing stands around them.
WORDS = st.lists(st.sampled_from(["ferry", "pier", "nine", "boats", "sail", "salt", "because", "never"]), min_size=1)
SENTENCES = st.lists(WORDS.map(lambda words: " ".join(words).capitalize() + "."), min_size=1, max_size=8)


@given(SENTENCES, st.sampled_from([" ", "\n", "\n\n"]))
def test_sentences_come_back_as_they_are(sentences, between):
    text = between.join(sentences)
    assert without_wrapping(text) == without_fence(text) == text


@given(st.text(max_size=400))
def test_any_text_is_cut_to_a_part_of_itself_and_then_stays(text):
    bare = without_wrapping(text)
    assert bare in text
    assert bare == bare.strip()
    again = without_wrapping(bare)
    assert again in bare
    assert without_fence(text) in text


@given(st.integers(1, 20_000), st.sampled_from(["```\n", "Here is: ", "Sure\n", '"', "Query: x\n", "# \n"]))
def test_hostile_texts_end(count, piece):
    assert len(without_wrapping(piece * count)) <= len(piece) * count
    assert re.fullmatch(r"(?s).*", without_fence(piece * min(count, 500)))
