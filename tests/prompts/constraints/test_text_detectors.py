"""Detectors of text: whole words, whole numbers, written calculations."""

import pytest

from prompts.constraints.constraint import Constraint
from tests.support.topics.sample_seeds import passage


def test_a_mention_is_a_whole_word_in_any_case_across_lines_bare_or_plural():
    text = passage("The Black\n rhino charges; its cartoons amuse.")
    assert Constraint("mentions", "black rhino").holds(text)
    assert Constraint("mentions", "cartoon").holds(text)
    assert not Constraint("mentions", "car").holds(text)
    assert not Constraint("mentions", "toon").holds(text)
    assert not Constraint("names", "black").holds(text)
    assert Constraint("names", "Black").holds(text)


def test_numbers_match_as_wholes():
    text = passage("It costs 1,400 or 3.5, not 48,000; in 2004 there were 12.")
    assert [n for n in ("1,400", "3.5", "48,000", "2004", "12") if Constraint("number", n).holds(text)] == [
        "1,400", "3.5", "48,000", "2004", "12",
    ]  # fmt: skip
    assert not any(Constraint("number", n).holds(text) for n in ("400", "48", "3", "5", "20", "1"))
    assert Constraint("year", "2004").holds(text)
    assert not Constraint("year", "1400").holds(text)


def test_written_calculations_are_seen_with_any_minus_sign_and_with_units():
    for line in ("97 – 12 = 85", "97 − 12 = 85", "50 pounds - 16 pounds = 34 pounds", "$97-$12=$85"):
        assert Constraint("arithmetic").holds(passage(line)), line
        assert Constraint("operation", "subtraction").holds(passage(line)), line
    assert Constraint("operation", "addition").holds(passage("20 pounds + 10 pounds = 30 pounds"))
    assert not Constraint("arithmetic").holds(passage("There are 12 pears."))


@pytest.mark.parametrize(
    ("family", "value", "shown", "false_friend"),
    [
        ("measure", "temperature", "It is 26° in July.", "It lies at 26°15′24″N 97°49′36″W."),
        ("quotation", "", 'She said: "I have never seen a bigger one here."', "Also known as “liver spots”."),
        ("purpose", "", "The horn is used to treat fever.", "The horn is used as a handle."),
        ("caveat", "", "All rhinos, except in Namibia, keep their horn.", "They sleep unless it rains."),
        ("attribution", "", "According to a study, they sleep.", "They are sorted according to size."),
    ],
)
def test_false_friends_that_readers_found_are_told_apart(family, value, shown, false_friend):
    assert Constraint(family, value).holds(passage(shown))
    assert not Constraint(family, value).holds(passage(false_friend))


def test_a_denial_needs_a_text_without_anything_like_it():
    assert not Constraint("reason", negated=True).is_clear(passage("Cold feet are a sign of poor circulation."))
    assert Constraint("reason", negated=True).is_clear(passage("The village lies on the river."))
