"""The recipe `promptriever`: an instruction of a given length and style, and passages that only it can tell apart.

    (query, P+) -> instruction of one of 4 lengths x 4 styles -> one passage that fits it, some that fit the query alone

              P+ (or generated)  N1 N2 N3
    (none,q)  +1                 +1 +1 +1      original: the query without an instruction
    (I,q)     +1                 -1 -1 -1

Promptriever, sections 2.1 and 2.2. The cell of the grid follows from the seed's hash, so the grid is balanced. The
validator `judge_relevance` decides which generated passages stay, and whether the generated positive replaces the
seed's. Section 5's ablations put an instruction that says nothing in the place of I. A seed takes two requests.
"""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from engine.errors import Rejected
from engine.protocols import Ask, Prompt
from engine.settings import Settings
from engine.topic import Passage, Seed, Topic
from prompts.constraints.instructions import LENGTHS, STYLES, Length, Style
from prompts.passages.reply_types import WrittenInstruction, WrittenPassages
from prompts.passages.seed_material import SeedMaterial, build_material
from prompts.passages.topic_builder import TopicBuilder
from prompts.render import load, recipe_fingerprint

VERSION = "5"
"""Raised when the same seed, settings and templates would give other topics."""

Ablation = Literal["none", "repeated_query", "generic_instruction", "swapped_instruction"]

_GENERIC = (
    "Rank the passages by how well they answer the question.",
    "Relevant is what helps to answer the question; everything else is not.",
    "Look for the passage that serves the searcher best.",
    "Find text that deals with what was asked.",
)


class PromptrieverSettings(Settings):
    """How Promptriever's topics are made."""

    kind: Literal["promptriever"] = "promptriever"
    passage_chars: int = Field(
        2_000, ge=200, le=500_000, description="characters of a passage; a longer positive is shortened"
    )
    lengths: tuple[Length, ...] = Field(LENGTHS, min_length=1, description="the length formats of the grid")
    styles: tuple[Style, ...] = Field(STYLES, min_length=1, description="the styles of the grid")
    candidates: int = Field(
        5, ge=1, le=8, description="instruction negatives asked for; of those that a judge lets stand it keeps three"
    )
    negatives: int = Field(3, ge=0, le=1_000, description="seed negatives kept in the topic")
    ablation: Ablation = Field(
        "none", description="what stands in the instruction's place; other than `none`, no passage is written"
    )


