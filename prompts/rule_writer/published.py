"""How the rule writer answers the recipes of the published methods: from a seed's material, without reading prose.

    material --ruled--> P+ as it is, other passages that answer the query, and the constraints that part them
             --task--> the part of it that a prompt asks for

All that varies follows from the seed, so every request of a seed is answered from the same choice. About five
milliseconds a seed, once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from random import Random
from typing import Any

from pydantic import BaseModel

from engine.errors import RefusedRequestError
from engine.topic import Passage
from prompts.constraints.constraint import Constraint, all_hold, full_text
from prompts.constraints.families import FAMILIES, Kind
from prompts.constraints.instructions import compose
from prompts.passages.answer_evidence import answers
from prompts.passages.blocks import Cut, stems
from prompts.passages.reply_types import (
    Category,
    WrittenInstruction,
    WrittenNegative,
    WrittenPassage,
    WrittenPassages,
    WrittenQuery,
)
from prompts.passages.seed_material import Material
from prompts.passages.views import Demand, View
from prompts.recipes.verifiable import drawn_order
from prompts.rule_writer.other_query import Elsewhere, Found
from prompts.rule_writer.view_pairs import Pair, PairFinder

_WORD = re.compile(r"[A-Za-z]\w{2,}")
_ROOM = 20_000
_PAIRS = 24
_CONTRASTS = 5
_MOST_VIEWS = 12
_DIFFERENCES = 3


@dataclass(frozen=True, slots=True)
class Ruled:
    """What parts P+ from P1-: all of `demand` hold of P+ and not of P1-, all of `poison` of P1- and not of P+."""

    p_plus: Passage
    p1: Passage
    demand: tuple[Constraint, ...]
    poison: tuple[Constraint, ...]
    elsewhere: Found | None


@lru_cache(maxsize=512)
def ruled(known: Material, *, need_other: bool) -> Ruled | str:
    """The choice for a seed, or why there is none: `one_block`, `no_contrast`, `no_other`."""
    return _Search(known).first(need_other=need_other)


class _Search:
    """Goes through the pairs of which one side is P+ as it is."""

    def __init__(self, known: Material) -> None:
        self._known = known
        self._rng = Random(known.number("rule"))
        order = drawn_order(self._rng)
        self._finder = PairFinder(
            known.seed.query, known.positives, known.negatives, order, room=_ROOM, rng=self._rng, dual=False
        )
        self._elsewhere = Elsewhere(known.seed.query, known.negatives, self._finder, self._rng)

    def first(self, *, need_other: bool) -> Ruled | str:
        """The first pair that serves."""
        only = self._known.positives
        reason = "one_block" if len(only) == 1 and all(b.core for b in only[0].blocks) else "no_contrast"
        for pair in islice(self._pairs(), _PAIRS):
            for demand, poison in self._parted(pair):
                found = self._elsewhere.find(pair, demand) if need_other else None
                if found and not self._differs(pair.d_plus, found.passage):
                    found = None
                if found or not need_other:
                    return Ruled(pair.d_plus, pair.d_minus, demand, poison, found)
                reason = "no_other"
        return reason

    def _differs(self, p_plus: Passage, p2: Passage) -> bool:
        """Whether P2- leaves the seed's query unanswered, and three things set it apart that can be named."""
        here, there = full_text(p_plus), full_text(p2)
        named = len(_terms(there, here)) >= _DIFFERENCES and len(_terms(here, "")) >= _DIFFERENCES
        return named and not answers(self._known.evidence, p2)

    def _pairs(self) -> Iterator[Pair]:
        p_plus, first = self._known.positive, self._known.positives[0]
        others = [
            Pair(
                _all(first),
                _all(cut),
                p_plus,
                replace(cut.passage, role="instruction_negative"),
                (first.kind, cut.kind),
            )
            for cut in self._known.positives[1:]
        ]
        for found in chain(self._finder.shuffled(others), self._finder.pairs()):
            pair = found.turned() if found.d_minus.id == p_plus.id else found
            same_language = p_plus.attributes.get("language") == pair.d_minus.attributes.get("language")
            if pair.d_plus.id == p_plus.id and same_language and answers(self._known.evidence, pair.d_minus):
                yield pair

    def _parted(self, pair: Pair) -> Iterator[tuple[tuple[Constraint, ...], tuple[Constraint, ...]]]:
        """Demands that P+ meets and P1- breaks, each with a poison for which it is the other way round."""
        mine, theirs = (self._finder.contrasts(one, _CONTRASTS) for one in (pair, pair.turned()))
        shown = [(chosen, theirs[:1] or _denials(chosen[:1])) for chosen in (mine[:2], *([c] for c in mine)) if chosen]
        denied = [(_denials([c]), [c]) for c in theirs]
        either = [*denied, *shown] if self._rng.random() < 0.5 else [*shown, *denied]
        for demand, poison in either:
            for named in _named(pair.d_plus, pair.kinds[0]):
                yield (*named, *(c for c in demand if c not in named)), (*named[:1], *poison)


