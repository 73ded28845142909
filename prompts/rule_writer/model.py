"""The embedded model: deterministic, free, without weights. It answers the recipes' requests from their inputs.

For `verifiable.topic` it takes two views of the positives that both keep the answering blocks, constraints that hold of
one and fail of the other, puts them into English, and finds a negative for another query. All choices follow from the
rendered `variation`, so that equal prompts have equal answers. About a millisecond for passages of 100 words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from engine.errors import RefusedRequestError
from engine.model_traits import ModelTraits
from engine.protocols import Model
from engine.requests import Reply, Request
from prompts.constraints.constraint import Constraint
from prompts.constraints.families import Kind
from prompts.constraints.instructions import LENGTHS, STYLES, Length, Style, compose
from prompts.passages.blocks import Cut
from prompts.passages.views import Demand, Instruction, OtherQuery, TopicAnswer
from prompts.rule_writer.custom import CUSTOM_TASKS
from prompts.rule_writer.infosearch import INFOSEARCH_TASKS
from prompts.rule_writer.judge import TASKS as JUDGING
from prompts.rule_writer.other_query import Elsewhere
from prompts.rule_writer.published import PUBLISHED_TASKS
from prompts.rule_writer.view_pairs import Pair, PairFinder

T = TypeVar("T")

_TRIES = 4
"""Pairs tried for a second view with a demand of its own, before one is taken that has none."""


@dataclass(frozen=True, slots=True)
class Parted:
    """A pair with what d+ alone shows (`mine`, never empty) and what d- alone shows (`theirs`)."""

    pair: Pair
    mine: list[Constraint]
    theirs: list[Constraint]


class RuleWriter(Model):
    """The embedded model: answers by rules, deterministic and free."""

    name = "rule_writer"
    traits = ModelTraits(free=True)

    async def complete(self, request: Request) -> Reply:
        """The answer as JSON. RefusedRequestError for a task that has no rules."""
        write = _TASKS.get(request.task) or _TASKS.get(request.task.partition(".")[0])
        if write is None:
            raise RefusedRequestError(
                f"the rule writer has no rules for the task {request.task!r}; it knows {', '.join(_TASKS)}. "
                "Name a hosted or local model for this recipe"
            )
        return Reply(request.id, write({**request.inputs, **request.facts}), model=self.name)


class _TopicWriter:
    """One topic's work. Inputs are those of the template `verifiable/topic`."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        self._query: str = inputs["query"]
        self._positives: Sequence[Cut] = inputs["positives"]
        self._negatives: Sequence[Cut] = inputs["negatives"]
        self._count: int = inputs["count"]
        self._length: Length = inputs["length"]
        self._style: Style = inputs["style"]
        self._dual: bool = inputs["dual"]
        self._denied: bool = inputs["denied"]
        self._rng = Random(inputs["variation"])
        self._finder = PairFinder(
            self._query,
            self._positives,
            self._negatives,
            inputs["families"],
            room=inputs["view_chars"],
            rng=self._rng,
            dual=self._dual,
        )

    def write(self) -> TopicAnswer:
        fallback: Parted | None = None
        for tried, pair in enumerate(self._finder.pairs()):
            parted = self._part(pair)
            if parted is not None and (parted.theirs or not self._dual):
                return self._answer(parted)
            fallback = fallback or parted
            if fallback is not None and tried >= _TRIES:
                break
        if fallback is not None:
            return self._answer(fallback)
        only_answers = len(self._positives) == 1 and all(b.core for b in self._positives[0].blocks)
        return TopicAnswer(refusal="one_block" if only_answers else "no_contrast")

    def _part(self, pair: Pair) -> Parted | None:
        """What d+ shows and d- lacks, and the other way round; None where nothing parts them."""
        mine = self._finder.contrasts(pair, self._count)
        theirs = self._finder.contrasts(pair.turned(), self._count + 1)
        if mine:
            return Parted(pair, mine, theirs)
        return Parted(pair.turned(), theirs[: self._count], []) if theirs else None

    def _answer(self, parted: Parted) -> TopicAnswer:
        """Instructions for a pair: what one side shows is demanded or, denied, excluded."""
        pair, mine, theirs = parted.pair, parted.mine, parted.theirs
        if theirs and self._dual:
            instruction, reverse, poison = mine, theirs[: self._count], theirs[-1:]
            if self._denied:
                instruction, reverse, poison = _denials(reverse), _denials(mine), _denials(mine[-1:])
            elif self._count > 1 and self._rng.random() < 0.5:
                instruction = [*mine[: self._count - 1], *_denials(theirs[:1])]
                reverse = [*theirs[: self._count - 1], *_denials(mine[:1])]
        else:
            instruction, reverse, poison = mine, _denials(mine), theirs[:1] or _denials(mine[:1])
            if self._denied:
                pair, instruction, reverse, poison = pair.turned(), reverse, mine, mine[:1]
        kind = pair.kinds[0]
        found = Elsewhere(self._query, self._negatives, self._finder, self._rng).find(pair, instruction)
        return TopicAnswer(
            first=pair.first,
            second=pair.second,
            instruction=self._instruction(instruction, self._length, self._style, kind),
            reverse=self._instruction(reverse, self._length, self._style, kind),
            poison=self._instruction(
                poison, self._another(LENGTHS, self._length), self._another(STYLES, self._style), kind
            ),
            other=OtherQuery(query=found.query, view=found.view) if found else None,
        )

    def _another(self, options: Sequence[T], but: T) -> T:
        rest = [o for o in options if o != but]
        return rest[int(self._rng.random() * len(rest))]

    def _instruction(self, constraints: Sequence[Constraint], length: Length, style: Style, kind: Kind) -> Instruction:
        demands = tuple(Demand(family=c.family, value=c.value, negated=c.negated) for c in constraints)
        return Instruction(constraints=demands, wording=compose(self._rng, constraints, length, style, kind))


def _denials(constraints: Sequence[Constraint]) -> list[Constraint]:
    return [c.negate() for c in constraints]


def _write_topic(inputs: Mapping[str, Any]) -> str:
    return _TopicWriter(inputs).write().model_dump_json(exclude_defaults=True)


_TASKS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "verifiable.topic": _write_topic,
    **PUBLISHED_TASKS,
    **INFOSEARCH_TASKS,
    **CUSTOM_TASKS,
    **JUDGING,
}
