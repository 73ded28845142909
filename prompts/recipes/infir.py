"""The recipe `infir`: InF-IR's three rows, each query and instruction poisoned on its own (section 4.1, appendix H).

    (Q+, P+) -> I+ ;  -> I-  and  Q- ;  (I-, Q+) -> P1-  and  (I+, Q-) -> P2-

            P+   P1-  P2-
    (I+,Q+) +1   -1   -1
    (I-,Q+) -1   +1
    (I+,Q-) -1        +1

The bare query stands before them: P1- answers it, P2- does not. Five requests a seed, one after the other; the
long part that they share (rules, query, passage) comes first. Of code the instruction names language and approach, and
the language stays the same; of a worked solution it names the strategy; a Robust04 narrative may be the instruction,
where the writer reads prose: the rule writer rejects it as `foreign_instruction`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from pydantic import Field

from engine.errors import Rejected
from engine.ids import canonical_json, sha256_hex
from engine.protocols import Ask, Prompt
from engine.settings import Settings
from engine.topic import Passage, Seed, Topic
from prompts.constraints.detectors import fold_text
from prompts.constraints.instructions import LENGTHS, STYLES
from prompts.passages.reply_types import WrittenInstruction, WrittenPassage, WrittenQuery
from prompts.passages.seed_material import Material, material
from prompts.passages.topic_builder import Matrix
from prompts.render import load

VERSION = "1"
"""Raised when the same seed, settings and templates would give other topics."""

_TEMPLATES = ("instruction", "poisoned_instruction", "poisoned_query", "passage")


class InfirSettings(Settings):
    """How InF-IR's rows are made."""

    kind: Literal["infir"] = "infir"
    passage_chars: int = Field(2_000, ge=200, description="characters of a passage; a longer positive is shortened")
    distractors: int = Field(3, ge=0, description="seed negatives kept in the topic, as distractors of a judge too")
    narrative_as_instruction: bool = Field(
        False, description="take a Robust04 topic's narrative for I+, rather than have one written"
    )