def _named(passage: Passage, kind: Kind) -> Sequence[tuple[Constraint, ...]]:
    """What an instruction for code says besides: its language and its approach, or the language alone."""
    if kind != "code":
        return [()]
    offered = [next(iter(FAMILIES[f].offer(passage.text, passage.attributes)), None) for f in ("language", "approach")]
    language = tuple(Constraint("language", value) for value in offered[:1] if value)
    approach = tuple(Constraint("approach", value) for value in offered[1:] if value)
    return [(*language, *approach), language] if approach else [language]


def _denials(constraints: Sequence[Constraint]) -> list[Constraint]:
    return [c.negate() for c in constraints]


# --- what the prompts ask for ---


def _instruction(told: Mapping[str, Any], constraints: Sequence[Constraint], purpose: str) -> WrittenInstruction:
    known: Material = told["material"]
    rng = Random(known.number(purpose))
    wording = compose(rng, constraints, told["length"], told["style"], known.positives[0].kind)
    demands = tuple(Demand(family=c.family, value=c.value, negated=c.negated) for c in constraints)
    return WrittenInstruction(instruction=wording, demands=demands)


def _found(told: Mapping[str, Any]) -> Ruled:
    found = ruled(told["material"], need_other=told["need_other"])
    if isinstance(found, str):
        raise RefusedRequestError(f"the rule writer found no pair for this seed: {found}; ask for an instruction first")
    return found


def _elsewhere(told: Mapping[str, Any]) -> Found:
    found = _found(told).elsewhere
    if found is None:
        raise RefusedRequestError("the rule writer found no other query for this seed; ask for an instruction first")
    return found


def _wanted(told: Mapping[str, Any]) -> WrittenInstruction:
    found = ruled(told["material"], need_other=told["need_other"])
    return WrittenInstruction(refusal=found) if isinstance(found, str) else _instruction(told, found.demand, "wanted")


def _poisoned_instruction(told: Mapping[str, Any]) -> WrittenInstruction:
    """An instruction that is not its own it cannot turn round: it does not read prose."""
    own = _wanted(told)
    if own.instruction != told["instruction"]:
        return WrittenInstruction(refusal=own.refusal or "foreign_instruction")
    return _instruction(told, _found(told).poison, "poison")


def _poisoned_query(told: Mapping[str, Any]) -> WrittenQuery:
    found = _elsewhere(told)
    here, there = full_text(_found(told).p_plus), full_text(found.passage)
    return WrittenQuery(
        aspects=tuple(_terms(here, "")[:_DIFFERENCES]),
        differences=tuple(f"about {term}" for term in _terms(there, here)[:_DIFFERENCES]),
        query=found.query,
        evidence=found.evidence,
    )


def _terms(text: str, known: str) -> list[str]:
    """Telling phrases of a text, phrases of several words first, none of whose words the known text has."""
    seen = stems(known)
    offered = [p for p in dict.fromkeys(FAMILIES["mentions"].offer(text, {})) if not stems(p) & seen]
    words = [w for w in dict.fromkeys(_WORD.findall(text)) if stems(w) and not stems(w) & seen]
    return [*sorted(offered, key=lambda p: " " not in p), *words]


