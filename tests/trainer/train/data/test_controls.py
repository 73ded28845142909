"""Promptriever's controls over topics of the trainer's world."""

from dataclasses import replace

import numpy as np
import pytest

from foil.engine.errors import UsageError
from foil.trainer.train.data.instructions import control, generic_instructions, without_instruction_negatives
from foil.trainer.train.run.fit import BatchReader
from tests.support.trainer_world import NO_YEAR, YEAR, commit, open_view, topic
from tests.support.training import SHARES, TEMPLATE, groups, settings_for

TOPICS = list(groups(6))


def promptriever(group):
    """The topic with its first instruction alone: the passage without a year is an instruction negative."""
    return group.only(np.array([True, True, False]), np.ones(3, dtype=bool))


def test_without_instruction_negatives_a_topic_keeps_what_an_instruction_wants_and_what_nothing_wants():
    plain = promptriever(TOPICS[0])
    found = without_instruction_negatives(plain)
    assert found.passages == (plain.passages[0], plain.passages[2])
    assert found.relevance.tolist() == [[1, -1], [1, -1]]
    assert without_instruction_negatives(TOPICS[0]).passages == TOPICS[0].passages  # the other instruction wants it
    bare = plain.only(np.array([True, False]), np.ones(3, dtype=bool))
    assert without_instruction_negatives(bare) is bare


@pytest.mark.parametrize("how", ["none", "repeat", "generic", "swap"])
def test_under_an_instruction_that_says_nothing_the_bare_querys_passages_are_relevant(how):
    before = [replace(promptriever(group), intents=(group.intents[0], (f"{YEAR} {i}", group.intents[1][1])))
              for i, group in enumerate(TOPICS)]  # fmt: skip
    for old, new in zip(before, control(before, how, instruction_negatives=True), strict=True):
        assert new.passages == (old.passages[0], old.passages[2])
        assert new.relevance.tolist() == [[1, -1], [1, -1]]
        assert [query for _, query in new.intents] == [query for _, query in old.intents]
        bare, text = (instruction for instruction, _ in new.intents)
        assert bare == ""
        if how == "repeat":
            assert text.split() == (old.intents[0][1].split() * 9)[: len(old.intents[1][0].split())]
        elif how == "generic":
            assert text in generic_instructions()
        elif how == "swap":
            assert text in {each.intents[1][0] for each in before} - {old.intents[1][0]}
        else:
            assert text == ""


def test_given_instructions_and_their_negatives_are_no_control():
    assert control(TOPICS, "given", instruction_negatives=True) == TOPICS
    with pytest.raises(UsageError, match="a swap changes nothing"):
        control(TOPICS[:1], "swap", instruction_negatives=True)


def test_batches_hold_the_control(bert, view):
    assert {text for text, _ in BatchReader(view, settings_for(bert), TEMPLATE).read(0).pairs} == {"", YEAR, NO_YEAR}
    bare = BatchReader(view, settings_for(bert, instructions="none"), TEMPLATE).read(0)
    assert {text for text, _ in bare.pairs} == {""}
    repeated = BatchReader(view, settings_for(bert, instructions="repeat"), TEMPLATE).read(0)
    assert all(text == "" or query.startswith(text) or text.startswith(query) for text, query in repeated.pairs)
    assert len(repeated.pairs) > len(bare.pairs)


def test_workers_swap_what_one_worker_swaps(bert, tmp_path):
    def with_own_instructions(number):
        made = topic(number)
        own = [replace(each, instruction=each.instruction and f"{each.instruction} {number}") for each in made.intents]
        return replace(made, intents=tuple(own))

    own_view = open_view(commit(tmp_path, [with_own_instructions(number) for number in range(30)]), **SHARES)
    reader = BatchReader(own_view, settings_for(bert, instructions="swap"), TEMPLATE)
    whole = reader.groups(0)
    assert all(group.intents[1][0].split()[-1] != group.intents[1][1].split()[-1] for group in whole)
    shares = [reader._read_trimmed(reader._topics(0)[0], rank, 4) for rank in range(4)]
    assert [group.intents for share in shares for group in share] == [group.intents for group in whole]
