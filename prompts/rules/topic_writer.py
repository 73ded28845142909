"""Topics by rules, for the recipe `verifiable`: no model is asked, and equal choices give equal topics.

Two views of the positives that both keep the answering blocks, and constraints that hold of one and fail of the other,
worded in English; a negative for another query. About a millisecond for passages of 100 words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from foil.engine.errors import Rejected
from foil.engine.topic import Passage
from foil.prompts.constraints.constraint import Constraint, dump_constraints, surely_broken, surely_hold
from foil.prompts.constraints.detectors import fold_text
from foil.prompts.constraints.families import FAMILIES, Kind
from foil.prompts.constraints.instructions import LENGTHS, STYLES, Length, Style, compose
from foil.prompts.passages.blocks import View
from foil.prompts.passages.seed_material import SeedMaterial
from foil.prompts.rules.other_query import OtherQueryFinder, OtherQueryMatch
from foil.prompts.rules.view_pairs import ViewPair, ViewPairFinder, deniable, denials

T = TypeVar("T")

_TRIES = 4
"""Pairs tried for a second view with a demand of its own, before a pair without one is taken."""
_DENIAL_BESIDE = 0.2
"""How often an instruction of several demands also excludes what the other side shows."""
_REASONS: Mapping[str, str] = {
    "no_answer": "no positive is surely about the query",
    "one_block": "the one positive has no part but those that answer",
    "no_contrast": "no constraint surely holds of one view that answers and fails of another",
}


@dataclass(frozen=True, slots=True)
class Choices:
    """What varies between topics. `families` are tried in their order; `view_chars` are characters of an edited view.

    `dual`: the other view has a demand of its own; `denied`: instructions say what must not be there. All other draws
    follow from `variation`.
    """

    count: int
    length: Length
    style: Style
    dual: bool
    denied: bool
    view_chars: int
    families: tuple[str, ...]
    variation: int


@dataclass(frozen=True, slots=True)
class WordedInstruction:
    """An instruction and the constraints behind it."""

    constraints: tuple[Constraint, ...]
    wording: str

    def check(self, holds: Passage, fails: Passage) -> None:
        """All constraints surely hold of one passage, one is surely broken by the other, and the wording names them.

        Raises Rejected (`constraint_not_held`, `value_not_named`).
        """
        if not (surely_hold(self.constraints, holds) and surely_broken(self.constraints, fails)):
            raise Rejected("constraint_not_held", dump_constraints(self.constraints))
        folded = fold_text(self.wording)
        for constraint in self.constraints:
            family = FAMILIES[constraint.family]
            names = (constraint.value, family.describe_value(constraint.value)) if family.free else ("",)
            if not any(fold_text(name) in folded for name in names):
                raise Rejected("value_not_named", f"the instruction does not name {constraint.value!r}")


@dataclass(frozen=True, slots=True)
class WrittenTopic:
    """Two views that both answer the query, the instructions that part them, and another query."""

    first: View
    second: View
    instruction: WordedInstruction
    reverse: WordedInstruction
    poison: WordedInstruction
    other_query: OtherQueryMatch | None


@dataclass(frozen=True, slots=True)
class ContrastedPair:
    """A pair with what d+ alone shows (`plus_only`, never empty) and what d- alone shows (`minus_only`)."""

    pair: ViewPair
    plus_only: list[Constraint]
    minus_only: list[Constraint]


class TopicWriter:
    """One seed's work."""

    def __init__(self, material: SeedMaterial, choices: Choices) -> None:
        self._query, self._negatives, self._choices = material.seed.query, material.negatives, choices
        self._rng = Random(choices.variation)
        self._pairs = ViewPairFinder(
            self._query,
            material.positives,
            material.negatives,
            choices.families,
            room=choices.view_chars,
            rng=self._rng,
            dual=choices.dual,
        )

    def write(self) -> WrittenTopic:
        """The topic. Raises Rejected (`no_answer`, `one_block`, `no_contrast`)."""
        fallback: ContrastedPair | None = None
        for attempt, pair in enumerate(self._pairs.pairs()):
            contrasted = self._contrast(pair)
            if contrasted is not None and (contrasted.minus_only or not self._choices.dual):
                return self._topic(contrasted)
            fallback = fallback or contrasted
            if fallback is not None and attempt >= _TRIES:
                break
        if fallback is not None:
            return self._topic(fallback)
        reason = self._pairs.reason()
        raise Rejected(reason, _REASONS[reason])

    def _contrast(self, pair: ViewPair) -> ContrastedPair | None:
        """What d+ shows and d- lacks, and the other way round; None where nothing tells them apart."""
        count, dual = self._choices.count, self._choices.dual
        plus_only = self._pairs.contrasts(pair, count)
        minus_only = self._pairs.contrasts(pair.swapped(), count + 1)
        if plus_only and minus_only and dual:
            return ContrastedPair(pair, plus_only, minus_only)
        if deniable(plus_only):
            return ContrastedPair(pair, deniable(plus_only), minus_only)
        minus_only = deniable(minus_only[:count])
        return ContrastedPair(pair.swapped(), minus_only, []) if minus_only else None

    def _topic(self, contrasted: ContrastedPair) -> WrittenTopic:
        """Instructions for a pair: what one side shows is demanded or, denied, excluded."""
        pair, plus_only, minus_only = contrasted.pair, contrasted.plus_only, contrasted.minus_only
        count, denied = self._choices.count, self._choices.denied
        if minus_only and self._choices.dual:
            instruction, reverse, poison = plus_only, minus_only[:count], minus_only[-1:]
            if denied and deniable(reverse) and deniable(plus_only):
                instruction, reverse, poison = denials(reverse)[:1], denials(plus_only)[:1], denials(plus_only)[-1:]
            elif count > 1 and self._rng.random() < _DENIAL_BESIDE:
                instruction = _with_denial(plus_only[: count - 1], minus_only)
                reverse = _with_denial(minus_only[: count - 1], plus_only)
        else:
            instruction, reverse, poison = plus_only, denials(plus_only)[:1], minus_only[:1] or denials(plus_only[:1])
            if denied:
                pair, instruction, reverse, poison = pair.swapped(), reverse, plus_only, plus_only[:1]
        length, style, kind = self._choices.length, self._choices.style, pair.kind
        match = OtherQueryFinder(self._query, self._negatives, self._pairs).find(pair, instruction)
        return WrittenTopic(
            first=pair.first,
            second=pair.second,
            instruction=self._instruction(instruction, length, style, kind),
            reverse=self._instruction(reverse, length, style, kind),
            poison=self._instruction(poison, self._another(LENGTHS, length), self._another(STYLES, style), kind),
            other_query=match,
        )

    def _another(self, options: Sequence[T], excluded: T) -> T:
        rest = [o for o in options if o != excluded]
        return rest[int(self._rng.random() * len(rest))]

    def _instruction(
        self, constraints: Sequence[Constraint], length: Length, style: Style, kind: Kind
    ) -> WordedInstruction:
        return WordedInstruction(tuple(constraints), compose(self._rng, constraints, length, style, kind))


def _with_denial(demands: Sequence[Constraint], opposite: Sequence[Constraint]) -> list[Constraint]:
    """The demands and the denial of one that the other side meets, if it is of another family."""
    families = {c.family for c in demands}
    return [*demands, *denials([c for c in opposite if c.family not in families][:1])]
