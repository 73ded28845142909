"""How the rule writer answers the recipes of the published methods: from a seed's material, without reading prose.

    material --choose_pair--> P+ as it is, a passage that also answers the query, the constraints that tell them apart
             --task--> the part of that choice which a prompt asks for

All that varies follows from the seed, so every request of a seed is answered from the same choice. About five
milliseconds a seed, once.
"""

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
from prompts.constraints.constraint import Constraint, full_text, surely_broken, surely_hold
from prompts.constraints.families import FAMILIES, Kind
from prompts.constraints.instructions import compose
from prompts.passages.answer_evidence import answers
from prompts.passages.blocks import SourcePassage, is_about, stems
from prompts.passages.reply_types import (
    Category,
    ContrastedPassage,
    Demand,
    PoisonedInstruction,
    View,
    WrittenInstruction,
    WrittenNegative,
    WrittenPassage,
    WrittenPassages,
    WrittenQuery,
)
from prompts.passages.seed_material import SeedMaterial
from prompts.recipes.verifiable import drawn_order
from prompts.rule_writer.other_query import OtherQueryFinder, OtherQueryMatch
from prompts.rule_writer.view_pairs import ViewPair, ViewPairFinder, deniable, denials

_WORD = re.compile(r"[A-Za-z]\w{2,}")
_ROOM = 20_000
_PAIRS = 24
_CONTRASTS = 5
_DENIED = 0.15
"""How often a demand is looked for first among what P+ lacks."""
_MOST_VIEWS = 12
_DIFFERENCES = 3


@dataclass(frozen=True, slots=True)
class RuleChoice:
    """What tells P+ from P1-: all of `demand` hold of P+ and not of P1-, all of `poison` of P1- and not of P+."""

    p_plus: Passage
    p1: Passage
    kind: Kind
    demand: tuple[Constraint, ...]
    poison: tuple[Constraint, ...]
    other_query: OtherQueryMatch | None


@lru_cache(maxsize=512)
def choose_pair(material: SeedMaterial, *, need_other: bool) -> RuleChoice | str:
    """The choice for a seed, or why there is none: `no_answer`, `one_block`, `no_contrast`, `no_other`."""
    return _PairSearch(material).first(need_other=need_other)


class _PairSearch:
    """Goes through the pairs of which one side is P+ as it is."""

    def __init__(self, material: SeedMaterial) -> None:
        self._material = material
        self._rng = Random(material.number("rule"))
        order = drawn_order(self._rng)
        self._finder = ViewPairFinder(
            material.seed.query, material.positives, material.negatives, order, room=_ROOM, rng=self._rng, dual=False
        )
        self._other_queries = OtherQueryFinder(material.seed.query, material.negatives, self._finder)

    def first(self, *, need_other: bool) -> RuleChoice | str:
        """The first pair that serves."""
        reason = self._finder.reason()
        for pair in islice(self._pairs(), _PAIRS):
            for demand, poison in self._demands(pair):
                match = self._other_queries.find(pair, demand) if need_other else None
                if match and not self._differs(pair.d_plus, match.passage):
                    match = None
                if match or not need_other:
                    return RuleChoice(pair.d_plus, pair.d_minus, pair.kind, demand, poison, match)
                reason = "no_other"
        return reason

    def _differs(self, p_plus: Passage, p2: Passage) -> bool:
        """Whether P2- leaves the seed's query unanswered, and enough terms set each apart from the other."""
        plus_text, other_text = full_text(p_plus), full_text(p2)
        enough = len(_terms(other_text, plus_text)) >= _DIFFERENCES and len(_terms(plus_text, "")) >= _DIFFERENCES
        return enough and not answers(self._material.evidence, p2)

    def _pairs(self) -> Iterator[ViewPair]:
        query, p_plus, (first, *others) = self._material.seed.query, self._material.positive, self._material.positives
        whole = [
            ViewPair(
                View(blocks=first.labels),
                View(blocks=other.labels),
                p_plus,
                replace(other.passage, role="instruction_negative"),
                (first.kind, other.kind),
            )
            for other in others
            if other.kind == first.kind and is_about(query, other.passage)
        ]
        if not is_about(query, p_plus):
            return
        for candidate in chain(self._finder.shuffled(whole), self._finder.pairs()):
            pair = candidate.swapped() if candidate.d_minus.id == p_plus.id else candidate
            same_language = p_plus.attributes.get("language") == pair.d_minus.attributes.get("language")
            if pair.d_plus.id == p_plus.id and same_language and answers(self._material.evidence, pair.d_minus):
                yield pair

    def _demands(self, pair: ViewPair) -> Iterator[tuple[tuple[Constraint, ...], tuple[Constraint, ...]]]:
        """Demands that P+ meets and P1- breaks, each with a poison for which it is the other way round."""
        plus_only, minus_only = (self._finder.contrasts(p, _CONTRASTS) for p in (pair, pair.swapped()))
        demands = [chosen for chosen in (plus_only[:2], *([c] for c in plus_only)) if chosen]
        affirmed = [(demand, minus_only[:1] or denials(demand)[:1]) for demand in demands]
        affirmed = [(demand, poison) for demand, poison in affirmed if poison]
        denied = [(denials([c]), [c]) for c in deniable(minus_only)]
        for demand, poison in [*denied, *affirmed] if self._rng.random() < _DENIED else [*affirmed, *denied]:
            for fixed in _code_constraints(pair.d_plus, pair.kind):
                yield (*fixed, *(c for c in demand if c not in fixed)), (*fixed[:1], *poison)


