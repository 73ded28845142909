"""Other texts in place of instructions."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.engine.errors import UsageError
from foil.trainer.evaluate.benchmarks.catalog import read_benchmark
from foil.trainer.train.data import instructions as instructions_module
from foil.trainer.train.data.instructions import (
    InstructedQuery,
    generic_instructions,
    instructions_named,
    pairs_with_instructions,
    replaced,
    with_instructions,
)
from tests.support.training import groups
from tests.trainer.evaluate.benchmarks.tiny_benchmarks import write_benchmark

QUERIES = [
    InstructedQuery("a", "", "ferry price"), InstructedQuery("a", "Only dollars and no euros.", "ferry price"),
    InstructedQuery("b", "No prices.", "bread"), InstructedQuery("b", "Only rye.", "bread"),
    InstructedQuery("c", "From 1990 on.", "harbour"),
]  # fmt: skip


def test_the_example_holds_and_there_are_fifty_generic_instructions():
    assert doctest.testmod(instructions_module).failed == 0
    assert len(set(generic_instructions())) == 50
    assert all(text == text.strip() and text for text in generic_instructions())


def test_each_replacement_says_what_it_says():
    assert replaced(QUERIES, "given") == [each.instruction for each in QUERIES]
    assert replaced(QUERIES, "none") == [""] * 5
    assert replaced(QUERIES, "repeat") == [
        "", "ferry price ferry price ferry", "bread bread", "bread bread", "harbour harbour harbour",
    ]  # fmt: skip
    generic = replaced(QUERIES, "generic")
    assert generic[0] == ""
    assert set(generic[1:]) <= set(generic_instructions())
    assert replaced(QUERIES, "generic") == generic


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(["", "x", "y", "z"])), max_size=20))
def test_a_swap_gives_another_querys_instruction_to_all_that_have_one(pairs):
    """Every instruction is given the name of its core, so that one can see whose it is."""
    queries = [InstructedQuery(core, text and f"{core}: {text}", "q") for core, text in pairs]
    if len({each.core for each in queries if each.instruction}) < 2:
        with pytest.raises(UsageError, match="a swap changes nothing here"):
            replaced(queries, "swap")
        return
    swapped = replaced(queries, "swap")
    assert [bool(text) for text in swapped] == [bool(each.instruction) for each in queries]
    assert all(not text or text[0] != each.core for text, each in zip(swapped, queries, strict=True))
    assert set(filter(None, swapped)) <= {each.instruction for each in queries}


def test_a_benchmark_keeps_everything_else(tmp_path):
    own = read_benchmark(write_benchmark("instructir", tmp_path), "")
    none = with_instructions(own, "none")
    assert {query.instruction for query in none.queries} == {""}
    assert (none.qrels, none.documents, [query.id for query in none.queries]) == (
        own.qrels, own.documents, [query.id for query in own.queries]
    )  # fmt: skip
    assert none.digest != own.digest == with_instructions(own, "given").digest


def test_topics_keep_their_shape_and_swap_between_topics():
    own = list(groups(3))
    assert pairs_with_instructions(own, "given") == [group.intents for group in own]
    repeated = pairs_with_instructions(own, "repeat")
    assert [len(pairs) for pairs in repeated] == [3, 3, 3]
    assert repeated[0][0] == own[0].intents[0]
    assert repeated[0][1] == ("who built the bridge of oslo", own[0].intents[1][1])
    with pytest.raises(UsageError, match="all have the same"):
        pairs_with_instructions(own, "swap")


def test_an_unknown_name_is_refused():
    with pytest.raises(UsageError, match="there are no instructions 'swop'; choose one of given, none, repeat"):
        instructions_named("swop")
