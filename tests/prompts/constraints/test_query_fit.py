"""Query fit: the families that somebody with a query might ask for, and those that nobody would."""

import pytest

from foil.prompts.constraints.families import NAMES_BY_KIND, WEIGHTS
from foil.prompts.constraints.query_fit import families_for


@pytest.mark.parametrize(
    ("query", "fits", "does_not"),
    [
        (
            "phone number for amtrak information",
            {"at_most_words"},
            {"history", "risk", "reason", "mentions", "reader"},
        ),
        ("weather in new london nh", {"percentage"}, {"measure", "reason", "purpose"}),
        ("what county is janesville mn in", {"history"}, {"reason", "purpose", "risk", "mentions", "year"}),
        ("what awareness month is april", {"history"}, {"risk", "date", "year"}),
        ("quid pro quo definition in english", {"example"}, {"definition", "money", "risk"}),
        ("average salary for firefighters in az", {"percentage", "caveat"}, {"money", "history"}),
        ("what do cold hands and feet indicate", {"advice"}, {"reason", "risk"}),
        ("side effects for diclofenac topical", {"percentage", "reason"}, {"risk", "kinds"}),
        ("how to calculate va pension amount", {"example", "caveat"}, {"process"}),
        ("what is the difference between llc and inc", {"percentage"}, {"risk", "kinds"}),
        ("the purpose of the senate", {"history"}, {"purpose"}),
        ("coral reefs", {"history", "kinds"}, {"risk", "benefit"}),
    ],
)
def test_a_query_is_asked_with_what_its_askers_want(query, fits, does_not):
    assert fits <= families_for(query)
    assert not does_not & families_for(query)


def test_every_family_of_a_query_is_a_family_of_prose():
    assert families_for("coral reefs") | families_for("how to swim") <= NAMES_BY_KIND["text"]
    assert "at_most_words" in families_for("phone number for autozone") & WEIGHTS.keys()
