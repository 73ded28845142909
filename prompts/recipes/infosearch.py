"""The recipe `infosearch`: a query, a passage for each condition of a dimension, three modes (InfoSearch, section 2).

    dimension drawn -> conditions -> a passage for each -> an instruction for each, and its reversal -> a query negative

             P_c  P_c'  P_c''  hard negative
    (none,q)  +1   +1    +1     -1            original
    (I_c, q)  +1   -1    -1     -1            instructed, one row for each condition c
    (not I_c) -1   +1    +1     -1            reversely instructed

A passage of the corpus that meets a condition alone serves as it is; for the others one is rewritten. Where a dimension
finds fewer than two conditions in a seed, the next one of the draw is tried. `constraints.dimensions` decides Keyword,
Format, Language and Length; what a judge must decide (Audience, Source) is labelled by construction. About ten
requests a seed for three conditions, one after the other, more where dimensions are tried in vain; three to nine
milliseconds with the rule writer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator
from pydantic.json_schema import SkipJsonSchema

from engine.errors import Rejected, UsageError
from engine.ids import canonical_json, sha256_hex
from engine.protocols import Ask
from engine.settings import Settings
from engine.topic import Intent, IntentRole, Passage, Seed, Topic
from prompts.constraints.constraint import Constraint
from prompts.constraints.detectors import folded
from prompts.constraints.dimensions import CONDITIONS, DIMENSIONS, EXACT, Dimension, described, meets
from prompts.languages import languages
from prompts.passages.answer_evidence import Evidence, answers
from prompts.passages.seed_material import Material, material
from prompts.passages.topic_builder import Matrix
from prompts.passages.views import KEPT, Demand
from prompts.render import PromptTemplate, load

VERSION = "1"
"""Raised when the same seed, settings and templates would give other topics."""

_TEMPLATES = ("keywords", "rewrite", "instruction", "reversal", "query_negative")
_TONES = ("a polite request", "a plain statement of what is needed", "a question")
_NEGATIVES = 4


def _on_one_line(text: str) -> str:
    if "\n" in text or not text.strip():
        raise ValueError("expected one sentence on one line")
    return text


_Sentence = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_on_one_line)]
"""Its line break is no pattern of the schema: xgrammar, and so vLLM, refuses a pattern beside a length."""


class InfoSearchSettings(Settings):
    """Which dimensions are drawn, and what the topics are for."""

    kind: Literal["infosearch"] = "infosearch"
    dimensions: tuple[Dimension, ...] = Field(
        DIMENSIONS, min_length=1, description="the dimensions; a seed's order of trying them follows from its hash"
    )
    purpose: Literal["training", "benchmark"] = Field(
        "training", description="benchmark: every topic says that it is held out (attribute `split`)"
    )
    languages: tuple[str, ...] = Field(
        CONDITIONS["language"], min_length=2, description="conditions of Language, as ISO 639 codes"
    )
    keywords: int = Field(3, ge=2, le=5, description="most conditions of Keyword in a topic")
    query_negative: Literal["seed", "written"] = Field(
        "seed", description="seed: the corpus's own hard negative where it has one, else a written one"
    )
    passage_chars: int = Field(4_000, ge=200, description="characters of a passage; a longer positive is shortened")

    @field_validator("languages")
    @classmethod
    def _known(cls, codes: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [code for code in codes if code not in languages()]
        if wrong or len(set(codes)) < len(codes):
            raise ValueError(f"{(wrong or list(codes))[0]!r} is no language that can be told apart, or stands twice")
        return codes


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Keywords(_Answer):
    """Conditions of Keyword; `refusal` is a short reason where the passages offer fewer than two."""

    keywords: tuple[str, ...] = Field(default=(), max_length=8)
    refusal: str = Field(default="", max_length=200)


class Rewritten(_Answer):
    """A passage; `source` is the id of the one that was edited, where that is not the first positive."""

    text: str = Field(default="", max_length=20_000)
    refusal: str = Field(default="", max_length=200)
    source: SkipJsonSchema[str] = ""


class Condition(_Answer):
    """One sentence that asks for a condition, or for anything else; the rule writer adds what is behind it."""

    condition: _Sentence
    demands: SkipJsonSchema[tuple[Demand, ...]] = ()

    def constraints(self) -> tuple[Constraint, ...]:
        """Raises Rejected(bad_constraint)."""
        try:
            return tuple(demand.constraint() for demand in self.demands)
        except UsageError as error:
            raise Rejected("bad_constraint", str(error)) from error


class Asked(Condition):
    """The question in other words, then the condition."""

    question: _Sentence
    evidence: SkipJsonSchema[Evidence] = ()


@dataclass(frozen=True, slots=True)
class _Row:
    """One condition: its passage, and both instructions."""

    condition: str
    passage: Passage
    asked: Asked
    reversed: Condition


class InfoSearch:
    """Implements `engine.protocols.Recipe`.

    Rejected with `empty_query`, `no_positive`, `no_condition` (no dimension found two conditions), `no_negative`, or,
    for a reply that is not what was asked for, `condition_not_met`, `keyword_not_named`, `bad_constraint`,
    `empty_text`, `same_passage`, `same_instruction`.
    """

    name = "infosearch"

    def __init__(self, settings: InfoSearchSettings) -> None:
        self._settings = settings
        self._templates = {name: load(f"infosearch/{name}") for name in _TEMPLATES}
        digests = [template.digest for template in self._templates.values()]
        self.fingerprint = sha256_hex(canonical_json([VERSION, digests, settings.model_dump(mode="json")]))

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        known = material(seed, passage_chars=self._settings.passage_chars, negatives=_NEGATIVES)
        order = Random(known.number("infosearch")).sample(self._settings.dimensions, len(self._settings.dimensions))
        for dimension in order:
            work = _Work(known, dimension, self._settings, self._templates, ask)
            passages = await work.passages()
            if len(passages) >= 2:
                return [await work.topic(passages)]
        raise Rejected("no_condition", f"none of {', '.join(order)} has two conditions that the seed can meet")


class _Work:
    """One seed under one dimension. Requests go one by one, so that a topic's calls always stand in one order."""

    def __init__(
        self,
        known: Material,
        dimension: Dimension,
        settings: InfoSearchSettings,
        templates: Mapping[str, PromptTemplate],
        ask: Ask,
    ) -> None:
        self._known, self._dimension, self._settings, self._templates = known, dimension, settings, templates
        self._ask = ask
        self._query = known.seed.query

    async def passages(self) -> dict[str, Passage]:
        """A passage for every condition that the seed can meet."""
        conditions = await self._conditions()
        found: dict[str, Passage] = {}
        for condition in conditions if len(conditions) > 1 else ():
            others = [c for c in conditions if c != condition]
            passage = self._of_corpus(condition, others) or await self._rewritten(condition, others)
            if passage is not None:
                found[condition] = passage
        return found

    async def topic(self, passages: Mapping[str, Passage]) -> Topic:
        hard = await self._query_negative()
        rows = [await self._row(condition, passage) for condition, passage in passages.items()]
        evidence = rows[0].asked.evidence
        who = "rule" if self._dimension in EXACT else "construction"
        matrix = Matrix(InfoSearch.name, self._known.seed)
        matrix.passages(*passages.values(), hard)
        bare = matrix.intent("original", evidence=evidence)
        for passage in passages.values():
            matrix.judge(bare, "construction" if passage.edited_from else "seed", (passage, 1))
        matrix.judge(bare, "seed" if hard.role == "seed_negative" else "construction", (hard, -1))
        for row in rows:
            modes: tuple[tuple[IntentRole, Condition, int], ...] = (
                ("instructed", row.asked, 1),
                ("reversed", row.reversed, -1),
            )
            for role, said, sign in modes:
                intent = self._intent(matrix, role, row, said, evidence)
                matrix.judge(intent, who, *((p, sign if p is row.passage else -sign) for p in passages.values()))
                matrix.judge(intent, "construction", (hard, -1))
        held_out = {"split": "heldout"} if self._settings.purpose == "benchmark" else {}
        return matrix.topic(
            rows="infosearch", dimension=self._dimension, conditions=canonical_json([*passages]), **held_out
        )

    def _intent(self, matrix: Matrix, role: IntentRole, row: _Row, said: Condition, evidence: Evidence) -> Intent:
        return matrix.intent(
            role,
            f"{row.asked.question.strip()} {said.condition.strip()}",
            constraints=said.constraints(),
            evidence=evidence,
            dimension=self._dimension,
            condition=row.condition,
        )

    # --- conditions and their passages ---

    async def _conditions(self) -> Sequence[str]:
        if self._dimension == "language":
            return self._settings.languages
        if self._dimension != "keyword":
            return CONDITIONS[self._dimension]
        prompt = self._templates["keywords"].render(
            {"material": self._known},
            query=self._query,
            passages=[cut.passage.text for cut in self._known.positives],
            most=self._settings.keywords,
        )
        found = (await self._ask(prompt, Keywords)).keywords
        return list({folded(word): word.strip() for word in found if word.strip()}.values())[: self._settings.keywords]

    def _of_corpus(self, condition: str, others: Sequence[str]) -> Passage | None:
        """A positive that meets this condition and no other, as it is."""
        for cut in self._known.positives:
            if self._dimension in EXACT:
                fits = self._is(cut.passage, condition, others)
            else:
                fits = cut.passage.attributes.get(self._dimension) == condition
            if fits:
                attributes = {**cut.passage.attributes, **self._marks(condition)}
                return replace(cut.passage, attributes=attributes)
        return None

    async def _rewritten(self, condition: str, others: Sequence[str]) -> Passage | None:
        """None where the writer says that it cannot be done."""
        base = self._known.positive
        prompt = self._templates["rewrite"].render(
            {"material": self._known, "condition": condition},
            query=self._query,
            dimension=self._dimension,
            title=base.title,
            passage=base.text,
            wanted=described(self._dimension, condition),
            unwanted=[described(self._dimension, other) for other in others] if self._dimension == "keyword" else [],
        )
        written = await self._ask(prompt, Rewritten)
        if written.refusal:
            return None
        base = next((cut.passage for cut in self._known.positives if cut.passage.id == written.source), base)
        passage = Passage(
            _with_text(written),
            "generated_positive",
            title="" if self._dimension == "language" else base.title,
            edited_from=base.id,
            attributes={k: v for k, v in base.attributes.items() if k in KEPT} | self._marks(condition),
        )
        if self._dimension in EXACT and not self._is(passage, condition, others):
            raise Rejected(
                "condition_not_met", f"{self._dimension} {condition!r} is not what was written: {passage.text[:200]!r}"
            )
        return passage

    def _is(self, passage: Passage, condition: str, others: Sequence[str]) -> bool:
        return meets(self._dimension, condition, passage) and not any(
            meets(self._dimension, other, passage) for other in others
        )

    def _marks(self, condition: str) -> dict[str, str]:
        return {"dimension": self._dimension, "condition": condition}

    # --- instructions and the query negative ---

    async def _row(self, condition: str, passage: Passage) -> _Row:
        wanted = described(self._dimension, condition)
        facts = {"material": self._known, "dimension": self._dimension, "condition": condition}
        tone = _TONES[self._known.number(condition) % len(_TONES)]
        asked = await self._ask(
            self._templates["instruction"].render(facts, query=self._query, wanted=wanted, tone=tone), Asked
        )
        reverse = await self._ask(
            self._templates["reversal"].render(facts, wanted=wanted, condition=asked.condition), Condition
        )
        for said in (asked, reverse):
            if self._dimension == "keyword" and folded(condition) not in folded(said.condition):
                raise Rejected("keyword_not_named", f"{said.condition!r} does not name {condition!r}")
        return _Row(condition, passage, asked, reverse)

    async def _query_negative(self) -> Passage:
        own = (cut.passage for cut in self._known.negatives)
        first = next((p for p in own if not answers(self._known.evidence, p)), None)
        if first is not None and self._settings.query_negative == "seed":
            return first
        prompt = self._templates["query_negative"].render(
            {"material": self._known}, query=self._query, passage=self._known.positive.text
        )
        written = await self._ask(prompt, Rewritten)
        if written.refusal:
            raise Rejected("no_negative", written.refusal)
        return Passage(_with_text(written), "query_negative")


def _with_text(written: Rewritten) -> str:
    if not written.text.strip():
        raise Rejected("empty_text", "the writer gave neither a passage nor a reason")
    return written.text.strip()
