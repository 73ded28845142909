"""Which sort of text a passage is."""

import pytest

from foil.engine.topic import Passage
from foil.prompts.passages.kinds import kind_of


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Tom has 3 apples and buys 4.\n#### 7", "mathematics"),
        ("Tom has 3 apples and buys 4, so he has seven.\nThe answer is: 7", "mathematics"),
        ("Q: What is the sum of three and four?\nA: 7", "mathematics"),
        ("A: A ferry takes half an hour from the northern pier, and runs twice an hour in all weathers.", "text"),
        ("Q: How long does the ferry take?\nA: The ferry takes half an hour, says the harbour master.", "text"),
        (f"A: {'x' * 1_400} and {'y z ' * 20}", "text"),
        ("Half of 8 is 8 / 2 = 4.\nTwice that is 2 * 4 = 8.", "mathematics"),
    ],
)
def test_what_ends_in_a_result_is_a_solution_and_an_answer_in_words_is_none(text, kind):
    assert kind_of(Passage(text, "seed_positive")) == kind
