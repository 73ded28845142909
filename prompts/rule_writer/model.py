"""The embedded model: deterministic, free, without weights. It answers the recipes' requests from their inputs.

For `verifiable.topic` it takes two views of the positives that both keep the answering blocks, and constraints that
hold of one and fail of the other. It words them in English and finds a negative for another query. All choices follow
from the rendered `variation`, so equal prompts have equal answers. About a millisecond for passages of 100 words.
"""

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
from prompts.passages.blocks import SourcePassage
from prompts.passages.reply_types import Demand, Instruction, OtherQuery, TopicAnswer
from prompts.rule_writer.custom import CUSTOM_TASKS
from prompts.rule_writer.infosearch import INFOSEARCH_TASKS
from prompts.rule_writer.judge import TASKS as JUDGING
from prompts.rule_writer.other_query import OtherQueryFinder
from prompts.rule_writer.published import PUBLISHED_TASKS, as_task
from prompts.rule_writer.view_pairs import ViewPair, ViewPairFinder, deniable, denials

T = TypeVar("T")

_TRIES = 4
_DENIAL_BESIDE = 0.2
"""How often an instruction of several demands also excludes what the other side shows."""
"""Pairs tried for a second view with a demand of its own, before a pair without one is taken."""


@dataclass(frozen=True, slots=True)
class ContrastedPair:
    """A pair with what d+ alone shows (`plus_only`, never empty) and what d- alone shows (`minus_only`)."""

    pair: ViewPair
    plus_only: list[Constraint]
    minus_only: list[Constraint]


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
        self._negatives: Sequence[SourcePassage] = inputs["negatives"]
        self._count: int = inputs["count"]
        self._length: Length = inputs["length"]
        self._style: Style = inputs["style"]
        self._dual: bool = inputs["dual"]
        self._denied: bool = inputs["denied"]
        self._rng = Random(inputs["variation"])
        self._pairs = ViewPairFinder(
            self._query,
            inputs["positives"],
            self._negatives,
            inputs["families"],
            room=inputs["view_chars"],
            rng=self._rng,
            dual=self._dual,
        )

    def write(self) -> TopicAnswer:
        fallback: ContrastedPair | None = None
        for attempt, pair in enumerate(self._pairs.pairs()):
            contrasted = self._contrast(pair)
            if contrasted is not None and (contrasted.minus_only or not self._dual):
                return self._answer(contrasted)
            fallback = fallback or contrasted
            if fallback is not None and attempt >= _TRIES:
                break
        if fallback is not None:
            return self._answer(fallback)
        return TopicAnswer(refusal=self._pairs.reason())

    def _contrast(self, pair: ViewPair) -> ContrastedPair | None:
        """What d+ shows and d- lacks, and the other way round; None where nothing tells them apart."""
        plus_only = self._pairs.contrasts(pair, self._count)
        minus_only = self._pairs.contrasts(pair.swapped(), self._count + 1)
        if plus_only and minus_only and self._dual:
            return ContrastedPair(pair, plus_only, minus_only)
        if deniable(plus_only):
            return ContrastedPair(pair, deniable(plus_only), minus_only)
        minus_only = deniable(minus_only[: self._count])
        return ContrastedPair(pair.swapped(), minus_only, []) if minus_only else None

    def _answer(self, contrasted: ContrastedPair) -> TopicAnswer:
        """Instructions for a pair: what one side shows is demanded or, denied, excluded."""
        pair, plus_only, minus_only = contrasted.pair, contrasted.plus_only, contrasted.minus_only
        if minus_only and self._dual:
            instruction, reverse, poison = plus_only, minus_only[: self._count], minus_only[-1:]
            if self._denied and deniable(reverse) and deniable(plus_only):
                instruction, reverse, poison = denials(reverse)[:1], denials(plus_only)[:1], denials(plus_only)[-1:]
            elif self._count > 1 and self._rng.random() < _DENIAL_BESIDE:
                instruction = _with_denial(plus_only[: self._count - 1], minus_only)
                reverse = _with_denial(minus_only[: self._count - 1], plus_only)
        else:
            instruction, reverse, poison = plus_only, denials(plus_only)[:1], minus_only[:1] or denials(plus_only[:1])
            if self._denied:
                pair, instruction, reverse, poison = pair.swapped(), reverse, plus_only, plus_only[:1]
        kind = pair.kind
        match = OtherQueryFinder(self._query, self._negatives, self._pairs).find(pair, instruction)
        return TopicAnswer(
            first=pair.first,
            second=pair.second,
            instruction=self._instruction(instruction, self._length, self._style, kind),
            reverse=self._instruction(reverse, self._length, self._style, kind),
            poison=self._instruction(
                poison, self._another(LENGTHS, self._length), self._another(STYLES, self._style), kind
            ),
            other=OtherQuery(query=match.query, view=match.view) if match else None,
        )

    def _another(self, options: Sequence[T], excluded: T) -> T:
        rest = [o for o in options if o != excluded]
        return rest[int(self._rng.random() * len(rest))]

    def _instruction(self, constraints: Sequence[Constraint], length: Length, style: Style, kind: Kind) -> Instruction:
        demands = tuple(map(Demand.of, constraints))
        return Instruction(constraints=demands, wording=compose(self._rng, constraints, length, style, kind))


def _with_denial(demands: Sequence[Constraint], others: Sequence[Constraint]) -> list[Constraint]:
    """The demands and the denial of one that the other side meets, if it is of another family."""
    families = {c.family for c in demands}
    return [*demands, *denials([c for c in others if c.family not in families][:1])]


_TASKS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "verifiable.topic": as_task(lambda inputs: _TopicWriter(inputs).write()),
    **PUBLISHED_TASKS,
    **INFOSEARCH_TASKS,
    **CUSTOM_TASKS,
    **JUDGING,
}
