"""The recipe `verifiable`: topics whose every judgment can be checked, from a seed's own passages.

    seed --cut into blocks--> prompt --ask once--> two views, three instructions, another query --checked--> Topic

Both views answer the query. Under the instruction I the first is relevant, under the reversed or dual instruction I'
the second (Dual-View's two rows). A poisoned instruction and a poisoned query give InF-IR's three rows. A program
checks every constraint of a reply (`Constraint.holds`) and rejects a reply whose constraints do not hold as claimed.
With the rule writer a topic takes up to two milliseconds on passages of 100 words.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from engine.errors import Rejected
from engine.protocols import Ask
from engine.settings import Settings
from engine.topic import Intent, IntentRole, Passage, PassageRole, Seed, Topic
from prompts.constraints.constraint import Constraint, full_text, surely_hold
from prompts.constraints.detectors import fold_text
from prompts.constraints.families import FAMILIES, WEIGHTS
from prompts.constraints.instructions import LENGTHS, STYLES
from prompts.passages.answer_evidence import Evidence, evidence_of_view
from prompts.passages.reply_types import Instruction, OtherQuery, TopicAnswer, View, constraints_from, refusal_of
from prompts.passages.seed_material import SeedMaterial, build_material, non_relevant
from prompts.passages.topic_builder import TopicBuilder
from prompts.passages.views import BlockIndex
from prompts.render import load, recipe_fingerprint

VERSION = "17"
"""Raised when the same seed, settings and template would give other topics."""

_MAX_POSITIVES = 5
_NEGATIVE_CHARS = 1500
Weight = Annotated[float, Field(ge=0, le=1e6)]


class VerifiableSettings(Settings):
    """How topics are drawn. All shares are of topics, drawn by the hash of the seed."""

    kind: Literal["verifiable"] = "verifiable"
    dual_share: float = Field(
        default=0.9, ge=0, le=1, description="how often the other view has a demand of its own, instead of the opposite"
    )
    denied_share: float = Field(
        default=0.1, ge=0, le=1, description="how often instructions say what must not be there"
    )
    constraint_weights: tuple[Weight, Weight, Weight] = Field(
        default=(5.0, 3.5, 1.5),
        description="how often an instruction has one, two, three constraints, relative to each other",
    )
    length_weights: tuple[Weight, Weight, Weight, Weight] = Field(
        default=(1.0, 1.0, 1.0, 1.0), description="how often short, medium, long, very long, relative to each other"
    )
    family_weights: Mapping[str, Weight] = Field(
        default={}, description="overrides of how soon a constraint family is tried; 0 leaves a family out"
    )
    view_chars: int = Field(
        default=800, ge=200, le=6000, description="characters of an edited view, about four a word piece"
    )
    negatives: int = Field(
        default=3, ge=0, le=1_000, description="seed negatives kept in the topic; twice as many are looked at"
    )

    @field_validator("constraint_weights", "length_weights")
    @classmethod
    def _some(cls, weights: tuple[float, ...]) -> tuple[float, ...]:
        if not any(weights):
            raise ValueError("all weights are 0, so nothing could be drawn; give one more than 0")
        return weights

    @field_validator("family_weights")
    @classmethod
    def _known(cls, weights: Mapping[str, float]) -> Mapping[str, float]:
        unknown = [name for name in weights if name not in FAMILIES]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is no constraint family; use {', '.join(FAMILIES)}")
        return weights


class Verifiable:
    """Implements `engine.protocols.Recipe`. Rejected with `no_positive`, `empty_query`, what the writer refuses with
    (`no_answer`, `one_block`, `no_contrast`), or, for a reply that claims what is not so, `bad_view`, `bad_constraint`,
    `constraint_not_held`, `value_not_named`, `same_instruction`, `same_passage`, `other_answers`."""

    name = "verifiable"

    def __init__(self, settings: VerifiableSettings) -> None:
        self._settings = settings
        self._template = load("verifiable/topic")
        self._weights = {f: w for f, w in ({**WEIGHTS, **settings.family_weights}).items() if w > 0}
        self.fingerprint = recipe_fingerprint(VERSION, self._template.digest, settings)

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        material = build_material(
            seed,
            passage_chars=_NEGATIVE_CHARS,
            negatives=2 * self._settings.negatives,
            most_positives=_MAX_POSITIVES,
            shorten=False,
        )
        choices = self._choices(material)
        inputs = {"query": seed.query, "positives": material.positives, "negatives": material.negatives}
        answer = await ask(self._template.render(**inputs, **choices), TopicAnswer)
        if answer.refusal:
            raise refusal_of(answer.refusal)
        return [_TopicCheck(material, answer, choices).topic(self._settings.negatives)]

    def _choices(self, material: SeedMaterial) -> Mapping[str, Any]:
        """Everything that varies between topics, from the hash of the seed alone. The order of the draws is fixed."""
        rng = Random(material.number("verifiable"))
        order = drawn_order(rng, self._weights)
        dual = rng.random() < self._settings.dual_share
        return {
            "count": _choose(rng, (1, 2, 3), self._settings.constraint_weights),
            "length": _choose(rng, LENGTHS, self._settings.length_weights),
            "style": _choose(rng, STYLES, (1.0, 1.0, 1.0, 1.0)),
            "dual": dual,
            "denied": rng.random() < self._settings.denied_share,
            "view_chars": self._settings.view_chars,
            "families": order,
            "variation": int(rng.random() * 2**32),
        }


def drawn_order(rng: Random, weights: Mapping[str, float] = WEIGHTS) -> tuple[str, ...]:
    """The families in the order in which they are tried: the heavier, the sooner."""
    return tuple(sorted(weights, key=lambda family: -(rng.random() ** (1.0 / weights[family]))))


def _choose(rng: Random, options: Sequence[Any], weights: Sequence[float]) -> Any:
    return rng.choices(options, weights)[0]


class _TopicCheck:
    """Makes a topic from an answer, and checks every claim."""

    def __init__(self, material: SeedMaterial, answer: TopicAnswer, choices: Mapping[str, Any]) -> None:
        self._material, self._answer, self._choices = material, answer, choices
        self._blocks = BlockIndex([*material.positives, *material.negatives])
        self._builder = TopicBuilder("verifiable", material.seed)

    def topic(self, most_negatives: int) -> Topic:
        answer, builder = self._answer, self._builder
        if not (answer.first and answer.second and answer.instruction and answer.reverse and answer.poison):
            raise Rejected("bad_view", "the answer lacks a view or an instruction")
        d_plus = self._positive(answer.first, "seed_positive")
        d_minus = self._positive(answer.second, "instruction_negative")
        builder.add_passages(d_plus, d_minus)
        demand = answer.instruction.check(d_plus, d_minus)
        reverse = answer.reverse.check(d_minus, d_plus)
        answer.poison.check(d_minus, d_plus)
        p2 = [self._negative(answer.other, demand, d_plus)] if answer.other else []
        builder.add_passages(*p2)
        negatives = builder.add_new(non_relevant(self._material.seed), max(0, most_negatives - len(p2)))

        original = builder.add_intent("original", evidence=self._material.evidence)
        builder.judge(original, "seed", (d_plus, 1), (d_minus, 1), *((p, -1) for p in (*p2, *negatives)))
        is_opposite = {c.negate() for c in demand} >= set(reverse)
        instructed = self._intent("instructed", answer.instruction)
        second_view = self._intent("reversed" if is_opposite else "dual", answer.reverse)
        poisoned = self._intent("poisoned_instruction", answer.poison)
        for intent, sign in ((instructed, 1), (second_view, -1), (poisoned, -1)):
            builder.judge(intent, "rule", (d_plus, sign), (d_minus, -sign))
        if answer.other:
            self._judge_other_query(answer.instruction, answer.other, p2[0], d_plus)
        return builder.build(rows="dual_view,inf_ir" if p2 else "dual_view")

    def _judge_other_query(self, instruction: Instruction, other: OtherQuery, p2: Passage, d_plus: Passage) -> None:
        evidence = evidence_of_view(self._blocks.source(other.view), other.view.blocks)
        intent = self._intent("poisoned_query", instruction, other.query, evidence)
        self._builder.judge(intent, "construction", (p2, 1), (d_plus, -1))

    def _positive(self, view: View, role: PassageRole) -> Passage:
        """A view of a positive that keeps all of its answering blocks."""
        source = self._blocks.source(view)
        if not source.name.startswith("P"):
            raise Rejected("bad_view", f"the view is one of {source.name}, not of a positive")
        return self._answering_passage(view, role)

    def _answering_passage(self, view: View, role: PassageRole) -> Passage:
        """The passage of a view that keeps all answering blocks of its source."""
        source = self._blocks.source(view)
        missing = [b.label for b in source.core_blocks if b.label not in view.blocks]
        if missing:
            raise Rejected("bad_view", f"a view of {source.name} lacks the answering block {missing[0]}")
        return self._blocks.passage(view, role)

    def _negative(self, other: OtherQuery, demand: Sequence[Constraint], d_plus: Passage) -> Passage:
        """A view of a negative that obeys the instruction; neither d+ nor the seed's query is about its query."""
        source, query = self._blocks.source(other.view), fold_text(other.query)
        if not source.name.startswith("N"):
            raise Rejected("bad_view", f"the other query's passage is a view of {source.name}, not of a negative")
        if query in (fold_text(self._material.seed.query), "") or query in fold_text(full_text(d_plus)):
            raise Rejected("other_answers", f"the other query {other.query!r} is the seed's, or stands in d+")
        passage = self._answering_passage(other.view, "query_negative")
        if not surely_hold(demand, passage):
            raise Rejected("constraint_not_held", "the other query's passage does not obey the instruction")
        return passage

    def _intent(self, role: IntentRole, instruction: Instruction, query: str = "", evidence: Evidence = ()) -> Intent:
        choices = self._choices
        cell = {} if role == "poisoned_instruction" else {"length_format": choices["length"], "style": choices["style"]}
        constraints, evidence = constraints_from(instruction.constraints), evidence or self._material.evidence
        return self._builder.add_intent(
            role, instruction.wording, query, constraints=constraints, evidence=evidence, **cell
        )
