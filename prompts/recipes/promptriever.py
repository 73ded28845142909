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
from typing import Literal

from pydantic import Field

from engine.errors import Rejected
from engine.ids import canonical_json
from engine.protocols import Ask, Prompt
from engine.settings import Settings
from engine.topic import Passage, PassageRole, Seed, Topic
from prompts.constraints.instructions import LENGTHS, STYLES, Length, Style
from prompts.passages.reply_checks import WORDS, check_passage, check_wording
from prompts.passages.reply_types import WrittenInstruction, WrittenNegative, WrittenPassage, WrittenPassages
from prompts.passages.seed_material import SeedMaterial, ShownPassage, build_material, others_shown
from prompts.passages.topic_builder import TopicBuilder
from prompts.render import load, recipe_fingerprint
from prompts.sampling import writing

VERSION = "13"
"""Raised when the same seed, settings and templates would give other topics."""

_WORDS = 170
"""A written passage of prose with its title, category and reason."""
_ALLOWED = (40, 250)
"""Words of a written passage of prose, of which about 100 are asked for."""
_EXACT = ("code", "mathematics")
_MOST_SHOWN = 3

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

    Rejected with `empty_query`, `no_positive`, the writer's own refusal (`no_answer`, `one_block`, `no_contrast`), or,
    for a reply that claims what is not so, `constraint_not_held`, `value_not_named`, `bad_constraint`,
    `same_instruction`, `same_passage`, `keeps_other_passages`, or the name of a check of free text
    (`prompts.passages.reply_checks`).
    Written passages that fail such a check are left out; `no_negative` where none is left, or no negative to borrow an
    instruction from.
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
        written = await self._instruction_of(material, ask, length, style)
        shared = _shared_inputs(material)
        prompt = self._passages.render(
            **shared, instruction=written.instruction.strip(), candidates=settings.candidates
        )
        words = max(_WORDS, 2 * len(shared["passage"].split()) if shared["kind"] in _EXACT else 0)
        prompt = writing(prompt, words * (settings.candidates + 1))
        answer = await ask(prompt, WrittenPassages, role="passage_writer")
        return [self._topic(material, written, answer, length, style)]

    async def _instruction_of(
        self, material: SeedMaterial, ask: Ask, length: Length, style: Style
    ) -> WrittenInstruction:
        """A checked instruction for the first positive."""
        prompt = writing(self._instruction_prompt(material, length, style), WORDS[length][1], temperature=0.9)
        written = await ask(prompt, WrittenInstruction, role="instruction_writer")
        written.check()
        written.check_ids("P1", [other.id for other in self._others(material)])
        check_wording(written.instruction, length)
        return written

    def _others(self, material: SeedMaterial) -> list[ShownPassage]:
        return others_shown(material, negatives=min(self._settings.negatives, _MOST_SHOWN))

    def _instruction_prompt(self, material: SeedMaterial, length: Length, style: Style) -> Prompt:
        shown = {"others": self._others(material), "length": length, "style": style}
        return self._instruction.render(**_shared_inputs(material), **shown)

    def _topic(
        self, material: SeedMaterial, written: WrittenInstruction, answer: WrittenPassages, length: Length, style: Style
    ) -> Topic:
        selection = _Selection(material)
        positives = selection.passages([answer.positive] if answer.positive else [], "generated_positive")
        violations = selection.passages(answer.negatives[: self._settings.candidates], "instruction_negative")
        topic = TopicBuilder(self.name, material.seed)
        topic.add_passages(material.positive)
        positives, violations = topic.add_new(positives, 1), topic.add_new(violations, self._settings.candidates)
        if not violations:
            why = "; ".join(selection.dropped) or "no written passage differs from the positive and from the others"
            raise Rejected("no_negative", why)
        negatives = topic.add_new(material.negative_passages, self._settings.negatives)
        original = topic.add_intent("original")
        topic.judge(original, "seed", (material.positive, 1), *((p, -1) for p in negatives))
        topic.judge(original, "construction", *((p, 1) for p in (*positives, *violations)))
        instructed = topic.add_intent("instructed", written.instruction.strip(), length_format=length, style=style)
        labels = [*((p, 1) for p in (material.positive, *positives)), *((p, -1) for p in violations)]
        topic.judge(instructed, "construction", *labels)
        dropped = {"dropped": canonical_json(selection.dropped)} if selection.dropped else {}
        return topic.build(rows="promptriever", **dropped)

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
        return (await self._instruction_of(donor, ask, length, style)).instruction.strip()


class _Selection:
    """The written passages that pass the checks of free text; `dropped` says why others did not."""

    def __init__(self, material: SeedMaterial) -> None:
        self._material, self._kept = material, [material.positive]
        self.dropped: list[str] = []

    def passages(self, written: Sequence[WrittenPassage], role: PassageRole) -> list[Passage]:
        """Those of one role, each checked against those before it."""
        return [passage for one in written if (passage := self._passage(one, role)) is not None]

    def _passage(self, written: WrittenPassage, role: PassageRole) -> Passage | None:
        material, kind = self._material, self._material.positives[0].kind
        language = {"language": material.positive.attributes.get("language", "")} if kind == "code" else {}
        why = written.failure if isinstance(written, WrittenNegative) else {}
        passage = written.to_passage(role, **{k: v for k, v in language.items() if v}, **why)
        answer = material.seed.attributes.get("answer", "")
        try:
            check_passage(passage, kind, others=self._kept, answer=answer, words=_ALLOWED)
        except Rejected as problem:
            self.dropped.append(f"{problem.reason}: {problem.detail}")
            return None
        self._kept.append(passage)
        return passage


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
