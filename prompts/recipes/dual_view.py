"""The recipe `dual_view`: the other instruction, under which what was excluded is wanted and what was wanted is not.

    a seed with an instruction I, d+ and an instruction negative d-  -> I' ->      d+  d-
                                                                         (I ,q)    +1  -1
                                                                         (I',q)    -1  +1

Dual-View, section 2: both views stand in one topic, for one more request. The second instruction is as long as the
first, so that no length tells them apart. The seed must have an `instruction` and an
instruction negative. The topics of another run (`seeds: {kind: run}`) have both, and so have Promptriever's published
rows (`kind: msmarco`). For any other corpus `base` names the recipe that makes the first view. Under the original
intent, the bare query, both passages are relevant.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from engine.errors import Rejected
from engine.protocols import Ask, Recipe
from engine.settings import Settings
from engine.topic import Intent, Seed, Topic
from prompts.constraints.constraint import constraints_of, surely_broken, surely_hold
from prompts.constraints.instructions import STYLES
from prompts.passages.answer_evidence import answers, evidence_of
from prompts.passages.blocks import stems
from prompts.passages.reply_checks import WORDS, check_wording, length_of
from prompts.passages.reply_types import WrittenInstruction
from prompts.passages.seed_material import SeedMaterial, build_view_material, instruction_negatives
from prompts.passages.topic_builder import TopicBuilder
from prompts.recipes.infir import Infir, InfirSettings
from prompts.recipes.promptriever import Promptriever, PromptrieverSettings
from prompts.recipes.verifiable import Verifiable, VerifiableSettings
from prompts.render import load, recipe_fingerprint
from prompts.sampling import writing

VERSION = "13"
"""Raised when the same seed, settings and template would give other topics."""


_BASES: Mapping[str, Callable[[Any], Recipe]] = {
    "promptriever": Promptriever,
    "infir": Infir,
    "verifiable": Verifiable,
}


class DualViewSettings(Settings):
    """How the other view is made."""

    kind: Literal["dual_view"] = "dual_view"
    base: PromptrieverSettings | InfirSettings | VerifiableSettings | None = Field(
        None, discriminator="kind", description="the recipe of the first view, for seeds that have none"
    )
    passage_chars: int = Field(
        2_000, ge=200, le=500_000, description="characters of d+ and d- that the writer is shown"
    )
    instruction_negatives: int = Field(
        3, ge=1, le=8, description="instruction negatives kept in the topic, d- among them"
    )
    negatives: int = Field(30, ge=0, le=1_000, description="other negatives kept in the topic")
    most_alike: float = Field(
        0.8, gt=0, le=1, description="share of content words that two instructions may have in common (Jaccard)"
    )


class DualView:
    """Implements `engine.protocols.Recipe`.

    Rejected with `empty_query`, `no_positive`, `no_instruction` or `no_instruction_negative` where the seed has none of
    it, the writer's own refusal (`no_contrast`), or, for a reply that claims what is not so, `constraint_not_held`,
    `value_not_named`, `bad_constraint`, `same_instruction`, `keeps_other_passages`, or the name of a check of free text
    (`prompts.passages.reply_checks`).
    """

    name = "dual_view"

    def __init__(self, settings: DualViewSettings) -> None:
        self._settings = settings
        self._template = load("dual_view/instruction")
        self._base = _BASES[settings.base.kind](settings.base) if settings.base else None
        digests = [self._template.digest, self._base.fingerprint if self._base else ""]
        self.fingerprint = recipe_fingerprint(VERSION, digests, settings)

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        if self._base is None:
            return [await self._both_views(seed, ask)]
        return [await self._both_views(seed_of(topic), ask) for topic in await self._base(seed, ask)]

    async def _both_views(self, seed: Seed, ask: Ask) -> Topic:
        first = _instruction_of(seed)
        material = build_view_material(seed, passage_chars=self._settings.passage_chars)
        length = length_of(first.instruction)
        cell = {"length": length, "style": STYLES[material.number("dual_view") // 2 % 4]}
        d_plus, d_minus = material.positive_passages
        prompt = self._template.render(
            **cell,
            kind=material.positives[0].kind,
            query=seed.query,
            instruction=first.instruction,
            first=d_plus.text[: self._settings.passage_chars],
            first_title=d_plus.title,
            second=d_minus.text[: self._settings.passage_chars],
            second_title=d_minus.title,
        )
        prompt = writing(prompt, WORDS[length][1])
        written = await ask(prompt, WrittenInstruction, role="instruction_writer")
        return self._topic(material, first, written)

    def _topic(self, material: SeedMaterial, first: Intent, written: WrittenInstruction) -> Topic:
        d_plus, d_minus = material.positive_passages
        written.check()
        written.check_ids("P2", ["P1"])
        check_wording(written.instruction, length_of(first.instruction))
        second = written.instruction.strip()
        self._differ(first.instruction, second)
        demand, evidence = constraints_of(first), evidence_of(first)
        if demand and not (surely_hold(demand, d_plus) and surely_broken(demand, d_minus)):
            raise Rejected("constraint_not_held", f"the seed's own instruction: {first.attributes['constraints']}")
        evidence = evidence if all(answers(evidence, p) for p in (d_plus, d_minus)) else ()
        topic = TopicBuilder(self.name, material.seed)
        topic.add_passages(d_plus, d_minus)
        excluded = topic.add_new(instruction_negatives(material.seed), self._settings.instruction_negatives - 1)
        negatives = topic.add_new(material.negative_passages, self._settings.negatives)
        original = topic.add_intent("original", evidence=evidence)
        topic.judge(original, "seed", (d_plus, 1), *((p, -1) for p in negatives))
        topic.judge(original, "construction", *((p, 1) for p in (d_minus, *excluded)))
        instructed = topic.add_intent("instructed", first.instruction, constraints=demand, evidence=evidence)
        topic.judge(instructed, "rule" if demand else "seed", (d_plus, 1), (d_minus, -1))
        topic.judge(instructed, "seed", *((p, -1) for p in excluded))
        dual = topic.add_intent("dual", second, evidence=evidence)
        topic.judge(dual, "construction", (d_plus, -1), (d_minus, 1))
        dropped = {key: value for key, value in material.seed.attributes.items() if key == "dropped"}
        return topic.build(rows="dual_view", **dropped)

    def _differ(self, first: str, second: str) -> None:
        first_stems, second_stems = stems(first), stems(second)
        share = len(first_stems & second_stems) / max(1, len(first_stems | second_stems))
        if share > self._settings.most_alike:
            raise Rejected(
                "same_instruction", f"the two instructions share {share:.0%} of their content words: {second!r}"
            )


def _instruction_of(seed: Seed) -> Intent:
    """The instruction that comes with the seed, with its constraints and evidence where the seed has them."""
    instruction = seed.attributes.get("instruction", "").strip()
    if not instruction:
        raise Rejected("no_instruction", "the seed's attributes state no `instruction`")
    return Intent("", "instructed", instruction, seed.query, _checkable(seed.attributes))


def _checkable(attributes: Mapping[str, str]) -> dict[str, str]:
    """What a program needs to check an instruction, where it is known."""
    return {key: attributes[key] for key in ("constraints", "evidence") if key in attributes}


def seed_of(topic: Topic) -> Seed:
    """The topic's query with what its instructed intent wants and excludes, and what the bare query does not want."""
    instructed = next((i for i in topic.intents if i.role == "instructed"), topic.intents[0])
    labels = {(j.intent_id, j.passage_id): j.relevance for j in topic.judgments}
    original = next((i for i in topic.intents if not i.instruction and i.query == instructed.query), instructed)
    wanted = [p for p in topic.passages if labels.get((instructed.id, p.id), 0) > 0]
    unwanted = [p for p in topic.passages if labels.get((instructed.id, p.id), 0) < 0]
    excluded = [p for p in unwanted if p.role == "instruction_negative"]
    others = [p for p in topic.passages if p not in excluded and labels.get((original.id, p.id), 0) < 0]
    return Seed(
        id=topic.seed_id,
        corpus=topic.corpus,
        query=instructed.query,
        positives=tuple(wanted),
        negatives=(*excluded, *others),
        licence=topic.licence,
        redistributable=topic.redistributable,
        attributes={
            **topic.attributes,
            **_checkable(instructed.attributes),
            "instruction": instructed.instruction,
            "topic": topic.id,
        },
    )
