"""Which blocks of a passage answer a query, and which cannot stand without the one before them."""

import pytest

from prompts.passages.blocks import segment
from prompts.rule_writer.view_pairs import ViewPairFinder
from tests.support.topics.zoo import passage

OSLO = (
    "Oslo lies at the end of a fjord. The city is at its best in summer. Temperatures in September drop to 8 degrees. "
    "They rise again in May, as any local will say. Trams run through the old town."
)


def core(text: str, query: str, answer: str = "") -> list[str]:
    return [block.text for block in segment("P1", passage(text), query, answer).core_blocks]


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ("Temperatures in September drop", [0, 2]),  # to the word, and what the query is about
        ("About 8°C.", [0, 2]),  # by its figure
        ("The old town has trams.", [0, 2, 4]),  # by its words; the query's stay named
        ("Yes.", None),  # says nothing: the query decides
    ],
)
def test_the_blocks_that_give_the_answer_are_core(answer, kept):
    query = "temperature in oslo in september"
    sentences = [block.text for block in segment("P1", passage(OSLO)).blocks]
    expected = core(OSLO, query) if kept is None else [sentences[i] for i in kept]
    assert core(OSLO, query, answer) == expected


def test_what_a_core_block_leans_on_is_core():
    assert core(OSLO, "", "") == []
    assert core(OSLO, "when does it rise again in may", "any local")[-2:] == [
        "Temperatures in September drop to 8 degrees.",
        "They rise again in May, as any local will say.",
    ]


def test_a_view_never_shows_a_block_without_the_one_that_it_leans_on():
    source = segment("P1", passage(OSLO), "where does oslo lie")
    finder = ViewPairFinder("", [source], [], [], room=2000, rng=None, dual=False)
    leaning = next(block for block in source.blocks if block.leans)
    before = source.blocks[source.blocks.index(leaning) - 1]
    trams = source.blocks[-1]
    assert not before.core
    assert {leaning.label, before.label} <= set(finder.view(source, [leaning, trams]).blocks)
    assert not {leaning.label, before.label} & set(finder.view(source, [trams, leaning]).blocks)
