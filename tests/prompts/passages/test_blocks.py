"""Which blocks of a passage answer a query, and which cannot stand without the one before them."""

import pytest

from foil.prompts.passages.answering import is_about, may_answer
from foil.prompts.passages.blocks import join, segment
from foil.prompts.rules.view_pairs import ViewPairFinder
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


def test_prose_may_be_cut_only_where_its_core_surely_answers():
    text = "The ferry to Mallow costs $4. It runs all year. Dogs ride to Mallow for free on the ferry."
    known = segment("P1", passage(text), "what does the ferry to Mallow cost", "$4")
    assert known.is_core_sure
    assert not segment("P1", passage(text), "what does the ferry to Mallow cost", "nine pounds of herring").is_core_sure
    assert segment("P1", passage(text), "how much is the ferry to Mallow").is_core_sure  # the core has an amount
    apart = "The ferry goes to Mallow. Tickets are sold on board. Dogs of all sizes may ride."
    assert not segment("P1", passage(apart), "are dogs allowed on the ferry to Mallow").is_core_sure


def test_prose_answers_by_most_words_of_a_query_and_by_all_where_a_collection_judged_it():
    query = "keeper of the north lighthouse"
    most = "A keeper of the lighthouse."
    assert is_about(query, passage("The north lighthouse had a keeper.", relevance="judged"))
    assert not is_about(query, passage(most, relevance="judged"))
    assert is_about(query, passage(most))
    assert may_answer(query, passage(most, relevance="judged"))
    assert not may_answer(query, passage("A lighthouse stands on the rock."))
    assert is_about(query, passage("x = 1", form="source"))  # code says it in other words
    seven = "keepers lamps fog horns storms boats tides"
    assert is_about(f"{seven} wages uniforms", passage(seven, relevance="judged"))
    assert not is_about(f"{seven} wages uniforms", passage(seven.removesuffix(" tides"), relevance="judged"))


def test_a_page_without_a_section_is_laid_out_as_the_whole_page():
    text = "Opens the sluice.\nParameters:\ngate: which one.\nReturns:\nThe level.\nExamples:\n>>> open(1)\n3"
    blocks = segment("P1", passage(text, form="documentation"), "open the sluice").blocks
    assert join(blocks) == text
    assert join(blocks[:3]) == text[: text.index("\nExamples")]


def test_two_sections_of_one_name_are_not_taken_for_one():
    lines = ["The rhino eats grass.", ">>> f(1)", "Returns:", "The rhino eats grass.", "Returns:", ">>> f(1)"]
    made = segment("P1", passage("\n".join(lines), form="documentation"), "rhino").blocks
    assert [block.text for block in made] == ["The rhino eats grass.", ">>> f(1)"] * 2
