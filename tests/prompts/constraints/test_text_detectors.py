"""Detectors of text: whole words, whole numbers, written calculations."""

import pytest

from foil.prompts.constraints.constraint import Constraint, surely_broken
from foil.prompts.constraints.families import FAMILIES
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


@pytest.mark.parametrize(
    ("family", "text", "shown"),
    [
        ("year", "The pier was built in 1911.", True),
        ("year", "Answered by Ines on November 5, 2014", False),
        ("reader", "You may board at noon. Bring your coat.", True),
        ("reader", "It depends on where you live.", False),
        ("example", "Bring warm clothes, for example a coat.", True),
        ("example", "Boats such as dinghies lie here.", False),
        ("complexity", "The search runs in O(log n).", True),
        ("complexity", "The error is of order O(h^2).", False),
        ("missing_values", "Skips rows whose NaN values are many.", True),
        ("missing_values", "It tests the null hypothesis of the sample.", False),
    ],
)
def test_what_only_looks_like_it_is_no_witness(family, text, shown):
    assert (Constraint(family).find_witness(passage(text)) >= 0) is shown


ASTERISK, CROSS = ("times_sign", "asterisk"), ("times_sign", "cross")
FRACTION, DOLLAR, ORDER = ("fraction", ""), ("dollar_sign", ""), ("order_words", "")
JOINED = ("joined", "")


@pytest.mark.parametrize(
    ("constraint", "lines"),
    [
        (ASTERISK, ["3 * 4 = 12", "3*4=12", "20% * $50 = $10", "(2+3) * 4 = 20", "$3 * 2", "5 *$4 = $20"]),
        (CROSS, ["3 x 4 = 12", "3x4=12", "20% x $50 = $10", "(2+3) x 4 = 20", "3 × 4 = 12", "5 ×$4 = $20"]),
        (FRACTION, ["3/4 * 20 = 15", "He eats 1/2 of it", "1/3 of 9 is 3", "(2/5)*10=4", "that is 5/6.", "4/7 left"]),
        (DOLLAR, ["It costs $5.", "$ 12 + $3", "He has $0.50", "$1,200 a year", "5*$4=$20", "She earns $20/hour"]),
        (JOINED, ["46+36+40 = 122", "3 * (16.50 + 22.50 + 42) = $243", "It is 50 - 10 x 2 = 30.", "$7 + $3 – $1=$9"]),
        (ORDER, [
            "First, add 2 and 3.\nThen take 1 away.", "First find the sum.\nNext: 4.", "To start: 2.\nFinally: 3.",
            "First there were 3.\nAfter that, 2 came.", "To begin, 2+2=4.\nThen 4+1=5.", "First: 3.\nSecond: 5.",
        ]),
    ],
)  # fmt: skip
def test_what_a_solution_writes_is_seen(constraint, lines):
    for line in lines:
        assert Constraint(*constraint).holds(passage(line)), line
        assert not Constraint(*constraint, negated=True).holds(passage(line)), line


@pytest.mark.parametrize(
    ("constraint", "lines"),
    [
        (ASTERISK, ["3 x 4 = 12", "*Note: 3 + 4", "3 times 4 is 12", "** 12 **", "a * b", "12 / 4 = 3"]),
        (CROSS, ["3 * 4 = 12", "x = 4", "3x + 4 = 10", "Let x be 3", "2 boxes", "6 X-rays", "0xff"]),
        (FRACTION, ["20/4 = 5", "100/20=5", "$20/hour", "12/25/2020", "4/2 = 2", "half of it", "1/25", "3/12"]),
        (DOLLAR, ["It costs 5 dollars.", "5 USD", "She pays 20.", "$x is unknown", "50 cents", "US$"]),
        (JOINED, ["46+3 = 49", "3 * 2 = 6 * 4 = 24", "2*1/2 = 1", "9 / 3 / 3 = 1", "3 pears + 4 plums - 1 = 6", "1-2"]),
        (ORDER, [
            "Then 3 are left.", "The first day he ran 3.\nThe second day 4.", "He was first.", "First he had 3.",
            "Next year: 4.", "She first adds 3, then 4.", "At first there were 3.\nAnd then 4.",
        ]),
    ],
)  # fmt: skip
def test_what_a_solution_does_not_write_is_no_witness(constraint, lines):
    for line in lines:
        assert not Constraint(*constraint).holds(passage(line)), line


