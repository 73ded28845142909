"""The recipe `infir`: InF-IR's three rows, each query and instruction poisoned on its own (section 4.1, appendix H).

    (Q+, P+) -> I+ ;  -> I-  and  Q- ;  (I-, Q+) -> P1-  and  (I+, Q-) -> P2-

            P+   P1-  P2-
    (I+,Q+) +1   -1   -1
    (I-,Q+) -1   +1
    (I+,Q-) -1        +1

The original intent (the bare query) stands before them: P1- answers it, P2- does not. A seed takes five requests, one
after the other. The writer of I+ sees other passages, which I+ must exclude. For code the instruction names
language and approach, and the language stays the same. For a worked solution it names the strategy. A Robust04
narrative may be the instruction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from engine.errors import Rejected
from engine.protocols import Ask, Prompt
from engine.settings import Settings
from engine.topic import Passage, PassageRole, Seed, Topic
from prompts.constraints.detectors import fold_text
from prompts.constraints.instructions import LENGTHS, STYLES
from prompts.passages.reply_checks import WORDS, check_analysis, check_passage, check_wording
from prompts.passages.reply_types import (
    ContrastedPassage,
    PoisonedInstruction,
    WrittenInstruction,
    WrittenPassage,
    WrittenQuery,
)
from prompts.passages.seed_material import SeedMaterial, build_material, others_shown
from prompts.passages.topic_builder import TopicBuilder
from prompts.render import PromptTemplate, load, recipe_fingerprint
from prompts.sampling import writing

VERSION = "13"
"""Raised when the same seed, settings and templates would give other topics."""

_MOST_SHOWN = 3
_PASSAGE_WORDS = (60, 400)
"""Words that a written passage of prose is asked to have: as many as P+, within these bounds."""
_TEMPLATES = ("instruction", "poisoned_instruction", "poisoned_query", "passage")


class InfirSettings(Settings):
    """How InF-IR's rows are made."""

    kind: Literal["infir"] = "infir"
    passage_chars: int = Field(
        2_000, ge=200, le=500_000, description="characters of a passage; a longer positive is shortened"
    )
    distractors: int = Field(
        3, ge=0, le=1_000, description="seed negatives kept in the topic, as distractors of a judge too"
    )
    narrative_as_instruction: bool = Field(
        False, description="take a Robust04 topic's narrative for I+, rather than have one written"
    )


class Infir:
    """Implements `engine.protocols.Recipe`.

    Rejected with `empty_query`, `no_positive`, the writer's own refusal (`no_answer`, `one_block`, `no_contrast`,
    `no_other`), or, for a reply that claims what is not so, `constraint_not_held`, `value_not_named`, `bad_constraint`,
    `same_instruction`, `same_query`, `same_passage`, `other_language`, `keeps_other_passages`, or the name of a check
    of free text (`prompts.passages.reply_checks`).
    """

    name = "infir"

    def __init__(self, settings: InfirSettings) -> None:
        self._settings = settings
        self._templates = {name: load(f"infir/{name}") for name in _TEMPLATES}
        digests = [template.digest for template in self._templates.values()]
        self.fingerprint = recipe_fingerprint(VERSION, digests, settings)

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        settings = self._settings
        material = build_material(seed, passage_chars=settings.passage_chars, negatives=2 * settings.distractors + 2)
        writer = _RowWriter(material, self._templates, ask, negatives=min(settings.distractors, _MOST_SHOWN))
        narrative = seed.attributes.get("narrative", "") if settings.narrative_as_instruction else ""
        return [_build(material, await writer.write(narrative), settings.distractors)]


@dataclass(frozen=True, slots=True)
class _Parts:
    """The replies of one topic, and the passages made of them."""

    wanted: WrittenInstruction
    poisoned: PoisonedInstruction
    other: WrittenQuery
    p1: Passage
    p2: Passage