def _code_constraints(passage: Passage, kind: Kind) -> Sequence[tuple[Constraint, ...]]:
    """What an instruction for code says besides: its language and its approach, or the language alone."""
    if kind != "code" or passage.attributes.get("library"):
        return [()]
    offered = [
        next(iter(FAMILIES[f].detector.offer(passage.text, passage.attributes)), None) for f in ("language", "approach")
    ]
    language = tuple(Constraint("language", value) for value in offered[:1] if value)
    approach = tuple(Constraint("approach", value) for value in offered[1:] if value)
    return [(*language, *approach), language] if approach else [language]


def _wording(inputs: Mapping[str, Any], constraints: Sequence[Constraint], purpose: str, kind: Kind) -> dict[str, Any]:
    """The fields of an instruction."""
    material: SeedMaterial = inputs["material"]
    rng = Random(material.number(purpose))
    wording = compose(rng, constraints, inputs["length"], inputs["style"], kind)
    aspects = tuple(constraint.render() for constraint in constraints)
    return {"instruction": wording, "demands": tuple(map(Demand.of, constraints)), "aspects": aspects, "refusal": ""}


def _refused(reason: str) -> WrittenInstruction:
    return WrittenInstruction(instruction="", refusal=reason, aspects=(), kept=(), excluded=())


def _kept_ids(demand: Sequence[Constraint], sources: Sequence[SourcePassage], shown: Sequence[str]) -> dict[str, Any]:
    """The ids of the passages that answer and meet the demand, and those of the others shown."""
    kept = [source.name for source in sources if source.name in shown and surely_hold(demand, source.passage)]
    return {"kept": tuple(kept), "excluded": tuple(name for name in shown if name not in kept)}


def _choice(inputs: Mapping[str, Any]) -> RuleChoice:
    choice = choose_pair(inputs["material"], need_other=inputs["need_other"])
    if isinstance(choice, str):
        raise RefusedRequestError(
            f"the rule writer found no pair for this seed: {choice}; ask for an instruction first"
        )
    return choice


def _other_query(inputs: Mapping[str, Any]) -> OtherQueryMatch:
    match = _choice(inputs).other_query
    if match is None:
        raise RefusedRequestError("the rule writer found no other query for this seed; ask for an instruction first")
    return match


def _wanted_instruction(inputs: Mapping[str, Any]) -> WrittenInstruction:
    choice = choose_pair(inputs["material"], need_other=inputs["need_other"])
    if isinstance(choice, str):
        return _refused(choice)
    material: SeedMaterial = inputs["material"]
    shown = [material.positives[0].name, *(other.id for other in inputs["others"])]
    ids = _kept_ids(choice.demand, material.positives, shown)
    return WrittenInstruction(**_wording(inputs, choice.demand, "wanted", choice.kind), **ids)


def _poisoned_instruction(inputs: Mapping[str, Any]) -> PoisonedInstruction:
    """An instruction that it did not write it cannot turn round: it does not read prose."""
    own = _wanted_instruction({**inputs, "others": ()})
    if own.instruction != inputs["instruction"]:
        reason = own.refusal or "foreign_instruction"
        return PoisonedInstruction(instruction="", refusal=reason, aspects=(), differences=())
    choice = _choice(inputs)
    plus_text, other_text = full_text(choice.p_plus), full_text(choice.p1)
    aspects = [*own.aspects, *_terms(plus_text, "")][:_DIFFERENCES]
    asked = [constraint.render() for constraint in choice.poison]
    differences = [*asked, *(f"about {term}" for term in _terms(other_text, plus_text))][:_DIFFERENCES]
    fields = _wording(inputs, choice.poison, "poison", choice.kind) | {"aspects": tuple(aspects)}
    return PoisonedInstruction(**fields, differences=tuple(differences))


def _poisoned_query(inputs: Mapping[str, Any]) -> WrittenQuery:
    match = _other_query(inputs)
    plus_text, other_text = full_text(_choice(inputs).p_plus), full_text(match.passage)
    return WrittenQuery(
        aspects=tuple(_terms(plus_text, "")[:_DIFFERENCES]),
        differences=tuple(f"about {term}" for term in _terms(other_text, plus_text)[:_DIFFERENCES]),
        query=match.query,
        refusal="",
        evidence=match.evidence,
    )