def test_a_solution_with_something_like_it_is_denied_nothing():
    for constraint, line in (
        (CROSS, "3 times 4 is 12"), (ASTERISK, "** 12 **"), (FRACTION, "half of 20 is 10"), (FRACTION, "20/4 = 5"),
        (DOLLAR, "US$ only"), (ORDER, "He first adds 3, and then 4."),
        (JOINED, "2*1/2 = 1"), (JOINED, "3 pears + 4 plums - 1 = 6"), (JOINED, "It is six."),
    ):  # fmt: skip
        assert not Constraint(*constraint, negated=True).is_clear(passage(line)), line


@pytest.mark.parametrize(
    "text", ["46+36 = 82\n82+40 = 122", "3 * 2 = 6 * 4 = 24", "a well-known half-price shop: 3+4 = 7"]
)
def test_a_solution_that_takes_one_operation_at_a_time_is_denied_more(text):
    assert Constraint("joined", negated=True).is_clear(passage(text))
    assert Constraint("joined", negated=True).holds(passage(text))


@pytest.mark.parametrize(
    ("family", "bound", "lines", "clear"),
    [
        ("at_most_steps", "2", 2, True), ("at_most_steps", "2", 3, False), ("at_most_steps", "2", 4, True),
        ("at_least_steps", "4", 4, True), ("at_least_steps", "4", 3, False), ("at_least_steps", "4", 2, True),
    ],
)  # fmt: skip
def test_a_bound_on_calculations_is_clear_up_to_it_and_two_lines_off(family, bound, lines, clear):
    text = "\n".join(["She has 1 + 1 = 2 pears."] * lines)
    assert Constraint(family, bound).is_clear(passage(text)) is clear
    assert Constraint(family, bound).holds(passage(text)) is (lines <= 2 if family == "at_most_steps" else lines >= 4)


def test_a_calculation_in_words_leaves_the_number_of_calculations_in_doubt():
    text = "She has 1 + 1 = 2 pears.\nTwice 2 is 4.\nSo 4 - 1 = 3 are left."
    assert not Constraint("at_most_steps", "2").is_clear(passage(text))


def test_a_denial_needs_a_text_without_anything_like_it():
    assert not Constraint("reason", negated=True).is_clear(passage("Cold feet are a sign of poor circulation."))
    assert Constraint("reason", negated=True).is_clear(passage("The village lies on the river."))


RECORD = "Tide tables are computed.\n\nHolm, I. and Sand, P.\n\nJournal of Tides 12, 1964."


@pytest.mark.parametrize(
    ("year", "period", "holds"),
    [
        ("1964", "before 1965", True), ("1964", "before 1970", True), ("1964", "1960 or later", True),
        ("1964", "1964 or later", True), ("1899", "before 1900", True), ("2001", "2000 or later", True),
        ("1964", "before 1964", False), ("1964", "before 1960", False), ("1964", "1965 or later", False),
        ("1964", "1970 or later", False), ("1899", "1900 or later", False), ("2001", "before 2000", False),
        ("1964", "1964", False), ("1964", "", False), ("1964", "after 1960", False), ("1964", "before long", False),
    ],
)  # fmt: skip
def test_a_paper_is_from_a_period_by_its_record(year, period, holds):
    text = passage(RECORD.replace("1964", year), form="abstract", year=year)
    assert Constraint("published", period).holds(text) is holds


@pytest.mark.parametrize(
    ("text", "year"),
    [(RECORD, ""), ("Tide tables of 1964 are computed.", ""), (RECORD.replace("1964", "n.d."), "1964")],
)
def test_a_year_that_the_record_or_the_text_lacks_dates_no_paper(text, year):
    paper = passage(text, form="abstract", **({"year": year} if year else {}))
    assert not Constraint("published", "before 1990").holds(paper)
    assert not tuple(FAMILIES["published"].detector.offer(paper.text, paper.attributes))


@pytest.mark.parametrize(
    ("name", "holds"), [("Holm", True), ("Sand", True), ("Ho", False), ("holm", False), ("", False), ("Tide", False)]
)
def test_a_paper_is_by_those_whom_its_record_names(name, holds):
    assert Constraint("author", name).holds(passage(RECORD, form="abstract", author="Holm; Sand")) is holds


def test_who_is_only_spoken_of_is_no_author_and_leaves_a_doubt():
    other = passage("The tables of Holm are too long.\n\nReed, A.", form="abstract", author="Reed")
    assert not Constraint("author", "Holm").holds(other)
    assert not surely_broken([Constraint("author", "Holm")], other)
    assert surely_broken([Constraint("author", "Sand")], other)
