"""Questions made from summary lines sound natural, or are not made."""

import pytest

from foil.engine.seeds.python_docs.questions import base_verb, question_of


@pytest.mark.parametrize(
    ("summary", "phrase"),
    [
        ("Compute the inverse of a matrix.", "compute the inverse of a matrix"),
        ("Computes the inverse and returns it.", "compute the inverse and return it"),
        ("Returns a copy of the list.", "a copy of the list"),
        ("Linear support vector classifier.", "linear support vector classifier"),
        ("Gaussian process regression.", "Gaussian process regression"),
        ("Context manager for temporary files.", "a context manager for temporary files"),
    ],
)
def test_a_question_keeps_what_is_asked_for(summary, phrase):
    questions = {question_of(summary, f"lib.object{n}") for n in range(40)}
    assert len(questions) >= 4
    assert all(phrase in question for question in questions)


@pytest.mark.parametrize(
    "summary",
    [
        "If true, stop.",
        "This module is old and slow.",
        "Munges the record.",
        "Locally scales input.",
        "Return x; or not.",
        "Two words",
    ],
)
def test_what_makes_no_natural_question_stays_a_summary(summary):
    assert question_of(summary, "lib.object") == ""


def test_verbs_are_recognised_in_both_forms():
    verbs = [base_verb(word) for word in ("Compute", "Applies", "matches", "Inverse")]
    assert verbs == ["compute", "apply", "match", ""]