def _terms(text: str, other: str) -> list[str]:
    """Distinctive terms of a text, phrases of several words first, none of whose words the other text has."""
    other_stems = stems(other)
    phrases = [p for p in dict.fromkeys(FAMILIES["mentions"].detector.offer(text, {})) if not stems(p) & other_stems]
    words = [w for w in dict.fromkeys(_WORD.findall(text)) if stems(w) and not stems(w) & other_stems]
    return [*sorted(phrases, key=lambda p: " " not in p), *words]


def _passage(inputs: Mapping[str, Any]) -> ContrastedPassage:
    is_p1 = inputs["role"] == "instruction_negative"
    passage = _choice(inputs).p1 if is_p1 else _other_query(inputs).passage
    terms = _terms(full_text(passage), full_text(_choice(inputs).p_plus))[:_DIFFERENCES]
    return ContrastedPassage(**_fields_of(passage), differences=tuple(f"about {term}" for term in terms))


def _fields_of(passage: Passage) -> dict[str, str]:
    return {"text": passage.text, "title": passage.title, "source": passage.edited_from or passage.id}


def _passages(inputs: Mapping[str, Any]) -> WrittenPassages:
    """Other passages that answer the query, sorted by whether they meet the demand."""
    choice, material = _choice(inputs), inputs["material"]
    candidates = {p.id: p for p in (choice.p1, *_answering_passages(material)) if p.id != choice.p_plus.id}
    meeting = [p for p in candidates.values() if surely_hold(choice.demand, p)]
    breaking = [p for p in candidates.values() if surely_broken(choice.demand, p)]
    return WrittenPassages(
        conditions=tuple(constraint.render() for constraint in choice.demand),
        positive=WrittenPassage(**_fields_of(meeting[0])) if meeting else None,
        negatives=tuple(_negative(p, choice, material) for p in breaking[: inputs["candidates"]]),
    )


def _answering_passages(material: SeedMaterial) -> list[Passage]:
    """Passages that answer the query: P+ without some of its free blocks, if it may be cut, and other positives."""
    finder = ViewPairFinder(
        material.seed.query, material.positives, (), drawn_order(Random(0)), room=_ROOM, rng=Random(0), dual=True
    )
    first = material.positives[0]
    free = first.free_blocks if first.kind != "text" or first.is_core_sure else []
    subsets = [[b for b in free if b is not dropped] for dropped in free] + [free[::2], free[1::2]]
    views = [finder.blocks.passage(finder.view(first, kept), "instruction_negative") for kept in subsets if free]
    return [p for p in (*views, *material.positive_passages[1:]) if answers(material.evidence, p)][:_MOST_VIEWS]


def _negative(passage: Passage, choice: RuleChoice, material: SeedMaterial) -> WrittenNegative:
    broken = next(c for c in choice.demand if not c.holds(passage))
    p_plus = material.positive
    category: Category = "omission"
    if broken.negated:
        category = "mentions_excluded"
    elif (passage.edited_from or passage.id) not in {p_plus.id, p_plus.edited_from}:
        category = "different_interpretation"
    reason = f"the passage does not {broken.render()}"[:1000]
    return WrittenNegative(category=category, reason=reason, **_fields_of(passage))


def _dual_instruction(inputs: Mapping[str, Any]) -> WrittenInstruction:
    """What d- shows and d+ does not; the material's positives are d+ and d-."""
    material: SeedMaterial = inputs["material"]
    plus, minus = material.positives
    rng = Random(material.number("dual"))
    query, order = material.seed.query, drawn_order(rng)
    finder = ViewPairFinder(query, material.positives, (), order, room=_ROOM, rng=rng, dual=True)
    views = View(blocks=minus.labels), View(blocks=plus.labels)
    pair = ViewPair(*views, minus.passage, plus.passage, (minus.kind, plus.kind))
    constraints = finder.contrasts(pair, 1) or denials(finder.contrasts(pair.swapped(), 1))
    if not constraints:
        return _refused("no_contrast")
    return WrittenInstruction(
        **_wording(inputs, constraints, "dual", pair.kind), kept=(minus.name,), excluded=(plus.name,)
    )


def as_task(write: Callable[[Mapping[str, Any]], BaseModel]) -> Callable[[Mapping[str, Any]], str]:
    """The function that answers a task with JSON; fields at their default are left out."""
    return lambda inputs: write(inputs).model_dump_json(exclude_defaults=True)


PUBLISHED_TASKS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "infir.instruction": as_task(_wanted_instruction),
    "infir.poisoned_instruction": as_task(_poisoned_instruction),
    "infir.poisoned_query": as_task(_poisoned_query),
    "infir.passage": as_task(_passage),
    "promptriever.instruction": as_task(_wanted_instruction),
    "promptriever.passages": as_task(_passages),
    "dual_view.instruction": as_task(_dual_instruction),
}
