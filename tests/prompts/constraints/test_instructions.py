"""Instructions: what is said besides the demand fits it, and fits together."""

from random import Random

from foil.prompts.constraints.constraint import Constraint
from foil.prompts.constraints.instructions import CIRCLE, compose


def test_a_reason_names_no_other_people_than_the_context():
    """Each instruction of one context and one reason: at most the context's own people and texts."""
    for number in range(400):
        text = compose(Random(number), [Constraint("example")], "very_long", "persona")
        context, *rest = text.split(". ")
        known = set(CIRCLE.findall(context.lower()))
        assert set(CIRCLE.findall(" ".join(rest).lower())) <= known, text


def test_nobody_is_indifferent_to_what_is_asked_for():
    texts = [compose(Random(n), [Constraint("reader")], "very_long", "plain") for n in range(400)]
    assert not any("how formal" in text for text in texts)
    others = [compose(Random(n), [Constraint("example")], "very_long", "plain") for n in range(400)]
    assert any("how formal" in text for text in others)
    assert any("how difficult it is" in text for text in texts)
