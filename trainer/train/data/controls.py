"""Promptriever's controls: the same topics with instructions that say nothing of them, or without their negatives.

    topic                        -> without the passages that only an instruction makes irrelevant   "w/Instructions"
    the same                     -> the query again, a generic text, another topic's instruction     the three controls
    the same                     -> the bare query alone                                             RepLLaMA's data

Promptriever (arXiv 2409.11136), section 5 and table 4. The texts are those of `trainer.train.data.instructions`. Under
one that says nothing the bare query's passages are relevant, and no others.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from foil.datasets_out.training.training_view import TopicGroup
from foil.trainer.settings import Instructions
from foil.trainer.train.data.instructions import pairs_with_instructions


def control(groups: Sequence[TopicGroup], how: Instructions, instruction_negatives: bool) -> list[TopicGroup]:
    """The topics of a batch under a control; a swap is among them. Raises UsageError where a swap changes nothing."""
    if how == "given":
        return [group if instruction_negatives else without_instruction_negatives(group) for group in groups]
    bared = [_of_bare_query(without_instruction_negatives(group)) for group in groups]
    pairs = pairs_with_instructions(bared, how)
    return [replace(group, intents=intents) for group, intents in zip(bared, pairs, strict=True)]


def without_instruction_negatives(group: TopicGroup) -> TopicGroup:
    """The topic without the passages that its bare query wants and none of its instructions does."""
    is_wanted = group.relevance > 0
    columns = ~is_wanted[0] | is_wanted[1:].any(0)
    every_row = np.ones(len(group.intents), dtype=bool)
    return group.only(every_row, columns) if len(group.intents) > 1 else group


def _of_bare_query(group: TopicGroup) -> TopicGroup:
    """The intents on the first query, each with the judgments of the bare one."""
    intents = tuple(intent for intent in group.intents if intent[1] == group.intents[0][1])
    return replace(group, intents=intents, relevance=np.repeat(group.relevance[:1], len(intents), axis=0))