class Promptriever:
    """Implements `engine.protocols.Recipe`.

    Rejected with `empty_query`, `no_positive`, the writer's own refusal (`one_block`, `no_contrast`), or, for a reply
    that claims what is not so, `constraint_not_held`, `value_not_named`, `bad_constraint`, `same_instruction`,
    `same_passage`; `no_negative` where no written passage is left, or no negative to borrow an instruction from.
    """

    name = "promptriever"

    def __init__(self, settings: PromptrieverSettings) -> None:
        self._settings = settings
        self._instruction, self._passages = load("promptriever/instruction"), load("promptriever/passages")
        digests = [self._instruction.digest, self._passages.digest]
        self.fingerprint = recipe_fingerprint(VERSION, digests, settings)

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        settings = self._settings
        material = build_material(seed, passage_chars=settings.passage_chars, negatives=max(4, 2 * settings.negatives))
        number = material.number("promptriever")
        length = settings.lengths[number % len(settings.lengths)]
        style = settings.styles[number // len(settings.lengths) % len(settings.styles)]
        if settings.ablation != "none":
            return [await self._ablation_topic(material, ask, length, style)]
        written = await ask(self._instruction_prompt(material, length, style), WrittenInstruction)
        written.check([material.positive], [])
        instruction = written.instruction.strip()
        facts = self._facts(material, length, style)
        prompt = self._passages.render(
            facts, **_shared_inputs(material), instruction=instruction, candidates=settings.candidates
        )
        answer = await ask(prompt, WrittenPassages)
        return [self._topic(material, written, answer, length_format=length, style=style)]

    def _facts(self, material: SeedMaterial, length: Length, style: Style) -> dict[str, Any]:
        return {"material": material, "length": length, "style": style, "need_other": False}

    def _instruction_prompt(self, material: SeedMaterial, length: Length, style: Style) -> Prompt:
        facts = self._facts(material, length, style)
        return self._instruction.render(facts, **_shared_inputs(material), length=length, style=style)

    def _topic(
        self, material: SeedMaterial, written: WrittenInstruction, answer: WrittenPassages, **cell: str
    ) -> Topic:
        originals = [*material.positive_passages, *material.negative_passages]
        positives = [answer.positive.to_passage("generated_positive", originals)] if answer.positive else []
        violations = [
            negative.to_passage("instruction_negative", originals, category=negative.category, reason=negative.reason)
            for negative in answer.negatives[: self._settings.candidates]
        ]
        topic = TopicBuilder(self.name, material.seed)
        topic.add_passages(material.positive)
        positives, violations = topic.add_new(positives, 1), topic.add_new(violations, self._settings.candidates)
        if not violations:
            raise Rejected("no_negative", "no written passage differs from the positive and from the others")
        constraints = written.check([material.positive, *positives], violations)
        negatives = topic.add_new(material.negative_passages, self._settings.negatives)
        evidence = material.evidence if constraints else ()
        original = topic.add_intent("original", evidence=evidence)
        topic.judge(original, "seed", (material.positive, 1), *((p, -1) for p in negatives))
        topic.judge(original, "construction", *((p, 1) for p in (*positives, *violations)))
        judge = "rule" if constraints else "construction"
        instructed = topic.add_intent(
            "instructed", written.instruction.strip(), constraints=constraints, evidence=evidence, **cell
        )
        topic.judge(
            instructed, judge, (material.positive, 1), *((p, 1) for p in positives), *((p, -1) for p in violations)
        )
        return topic.build(rows="promptriever")

    async def _ablation_topic(self, material: SeedMaterial, ask: Ask, length: Length, style: Style) -> Topic:
        """The pair and its negatives under an instruction that says nothing about them."""
        instruction = await self._ablation_instruction(material, ask, length, style)
        topic = TopicBuilder(self.name, material.seed)
        topic.add_passages(material.positive)
        negatives = topic.add_new(material.negative_passages, self._settings.negatives)
        if not negatives:
            raise Rejected("no_negative", "an ablation contrasts the positive with seed negatives; the seed has none")
        original = topic.add_intent("original")
        for intent in (original, topic.add_intent("instructed", instruction, ablation=self._settings.ablation)):
            topic.judge(intent, "seed", (material.positive, 1), *((p, -1) for p in negatives))
        return topic.build(rows="promptriever", ablation=self._settings.ablation)

    async def _ablation_instruction(self, material: SeedMaterial, ask: Ask, length: Length, style: Style) -> str:
        if self._settings.ablation == "repeated_query":
            return material.seed.query
        if self._settings.ablation == "generic_instruction":
            return _GENERIC[material.number("generic") % len(_GENERIC)]
        other = next((passage for passage in material.negative_passages if _query_of(passage)), None)
        if other is None:
            raise Rejected("no_negative", "no negative has a query or title to borrow an instruction from")
        seed = Seed(f"{material.seed.id}\x1f{other.id}", material.seed.corpus, _query_of(other), (other,))
        donor = build_material(seed, passage_chars=self._settings.passage_chars, negatives=0)
        written = await ask(self._instruction_prompt(donor, length, style), WrittenInstruction)
        written.check([donor.positive], [])
        return written.instruction.strip()


def _shared_inputs(material: SeedMaterial) -> dict[str, str]:
    """What both templates begin with."""
    return {
        "kind": material.positives[0].kind,
        "query": material.seed.query,
        "title": material.positive.title,
        "passage": material.positive.text,
    }


def _query_of(passage: Passage) -> str:
    return passage.attributes.get("query", "") or passage.title