def _passage(told: Mapping[str, Any]) -> WrittenPassage:
    negative = _found(told).p1 if told["role"] == "instruction_negative" else _elsewhere(told).passage
    return WrittenPassage(**_text(negative))


def _text(passage: Passage) -> dict[str, str]:
    return {"text": passage.text, "title": passage.title, "source": passage.edited_from or passage.id}


# --- Promptriever's passages ---


def _passages(told: Mapping[str, Any]) -> WrittenPassages:
    """Other passages that answer the query, sorted by whether they meet the demand."""
    found, known = _found(told), told["material"]
    pool = {p.id: p for p in (found.p1, *_views(known)) if p.id != found.p_plus.id}
    meet = [p for p in pool.values() if all_hold(found.demand, p)]
    broken = [p for p in pool.values() if not all_hold(found.demand, p)]
    negatives = tuple(_negative(p, found, known) for p in broken[: told["candidates"]])
    return WrittenPassages(positive=WrittenPassage(**_text(meet[0])) if meet else None, negatives=negatives)


def _views(known: Material) -> list[Passage]:
    """Passages that answer the query: P+ without one or two of its free blocks, and the other positives."""
    finder = PairFinder(
        known.seed.query, known.positives, known.negatives, drawn_order(Random(0)), room=_ROOM, rng=Random(0), dual=True
    )
    first, *others = known.positives
    free = [b for b in first.blocks if not b.core]
    left = [[b for b in free if b is not gone] for gone in free] + [free[::2], free[1::2]]
    views = [finder.blocks.passage(finder.view(first, kept), "instruction_negative") for kept in left if free]
    found = [p for p in (*views, *(cut.passage for cut in others)) if answers(known.evidence, p)]
    return found[:_MOST_VIEWS]


def _negative(passage: Passage, found: Ruled, known: Material) -> WrittenNegative:
    broken = next(c for c in found.demand if not c.holds(passage))
    category: Category = "omission"
    if broken.negated:
        category = "mentions_excluded"
    elif (passage.edited_from or passage.id) not in {known.positive.id, known.positive.edited_from}:
        category = "different_interpretation"
    return WrittenNegative(category=category, reason=f"the passage does not {broken.render()}"[:1000], **_text(passage))


# --- Dual-View's other instruction ---


def _dual(told: Mapping[str, Any]) -> WrittenInstruction:
    """What d- shows and d+ does not; the material's positives are d+ and d-."""
    known: Material = told["material"]
    d_plus, d_minus = known.positives
    rng = Random(known.number("dual"))
    finder = PairFinder(known.seed.query, known.positives, (), drawn_order(rng), room=_ROOM, rng=rng, dual=True)
    pair = Pair(_all(d_minus), _all(d_plus), d_minus.passage, d_plus.passage, (d_minus.kind, d_plus.kind))
    theirs = finder.contrasts(pair, 1) or _denials(finder.contrasts(pair.turned(), 1))
    if not theirs:
        return WrittenInstruction(refusal="no_contrast")
    return _instruction(told, theirs, "dual")


def _all(cut: Cut) -> View:
    return View(blocks=tuple(b.label for b in cut.blocks))


def _answer(write: Callable[[Mapping[str, Any]], BaseModel]) -> Callable[[Mapping[str, Any]], str]:
    return lambda told: write(told).model_dump_json(exclude_defaults=True)


PUBLISHED_TASKS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "infir.instruction": _answer(_wanted),
    "infir.poisoned_instruction": _answer(_poisoned_instruction),
    "infir.poisoned_query": _answer(_poisoned_query),
    "infir.passage": _answer(_passage),
    "promptriever.instruction": _answer(_wanted),
    "promptriever.passages": _answer(_passages),
    "dual_view.instruction": _answer(_dual),
}