class Infir:
    """Implements `engine.protocols.Recipe`.

    Rejected with `empty_query`, `no_positive`, the writer's own refusal (`one_block`, `no_contrast`, `no_other`), or,
    for a reply that claims what is not so, `constraint_not_held`, `value_not_named`, `bad_constraint`,
    `same_instruction`, `same_query`, `same_passage`, `other_language`.
    """

    name = "infir"

    def __init__(self, settings: InfirSettings) -> None:
        self._settings = settings
        self._templates = {name: load(f"infir/{name}") for name in _TEMPLATES}
        digests = [template.digest for template in self._templates.values()]
        self.fingerprint = sha256_hex(canonical_json([VERSION, digests, settings.model_dump(mode="json")]))

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        settings = self._settings
        known = material(seed, passage_chars=settings.passage_chars, negatives=2 * settings.distractors + 2)
        return [await _Rows(known, self._prompt).made(ask, settings)]

    def _prompt(self, name: str, known: Material, **inputs: str) -> Prompt:
        """What all four templates show first is the same; the rest is the task's own."""
        number = known.number("infir")
        positive = known.positive
        facts = {"material": known, "length": LENGTHS[number % 2], "style": STYLES[number // 2 % 4], "need_other": True}
        return self._templates[name].render(
            facts,
            kind=known.positives[0].kind,
            query=known.seed.query,
            title=positive.title,
            passage=positive.text,
            language=positive.attributes.get("language", ""),
            **inputs,
        )


class _Rows:
    """One seed's rows, in the order in which they are asked for."""

    def __init__(self, known: Material, prompt: Callable[..., Prompt]) -> None:
        self._known, self._prompt = known, prompt
        self._passages = [cut.passage for cut in (*known.positives, *known.negatives)]

    async def made(self, ask: Ask, settings: InfirSettings) -> Topic:
        known, p_plus = self._known, self._known.positive
        narrative = known.seed.attributes.get("narrative", "") if settings.narrative_as_instruction else ""
        wanted = WrittenInstruction(instruction=narrative)
        if not narrative:
            wanted = await ask(self._prompt("instruction", known), WrittenInstruction)
        i_plus = wanted.instruction.strip()
        wanted.checked([p_plus], [])
        poisoned = await ask(self._prompt("poisoned_instruction", known, instruction=i_plus), WrittenInstruction)
        poisoned.checked([], [p_plus])
        i_minus = poisoned.instruction.strip()
        if fold_text(i_minus) == fold_text(i_plus):
            raise Rejected("same_instruction", "the poisoned instruction is the instruction again")
        other = await ask(self._prompt("poisoned_query", known, instruction=i_plus), WrittenQuery)
        q_minus = other.query.strip()
        if fold_text(q_minus) in ("", fold_text(known.seed.query)):
            raise Rejected("same_query", f"the poisoned query {q_minus!r} is empty, or the seed's")
        first = await ask(self._passage(i_minus, known.seed.query, "instruction_negative"), WrittenPassage)
        second = await ask(self._passage(i_plus, q_minus, "query_negative"), WrittenPassage)
        language = self._language()
        p1 = first.passage("instruction_negative", self._passages, **language)
        p2 = second.passage("query_negative", self._passages, **language)
        if not language.items() <= p1.attributes.items():
            raise Rejected(
                "other_language", f"P1- is in {p1.attributes.get('language')!r}, not {language['language']!r}"
            )
        self._apart(p1, p2)
        demand, poison = wanted.checked([p_plus, p2], [p1]), poisoned.checked([p1], [p_plus])

        matrix = Matrix(Infir.name, known.seed)
        matrix.passages(p_plus, p1, p2)
        left = matrix.new([cut.passage for cut in known.negatives], settings.distractors)
        evidence = known.evidence if demand else ()
        bare = matrix.intent("original", evidence=evidence)
        matrix.judge(bare, "seed", (p_plus, 1), *((p, -1) for p in left))
        matrix.judge(bare, "construction", (p1, 1), (p2, -1))
        instructed = matrix.intent("instructed", i_plus, constraints=demand, evidence=evidence)
        matrix.judge(instructed, "rule" if demand else "construction", (p_plus, 1), (p1, -1))
        matrix.judge(instructed, "construction", (p2, -1))
        turned = matrix.intent("poisoned_instruction", i_minus, constraints=poison, evidence=evidence)
        matrix.judge(turned, "rule" if poison else "construction", (p_plus, -1), (p1, 1))
        elsewhere = matrix.intent(
            "poisoned_query",
            i_plus,
            q_minus,
            constraints=demand,
            evidence=other.evidence,
            aspects="; ".join(other.aspects),
            differences="; ".join(other.differences),
        )
        matrix.judge(elsewhere, "construction", (p_plus, -1), (p2, 1))
        return matrix.topic(rows="inf_ir")

    def _apart(self, p1: Passage, p2: Passage) -> None:
        """P1- is no passage that the corpus calls not relevant, P2- none that it calls relevant."""
        known = self._known
        for passage, cuts in ((p1, known.negatives), (p2, known.positives)):
            if fold_text(passage.text) in {fold_text(cut.passage.text) for cut in cuts}:
                raise Rejected("same_passage", f"the {passage.role} is a passage of the seed: {passage.text[:80]!r}")

    def _passage(self, instruction: str, query: str, role: str) -> Prompt:
        return self._prompt("passage", self._known, wanted_instruction=instruction, wanted_query=query, role=role)

    def _language(self) -> dict[str, str]:
        """Code is asked for in its language: a written solution is taken to be in it, one of the corpus must be."""
        spoken = self._known.positive.attributes.get("language", "")
        return {"language": spoken} if spoken and self._known.positives[0].kind == "code" else {}
