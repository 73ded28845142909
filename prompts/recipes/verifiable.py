"""The recipe `verifiable`: topics whose every judgment can be checked, from a seed's own passages. No model is asked.

    seed --cut into blocks--> prompts.rules --> two views, three instructions, another query --checked--> Topic

Both views answer the query. Under the instruction I the first is relevant, under the reversed or dual instruction I'
the second (Dual-View's two rows). A poisoned instruction and a poisoned query give InF-IR's three rows. Every
constraint is checked (`Constraint.holds`), and a topic whose constraints do not hold as claimed is rejected.
A topic takes up to two milliseconds on passages of 100 words.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from foil.engine.protocols import Ask
from foil.engine.settings import Settings
from foil.engine.topic import Intent, IntentRole, Seed, Topic
from foil.prompts.constraints.families import FAMILIES, WEIGHTS
from foil.prompts.constraints.instructions import LENGTHS, STYLES
from foil.prompts.passages.answer_evidence import Evidence
from foil.prompts.passages.blocks import BlockIndex
from foil.prompts.passages.seed_material import SeedMaterial, build_material, non_relevant
from foil.prompts.passages.topic_builder import TopicBuilder
from foil.prompts.render import recipe_fingerprint
from foil.prompts.rules.topic_writer import Choices, TopicWriter, WordedInstruction

VERSION = "17"
"""Raised when the same seed and settings would give other topics."""

_MAX_POSITIVES = 5
_NEGATIVE_CHARS = 1500
Weight = Annotated[float, Field(ge=0, le=1e6)]


class VerifiableSettings(Settings):
    """How topics are drawn. All shares are of topics, drawn by the hash of the seed."""

    kind: Literal["verifiable"] = "verifiable"
    dual_share: float = Field(
        0.9, ge=0, le=1, description="how often the other view has a demand of its own, instead of the opposite"
    )
    denied_share: float = Field(0.1, ge=0, le=1, description="how often instructions say what must not be there")
    constraint_weights: tuple[Weight, Weight, Weight] = Field(
        (5.0, 3.5, 1.5), description="how often an instruction has one, two, three constraints, relative to each other"
    )
    length_weights: tuple[Weight, Weight, Weight, Weight] = Field(
        (1.0, 1.0, 1.0, 1.0), description="how often short, medium, long, very long, relative to each other"
    )
    family_weights: Mapping[str, Weight] = Field(
        {}, description="overrides of how soon a constraint family is tried; 0 leaves a family out"
    )
    view_chars: int = Field(800, ge=200, le=6000, description="characters of an edited view, about four a word piece")
    negatives: int = Field(
        3, ge=0, le=1_000, description="seed negatives kept in the topic; twice as many are looked at"
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
    """Implements `engine.protocols.Recipe`. Rejected with `empty_query`, `no_positive`, `unreadable`, `no_answer`,
    `one_block`, `no_contrast`, `constraint_not_held`, `value_not_named`, `same_instruction` or `same_passage`."""

    name = "verifiable"

    def __init__(self, settings: VerifiableSettings) -> None:
        self._settings = settings
        self._weights = {f: w for f, w in ({**WEIGHTS, **settings.family_weights}).items() if w > 0}
        self.fingerprint = recipe_fingerprint(VERSION, [], settings)

    async def __call__(self, seed: Seed, _ask: Ask) -> Sequence[Topic]:
        material = build_material(
            seed,
            passage_chars=_NEGATIVE_CHARS,
            negatives=2 * self._settings.negatives,
            most_positives=_MAX_POSITIVES,
            shorten=False,
        )
        return [_topic(material, self._choices(material), self._settings.negatives)]

    def _choices(self, material: SeedMaterial) -> Choices:
        """Everything that varies between topics, from the hash of the seed alone. The order of the draws is fixed."""
        rng = Random(material.number("verifiable"))
        order = drawn_order(rng, self._weights)
        dual = rng.random() < self._settings.dual_share
        return Choices(
            count=_choose(rng, (1, 2, 3), self._settings.constraint_weights),
            length=_choose(rng, LENGTHS, self._settings.length_weights),
            style=_choose(rng, STYLES, (1.0, 1.0, 1.0, 1.0)),
            dual=dual,
            denied=rng.random() < self._settings.denied_share,
            view_chars=self._settings.view_chars,
            families=order,
            variation=int(rng.random() * 2**32),
        )


def drawn_order(rng: Random, weights: Mapping[str, float] = WEIGHTS) -> tuple[str, ...]:
    """The families in the order in which they are tried: the heavier, the sooner."""
    return tuple(sorted(weights, key=lambda family: -(rng.random() ** (1.0 / weights[family]))))


def _choose(rng: Random, options: Sequence[Any], weights: Sequence[float]) -> Any:
    return rng.choices(options, weights)[0]


def _topic(material: SeedMaterial, choices: Choices, most_negatives: int) -> Topic:
    """The topic of a seed, its constraints checked."""
    written = TopicWriter(material, choices).write()
    blocks, builder = BlockIndex(material.positives), TopicBuilder("verifiable", material.seed)
    d_plus = blocks.passage(written.first, "seed_positive")
    d_minus = blocks.passage(written.second, "instruction_negative")
    builder.add_passages(d_plus, d_minus)
    written.instruction.check(d_plus, d_minus)
    written.reverse.check(d_minus, d_plus)
    written.poison.check(d_minus, d_plus)
    p2 = [written.other_query.passage] if written.other_query else []
    builder.add_passages(*p2)
    negatives = builder.add_new(non_relevant(material.seed), max(0, most_negatives - len(p2)))

    def intent(role: IntentRole, instruction: WordedInstruction, query: str = "", evidence: Evidence = ()) -> Intent:
        cell: dict[str, str] = {}
        if role != "poisoned_instruction":
            cell = {"length_format": choices.length, "style": choices.style}
        constraints, evidence = instruction.constraints, evidence or material.evidence
        return builder.add_intent(
            role, instruction.wording, query, constraints=constraints, evidence=evidence, attributes=cell
        )

    original = builder.add_intent("original", evidence=material.evidence)
    builder.judge(original, "seed", (d_plus, 1), (d_minus, 1), *((p, -1) for p in (*p2, *negatives)))
    is_opposite = {c.negate() for c in written.instruction.constraints} >= set(written.reverse.constraints)
    instructed = intent("instructed", written.instruction)
    second_view = intent("reversed" if is_opposite else "dual", written.reverse)
    poisoned = intent("poisoned_instruction", written.poison)
    for view, sign in ((instructed, 1), (second_view, -1), (poisoned, -1)):
        builder.judge(view, "rule", (d_plus, sign), (d_minus, -sign))
    if match := written.other_query:
        poisoned_query = intent("poisoned_query", written.instruction, match.query, match.evidence)
        builder.judge(poisoned_query, "construction", (match.passage, 1), (d_plus, -1))
    return builder.build(rows="dual_view,inf_ir" if p2 else "dual_view")
