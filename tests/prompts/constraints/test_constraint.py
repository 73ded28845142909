"""Constraints as JSON, of titled passages, and their refusals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.engine.errors import UsageError
from foil.engine.topic import Intent, Passage
from foil.prompts.constraints.constraint import Constraint, all_hold, constraints_of, dump_constraints
from tests.support.topics.sample_seeds import passage


def test_the_title_counts_as_text():
    titled = Passage("Returns the result.", "seed_positive", title="numpy.clip")
    assert Constraint("mentions", "numpy").holds(titled)


@given(st.text(), st.booleans())
def test_a_constraint_survives_json(value, negated):
    constraint = Constraint("mentions", value, negated)
    assert Constraint.from_json(constraint.to_json()) == constraint
    intent = Intent("i", "instructed", "x", "q", {"constraints": dump_constraints([constraint])})
    assert constraints_of(intent) == (constraint,)


def test_an_intent_without_constraints_has_none_and_so_they_all_hold():
    assert constraints_of(Intent("i", "original", "", "q")) == ()
    assert all_hold((), passage("x"))


def test_an_unknown_family_or_value_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="unknown constraint family 'sings'; use one of mentions"):
        Constraint("sings")
    with pytest.raises(UsageError, match="'operation' has the unknown value 'magic'; use one of addition"):
        Constraint("operation", "magic")