class _RowWriter:
    """Asks for the parts of one seed's topic, one after the other."""

    def __init__(
        self, material: SeedMaterial, templates: Mapping[str, PromptTemplate], ask: Ask, *, negatives: int
    ) -> None:
        self._material, self._templates, self._ask = material, templates, ask
        self._others = others_shown(material, negatives=negatives)
        number = material.number("infir")
        self._length, self._style = LENGTHS[number % 2], STYLES[number // 2 % 4]
        words = len(material.positive.text.split())
        self._words = min(max(words, _PASSAGE_WORDS[0]), _PASSAGE_WORDS[1])

    async def write(self, narrative: str) -> _Parts:
        """All replies, checked one by one. A `narrative` stands in for I+."""
        wanted = _narrated(narrative) if narrative else await self._wanted_instruction()
        i_plus = wanted.instruction.strip()
        poisoned = await self._poisoned_instruction(i_plus)
        other = await self._poisoned_query(i_plus)
        query = self._material.seed.query
        p1 = await self._passage(poisoned.instruction.strip(), query, "instruction_negative")
        p2 = await self._passage(i_plus, other.query.strip(), "query_negative")
        return _Parts(wanted, poisoned, other, *self._checked_passages(p1, p2))

    async def _wanted_instruction(self) -> WrittenInstruction:
        """I+, which P+ meets and no other passage shown."""
        prompt = writing(self._prompt("instruction"), WORDS[self._length][1], temperature=0.9)
        wanted = await self._ask(prompt, WrittenInstruction, role="instruction_writer")
        wanted.check()
        wanted.check_ids("P1", [other.id for other in self._others])
        check_wording(wanted.instruction, self._length)
        return wanted

    async def _poisoned_instruction(self, i_plus: str) -> PoisonedInstruction:
        prompt = writing(self._prompt("poisoned_instruction", instruction=i_plus), WORDS[self._length][1])
        poisoned = await self._ask(prompt, PoisonedInstruction, role="instruction_writer")
        poisoned.check()
        if fold_text(poisoned.instruction) == fold_text(i_plus):
            raise Rejected("same_instruction", "the poisoned instruction is the instruction again")
        check_wording(poisoned.instruction, self._length)
        check_analysis(poisoned.aspects, poisoned.differences)
        return poisoned

    async def _poisoned_query(self, i_plus: str) -> WrittenQuery:
        words = 40 + 2 * len(self._material.seed.query.split())
        prompt = writing(self._prompt("poisoned_query", instruction=i_plus), words, temperature=0.9)
        other = await self._ask(prompt, WrittenQuery, role="instruction_writer")
        other.check()
        q_minus = other.query.strip()
        if fold_text(q_minus) in ("", fold_text(self._material.seed.query)):
            raise Rejected("same_query", f"the poisoned query {q_minus!r} is empty, or the seed's")
        return other

    async def _passage(self, instruction: str, query: str, role: PassageRole) -> WrittenPassage:
        prompt = self._prompt("passage", wanted_instruction=instruction, wanted_query=query, role=role)
        words = max(self._words, len(self._material.positive.text.split())) * 2
        return await self._ask(writing(prompt, words), ContrastedPassage, role="passage_writer")

    def _checked_passages(self, first: WrittenPassage, second: WrittenPassage) -> tuple[Passage, Passage]:
        """P1- is in the language of the code and none of the corpus's negatives; P2- is none of its positives."""
        material, language = self._material, self._language()
        p1 = first.to_passage("instruction_negative", **language)
        p2 = second.to_passage("query_negative", **language)
        for passage, sources in ((p1, material.negatives), (p2, material.positives)):
            if fold_text(passage.text) in {fold_text(source.passage.text) for source in sources}:
                raise Rejected("same_passage", f"the {passage.role} is a passage of the seed: {passage.text[:80]!r}")
        answer = material.seed.attributes.get("answer", "")
        self._check_text(p1, [material.positive], answer)
        self._check_text(p2, [material.positive, p1], "")
        return p1, p2

    def _check_text(self, passage: Passage, others: Sequence[Passage], answer: str) -> None:
        """A passage of free text: of the kind and about the length of P+, and no copy of another."""
        kind, bounds = self._material.positives[0].kind, (self._words // 3, self._words * 3)
        check_passage(passage, kind, others=others, answer=answer, words=bounds)

    def _language(self) -> dict[str, str]:
        """The language of code. A written solution is taken to be in it; one of the corpus must be."""
        language = self._material.positive.attributes.get("language", "")
        return {"language": language} if language and self._material.positives[0].kind == "code" else {}

    def _prompt(self, name: str, **inputs: str) -> Prompt:
        """The system message is the task's own, and the same for all seeds of a kind; then follows the seed."""
        material, positive, template = self._material, self._material.positive, self._templates[name]
        cell = {"length": self._length, "style": self._style}
        shared = {
            **cell,
            "kind": material.positives[0].kind,
            "query": material.seed.query,
            "title": positive.title,
            "passage": positive.text,
            "others": self._others,
            "language": positive.attributes.get("language", ""),
            "words": round(self._words, -1),
        }
        used = {key: value for key, value in shared.items() if key in template.variables}
        return template.render(**used, **inputs)


def _narrated(narrative: str) -> WrittenInstruction:
    """The instruction that comes with the seed."""
    written = WrittenInstruction(instruction=narrative, refusal="", aspects=(), kept=("P1",), excluded=())
    written.check()
    return written


def _build(material: SeedMaterial, parts: _Parts, distractors: int) -> Topic:
    """The matrix of the method."""
    p_plus, p1, p2 = material.positive, parts.p1, parts.p2
    i_plus, i_minus = parts.wanted.instruction.strip(), parts.poisoned.instruction.strip()
    topic = TopicBuilder(Infir.name, material.seed)
    topic.add_passages(p_plus, p1, p2)
    negatives = topic.add_new(material.negative_passages, distractors)
    original = topic.add_intent("original")
    topic.judge(original, "seed", (p_plus, 1), *((p, -1) for p in negatives))
    topic.judge(original, "construction", (p1, 1), (p2, -1))
    instructed = topic.add_intent("instructed", i_plus)
    topic.judge(instructed, "construction", (p_plus, 1), (p1, -1), (p2, -1))
    poisoned = topic.add_intent("poisoned_instruction", i_minus)
    topic.judge(poisoned, "construction", (p_plus, -1), (p1, 1))
    other_query = topic.add_intent(
        "poisoned_query",
        i_plus,
        parts.other.query.strip(),
        aspects="; ".join(parts.other.aspects),
        differences="; ".join(parts.other.differences),
    )
    topic.judge(other_query, "construction", (p_plus, -1), (p2, 1))
    return topic.build(rows="inf_ir")
