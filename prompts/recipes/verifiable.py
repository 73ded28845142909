"""The recipe `verifiable`: topics whose every judgment can be checked, from a seed's own passages.

    seed --cut into blocks--> prompt --ask once--> two views, three instructions, another query --checked--> Topic

The two views both answer the query. Under the instruction I the first wins, under the reversed or dual instruction I'
the second (Dual-View's two rows); a poisoned instruction and a poisoned query give InF-IR's three rows. Whatever the
model, `Constraint.holds` has the last word: a reply whose constraints do not hold as claimed is rejected.
One and a half to two milliseconds a topic with the rule writer on passages of 100 words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Literal

from pydantic import Field, field_validator

from engine.errors import Rejected
from engine.ids import canonical_json, sha256_hex
from engine.protocols import Ask
from engine.settings import Settings
from engine.topic import Intent, IntentRole, Passage, PassageRole, Seed, Topic
from prompts.constraints.constraint import Constraint, all_hold, full_text
from prompts.constraints.detectors import fold_text
from prompts.constraints.families import FAMILIES, WEIGHTS
from prompts.constraints.instructions import LENGTHS, STYLES
from prompts.passages.answer_evidence import Evidence, answering, evidence_in
from prompts.passages.blocks import cut
from prompts.passages.reply_types import checked
from prompts.passages.seed_material import distinct, non_relevant
from prompts.passages.topic_builder import Matrix
from prompts.passages.views import Blocks, Instruction, OtherQuery, TopicAnswer, View, refused
from prompts.render import load

VERSION = "2"
"""Raised when the same seed, settings and template would give other topics."""

_MAX_POSITIVES = 5
_NEGATIVE_CHARS = 1500


class VerifiableSettings(Settings):
    """How topics are drawn. All shares are of topics, drawn by the hash of the seed."""

    kind: Literal["verifiable"] = "verifiable"
    dual_share: float = Field(
        default=0.6, ge=0, le=1, description="how often the other view has a demand of its own, instead of the opposite"
    )
    denied_share: float = Field(
        default=0.3, ge=0, le=1, description="how often two demands of their own both say what must not be there"
    )
    constraint_weights: tuple[float, float, float] = Field(
        default=(5.0, 3.5, 1.5),
        description="how often an instruction has one, two, three constraints, relative to each other",
    )
    length_weights: tuple[float, float, float, float] = Field(
        default=(1.0, 1.0, 1.0, 1.0), description="how often short, medium, long, very long, relative to each other"
    )
    family_weights: Mapping[str, float] = Field(
        default={}, description="overrides of how soon a constraint family is tried; 0 leaves a family out"
    )
    view_chars: int = Field(
        default=800, ge=200, le=6000, description="characters of an edited view, about four a word piece"
    )
    negatives: int = Field(default=3, ge=0, description="seed negatives kept in the topic; twice as many are looked at")

    @field_validator("family_weights")
    @classmethod
    def _known(cls, weights: Mapping[str, float]) -> Mapping[str, float]:
        wrong = [name for name, weight in weights.items() if name not in FAMILIES or weight < 0]
        if wrong:
            raise ValueError(
                f"{wrong[0]!r} is no constraint family with a weight of 0 or more; use {', '.join(FAMILIES)}"
            )
        return weights


class Verifiable:
    """Implements `engine.protocols.Recipe`. Rejected with `no_positive`, `empty_query`, what the writer refuses with
    (`one_block`, `no_contrast`), or, for a reply that claims what is not so, `bad_view`, `bad_constraint`,
    `constraint_not_held`, `value_not_named`, `same_instruction`, `same_passage`, `other_answers`."""

    name = "verifiable"

    def __init__(self, settings: VerifiableSettings) -> None:
        self._settings = settings
        self._template = load("verifiable/topic")
        self._weights = {f: w for f, w in ({**WEIGHTS, **settings.family_weights}).items() if w > 0}
        self.fingerprint = sha256_hex(
            canonical_json([VERSION, self._template.digest, settings.model_dump(mode="json")])
        )

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        if not seed.query.strip():
            raise Rejected("empty_query", seed.id)
        if not seed.positives:
            raise Rejected("no_positive", seed.id)
        answers = seed.attributes.get("answer", ""), seed.attributes.get("answer_sentence", "")
        positives = [
            cut(f"P{i + 1}", p, seed.query, p.attributes.get("answer_sentence") or answers[1] or answers[0])
            for i, p in enumerate(distinct(seed.positives)[:_MAX_POSITIVES])
        ]
        negatives = [
            cut(f"N{i + 1}", p, p.attributes.get("query") or p.title, limit=_NEGATIVE_CHARS)
            for i, p in enumerate(non_relevant(seed)[: 2 * self._settings.negatives])
        ]
        drawn = self._draw(seed)
        prompt = self._template.render(query=seed.query, positives=positives, negatives=negatives, **drawn)
        answer = await ask(prompt, TopicAnswer)
        if answer.refusal:
            raise refused(answer.refusal)
        build = _Build(seed, answer, Blocks([*positives, *negatives]), drawn, evidence_in(positives))
        return [build.topic(self._settings.negatives)]

    def _draw(self, seed: Seed) -> Mapping[str, Any]:
        """Everything that varies between topics, from the hash of the seed alone."""
        rng = Random(int(sha256_hex(f"verifiable\x1f{seed.corpus}\x1f{seed.id}")[:16], 16))
        order = drawn_order(rng, self._weights)
        dual = rng.random() < self._settings.dual_share
        return {
            "count": _drawn(rng, (1, 2, 3), self._settings.constraint_weights),
            "length": _drawn(rng, LENGTHS, self._settings.length_weights),
            "style": _drawn(rng, STYLES, (1.0, 1.0, 1.0, 1.0)),
            "dual": dual,
            "denied": rng.random() < (self._settings.denied_share if dual else 0.5),
            "view_chars": self._settings.view_chars,
            "families": order,
            "variation": int(rng.random() * 2**32),
        }


def drawn_order(rng: Random, weights: Mapping[str, float] = WEIGHTS) -> tuple[str, ...]:
    """The families in the order in which they are tried: the heavier, the sooner."""
    return tuple(sorted(weights, key=lambda family: -(rng.random() ** (1.0 / weights[family]))))


def _drawn(rng: Random, options: Sequence[Any], weights: Sequence[float]) -> Any:
    return rng.choices(options, weights)[0]


class _Build:
    """A topic from an answer, every claim checked."""

    def __init__(
        self, seed: Seed, answer: TopicAnswer, blocks: Blocks, drawn: Mapping[str, Any], evidence: Evidence
    ) -> None:
        self._seed, self._answer, self._blocks, self._drawn, self._evidence = seed, answer, blocks, drawn, evidence
        self._matrix = Matrix("verifiable", seed)

    def topic(self, negatives: int) -> Topic:
        answer = self._answer
        if not (answer.first and answer.second and answer.instruction and answer.reverse and answer.poison):
            raise Rejected("bad_view", "the answer lacks a view or an instruction")
        d_plus = self._positive(answer.first, "seed_positive")
        d_minus = self._positive(answer.second, "instruction_negative")
        matrix = self._matrix
        matrix.passages(d_plus, d_minus)
        demand = _checked(answer.instruction, d_plus, d_minus)
        reverse = _checked(answer.reverse, d_minus, d_plus)
        _checked(answer.poison, d_minus, d_plus)
        p2 = self._negative(answer.other, demand, d_plus) if answer.other else None
        matrix.passages(*([p2] if p2 else []))
        others = matrix.new(non_relevant(self._seed), max(0, negatives - (p2 is not None)))

        original = matrix.intent("original", evidence=self._evidence)
        bare = [(d_plus, 1), (d_minus, 1), *([(p2, -1)] if p2 else []), *((p, -1) for p in others)]
        for passage, relevance in bare:
            matrix.judge(original, "construction" if passage.edited_from else "seed", (passage, relevance))
        opposed = {c.negate() for c in demand} >= set(reverse)
        instructed = self._intent("instructed", answer.instruction)
        turned = self._intent("reversed" if opposed else "dual", answer.reverse)
        poisoned = self._intent("poisoned_instruction", answer.poison)
        for intent, sign in ((instructed, 1), (turned, -1), (poisoned, -1)):
            matrix.judge(intent, "rule", (d_plus, sign), (d_minus, -sign))
        if p2 is not None and answer.other is not None:
            evidence = answering(self._blocks.owner(answer.other.view), answer.other.view)
            elsewhere = self._intent("poisoned_query", answer.instruction, answer.other.query, evidence)
            matrix.judge(elsewhere, "construction", (p2, 1), (d_plus, -1))
        return matrix.topic(rows="dual_view,inf_ir" if p2 else "dual_view")

    def _positive(self, view: View, role: PassageRole) -> Passage:
        """A view of a positive that keeps all of its answering blocks."""
        if not self._blocks.owner(view).name.startswith("P"):
            raise Rejected("bad_view", f"the view is one of {self._blocks.owner(view).name}, not of a positive")
        return self._whole(view, role)

    def _whole(self, view: View, role: PassageRole) -> Passage:
        """The passage of a view that keeps all answering blocks of what it is a view of."""
        owner = self._blocks.owner(view)
        missing = [b.label for b in owner.blocks if b.core and b.label not in view.blocks]
        if missing:
            raise Rejected("bad_view", f"a view of {owner.name} lacks the answering block {missing[0]}")
        return self._blocks.passage(view, role)

    def _negative(self, other: OtherQuery, demand: Sequence[Constraint], d_plus: Passage) -> Passage:
        """A view of a negative that obeys the instruction; its query is none that d+ or the seed's query answers."""
        owner = self._blocks.owner(other.view)
        if not owner.name.startswith("N"):
            raise Rejected("bad_view", f"the other query's passage is a view of {owner.name}, not of a negative")
        if fold_text(other.query) in (fold_text(self._seed.query), "") or fold_text(other.query) in fold_text(
            full_text(d_plus)
        ):
            raise Rejected("other_answers", f"the other query {other.query!r} is the seed's, or stands in d+")
        passage = self._whole(other.view, "query_negative")
        if not all_hold(demand, passage):
            raise Rejected("constraint_not_held", "the other query's passage does not obey the instruction")
        return passage

    def _intent(self, role: IntentRole, instruction: Instruction, query: str = "", evidence: Evidence = ()) -> Intent:
        drawn = self._drawn
        cell = {} if role == "poisoned_instruction" else {"length_format": drawn["length"], "style": drawn["style"]}
        constraints = [demand.constraint() for demand in instruction.constraints]
        evidence = evidence or self._evidence
        return self._matrix.intent(role, instruction.wording, query, constraints=constraints, evidence=evidence, **cell)


def _checked(instruction: Instruction, holds: Passage, fails: Passage) -> tuple[Constraint, ...]:
    """The instruction's constraints, which must all hold of one passage, and not all of the other."""
    return checked(instruction.constraints, instruction.wording, [holds], [fails])
