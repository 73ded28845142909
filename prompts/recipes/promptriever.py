"""The recipe `promptriever`: an instruction of a given length and style, and passages that only it can tell apart.

    (query, P+) -> instruction of one of 4 lengths x 4 styles -> one passage that fits it, some that fit the query alone

              P+ (or generated)  N1 N2 N3
    (none,q)  +1                 +1 +1 +1      the twin without an instruction
    (I,q)     +1                 -1 -1 -1

Promptriever, sections 2.1 and 2.2: the cell of the grid follows from the seed's hash, so the grid is balanced. Which of
the generated passages stay, and whether the generated positive takes the seed's place, is for the validator
`judge_relevance`. Section 5's ablations put an instruction that says nothing in the place of I. Two requests a seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from engine.errors import Rejected
from engine.ids import canonical_json, sha256_hex
from engine.protocols import Ask, Prompt
from engine.settings import Settings
from engine.topic import Passage, Seed, Topic
from prompts.constraints.instructions import LENGTHS, STYLES, Length, Style
from prompts.passages.reply_types import WrittenInstruction, WrittenPassages
from prompts.passages.seed_material import Material, material
from prompts.passages.topic_builder import Matrix
from prompts.render import load

VERSION = "1"
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
    passage_chars: int = Field(2_000, ge=200, description="characters of a passage; a longer positive is shortened")
    lengths: tuple[Length, ...] = Field(LENGTHS, min_length=1, description="the length formats of the grid")
    styles: tuple[Style, ...] = Field(STYLES, min_length=1, description="the styles of the grid")
    candidates: int = Field(
        5, ge=1, le=8, description="instruction negatives asked for; of those that a judge lets stand it keeps three"
    )
    negatives: int = Field(3, ge=0, description="seed negatives kept in the topic")
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
        self.fingerprint = sha256_hex(canonical_json([VERSION, digests, settings.model_dump(mode="json")]))

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        settings = self._settings
        known = material(seed, passage_chars=settings.passage_chars, negatives=max(4, 2 * settings.negatives))
        number = known.number("promptriever")
        length = settings.lengths[number % len(settings.lengths)]
        style = settings.styles[number // len(settings.lengths) % len(settings.styles)]
        if settings.ablation != "none":
            return [await self._ablated(known, ask, length, style)]
        written = await ask(self._asked(known, length, style), WrittenInstruction)
        written.checked([known.positive], [])
        instruction = written.instruction.strip()
        facts = self._facts(known, length, style)
        prompt = self._passages.render(facts, **_shown(known), instruction=instruction, candidates=settings.candidates)
        answer = await ask(prompt, WrittenPassages)
        return [self._topic(known, written, answer, length_format=length, style=style)]

    def _facts(self, known: Material, length: Length, style: Style) -> dict[str, Any]:
        return {"material": known, "length": length, "style": style, "need_other": False}

    def _asked(self, known: Material, length: Length, style: Style) -> Prompt:
        facts = self._facts(known, length, style)
        return self._instruction.render(facts, **_shown(known), length=length, style=style)

    def _topic(self, known: Material, written: WrittenInstruction, answer: WrittenPassages, **cell: str) -> Topic:
        originals = [cut.passage for cut in (*known.positives, *known.negatives)]
        fits = [answer.positive.passage("generated_positive", originals)] if answer.positive else []
        breaks = [
            one.passage("instruction_negative", originals, category=one.category, reason=one.reason)
            for one in answer.negatives[: self._settings.candidates]
        ]
        matrix = Matrix(self.name, known.seed)
        matrix.passages(known.positive)
        fits, breaks = matrix.new(fits, 1), matrix.new(breaks, self._settings.candidates)
        if not breaks:
            raise Rejected("no_negative", "no written passage differs from the positive and from the others")
        constraints = written.checked([known.positive, *fits], breaks)
        left = matrix.new([cut.passage for cut in known.negatives], self._settings.negatives)
        evidence = known.evidence if constraints else ()
        bare = matrix.intent("original", evidence=evidence)
        matrix.judge(bare, "seed", (known.positive, 1), *((p, -1) for p in left))
        matrix.judge(bare, "construction", *((p, 1) for p in (*fits, *breaks)))
        who = "rule" if constraints else "construction"
        asked = matrix.intent(
            "instructed", written.instruction.strip(), constraints=constraints, evidence=evidence, **cell
        )
        matrix.judge(asked, who, (known.positive, 1), *((p, 1) for p in fits), *((p, -1) for p in breaks))
        return matrix.topic(rows="promptriever")

    async def _ablated(self, known: Material, ask: Ask, length: Length, style: Style) -> Topic:
        """The pair and its negatives under an instruction that says nothing of them."""
        instruction = await self._ablation(known, ask, length, style)
        matrix = Matrix(self.name, known.seed)
        matrix.passages(known.positive)
        left = matrix.new([cut.passage for cut in known.negatives], self._settings.negatives)
        if not left:
            raise Rejected("no_negative", "an ablation contrasts the positive with seed negatives; the seed has none")
        twin = matrix.intent("original")
        for intent in (twin, matrix.intent("instructed", instruction, ablation=self._settings.ablation)):
            matrix.judge(intent, "seed", (known.positive, 1), *((p, -1) for p in left))
        return matrix.topic(rows="promptriever", ablation=self._settings.ablation)

    async def _ablation(self, known: Material, ask: Ask, length: Length, style: Style) -> str:
        if self._settings.ablation == "repeated_query":
            return known.seed.query
        if self._settings.ablation == "generic_instruction":
            return _GENERIC[known.number("generic") % len(_GENERIC)]
        other = next((cut.passage for cut in known.negatives if _query_of(cut.passage)), None)
        if other is None:
            raise Rejected("no_negative", "no negative has a query or title to borrow an instruction from")
        seed = Seed(f"{known.seed.id}\x1f{other.id}", known.seed.corpus, _query_of(other), (other,))
        borrowed = material(seed, passage_chars=self._settings.passage_chars, negatives=0)
        written = await ask(self._asked(borrowed, length, style), WrittenInstruction)
        written.checked([borrowed.positive], [])
        return written.instruction.strip()


def _shown(known: Material) -> dict[str, str]:
    """What both templates show first."""
    return {
        "kind": known.positives[0].kind,
        "query": known.seed.query,
        "title": known.positive.title,
        "passage": known.positive.text,
    }


def _query_of(passage: Passage) -> str:
    return passage.attributes.get("query", "") or passage.title
