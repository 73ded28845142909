"""Other texts in place of instructions: is it what they say that helps, or that there are more words?

    none      no instruction
    repeat    the query's own words, again and again, as many words as the instruction had
    generic   one of 50 fixed instructions that say nothing of the query
    swap      the instruction of another query

What has no instruction keeps none. All choices are hashes of ids. The 50 are words of our own.
Promptriever (arXiv 2409.11136), section 5 and table 4, trains on such instructions as controls (`train.instructions`):

    topic       -> without the passages that only an instruction makes irrelevant   "w/Instructions"
    the same    -> the query again, a generic text, another topic's instruction     the three controls
    the same    -> the bare query alone                                             RepLLaMA's data

Under a text that says nothing, the bare query's passages are relevant, and no others. `foil evaluate --instructions`
measures with these texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import cycle, islice
from typing import get_args

import numpy as np

from foil.datasets_out.training.training_view import TopicGroup
from foil.engine.errors import UsageError
from foil.engine.ids import fraction_of
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark
from foil.trainer.settings import Instructions
from foil.trainer.text_templates import QueryPair


@dataclass(frozen=True, slots=True)
class InstructedQuery:
    """A query under an instruction, "" for none; those with the same `core` are about the same information need."""

    core: str
    instruction: str
    query: str


def instructions_named(name: str) -> Instructions:
    """The name, if it is one; UsageError with the known ones otherwise."""
    for choice in get_args(Instructions):
        if name == choice:
            instructions: Instructions = choice
            return instructions
    raise UsageError(f"there are no instructions {name!r}; choose one of {', '.join(get_args(Instructions))}")


def replaced(queries: Sequence[InstructedQuery], how: Instructions) -> list[str]:
    """The instruction of each query after the replacement. Raises UsageError where a swap changes nothing."""
    if how == "given":
        return [each.instruction for each in queries]
    if how == "swap":
        return _swapped(queries)
    return ["" if how == "none" or not each.instruction else _other(each, how) for each in queries]


def _other(each: InstructedQuery, how: Instructions) -> str:
    if how == "repeat":
        return repeated(each.query, len(each.instruction.split()))
    texts = generic_instructions()
    return texts[int(fraction_of("generic", each.core, each.instruction) * len(texts))]


def repeated(query: str, words: int) -> str:
    """The words of the query from its start, over and over.

    >>> repeated("ferry price", 5)
    'ferry price ferry price ferry'
    """
    return " ".join(islice(cycle(query.split()), words))


@cache
def generic_instructions() -> tuple[str, ...]:
    """The fixed instructions that fit any query."""
    return tuple(files(__package__).joinpath("generic_instructions.txt").read_text(encoding="utf-8").splitlines())


def _swapped(queries: Sequence[InstructedQuery]) -> list[str]:
    """Cores in the order of a hash; each gets the instructions of the next one, its first the first and so on."""
    of_core: dict[str, list[str]] = {}
    for each in queries:
        if each.instruction:
            of_core.setdefault(each.core, []).append(each.instruction)
    cores = sorted(of_core, key=lambda core: fraction_of("swap", core))
    given_to = {core: cycle(of_core[next_core]) for core, next_core in zip(cores, cores[1:] + cores[:1], strict=True)}
    swapped = [next(given_to[each.core]) if each.instruction else "" for each in queries]
    if swapped == [each.instruction for each in queries]:
        raise UsageError(
            "a swap changes nothing here: no query has an instruction, all have the same, or there is one query"
        )
    return swapped


def with_instructions(benchmark: Benchmark, how: Instructions) -> Benchmark:
    """The benchmark with other instructions; no judgment or document changes."""
    queries = [InstructedQuery(each.core or each.id, each.instruction, each.query) for each in benchmark.queries]
    changed = zip(benchmark.queries, replaced(queries, how), strict=True)
    return replace(benchmark, queries=tuple(replace(query, instruction=text) for query, text in changed))


def pairs_with_instructions(groups: Sequence[TopicGroup], how: Instructions) -> list[tuple[QueryPair, ...]]:
    """The (instruction, query) pairs of each topic with other instructions."""
    queries = [InstructedQuery(group.topic_id, *intent) for group in groups for intent in group.intents]
    texts = iter(replaced(queries, how))
    return [tuple((next(texts), query) for _, query in group.intents) for group in groups]


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
