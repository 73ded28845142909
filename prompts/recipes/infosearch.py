"""The recipe `infosearch`: a query, a passage for each condition of a dimension, three modes (InfoSearch, section 2).

    dimension drawn -> conditions -> a passage for each -> an instruction for each, and its reversal -> a query negative

             P_c  P_c'  P_c''  hard negative
    (none,q)  +1   +1    +1     -1            original
    (I_c, q)  +1   -1    -1     -1            instructed, one row for each condition c
    (not I_c) -1   +1    +1     -1            reversely instructed

A passage of the corpus that meets one condition alone stays as it is; for every other condition the first positive is
rewritten. If a seed meets fewer than two conditions of a dimension, the recipe tries the next one that was drawn.
`constraints.dimensions` decides Keyword, Format, Language and Length. Audience and Source need a judge and are labelled
by construction. Three conditions take about ten requests, one after the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Literal, cast

from pydantic import Field, field_validator

from engine.errors import Rejected
from engine.ids import canonical_json
from engine.protocols import Ask
from engine.settings import Settings
from engine.topic import Intent, IntentRole, Passage, Seed, Topic
from prompts.constraints.detectors import fold_text
from prompts.constraints.dimensions import CONDITIONS, DIMENSIONS, EXACT_DIMENSIONS, Dimension, describe, meets
from prompts.languages import languages
from prompts.passages.answer_evidence import answers
from prompts.passages.blocks import kept_attributes, stems
from prompts.passages.reply_checks import check_passage, check_reversal, check_rewritten, check_unanswered
from prompts.passages.reply_types import AskedInstruction, Condition, Keywords, Rewritten
from prompts.passages.seed_material import SeedMaterial, build_material
from prompts.passages.topic_builder import TopicBuilder
from prompts.render import PromptTemplate, load, recipe_fingerprint
from prompts.sampling import writing

VERSION = "14"
"""Raised when the same seed, settings and templates would give other topics."""

_TEMPLATES = ("keywords", "rewrite", "instruction", "reversal", "query_negative")
_TONES = ("a polite request", "a plain statement of what is needed", "a question")
_NEGATIVES = 4
_NEGATIVE_WORDS = (30, 150)
_ARTICLE_WORDS = 400


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
    passage_chars: int = Field(
        4_000, ge=200, le=500_000, description="characters of a passage; a longer positive is shortened"
    )

    @field_validator("languages")
    @classmethod
    def _material(cls, codes: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [code for code in codes if code not in languages()]
        if unknown or len(set(codes)) < len(codes):
            raise ValueError(f"{(unknown or list(codes))[0]!r} is no language that can be told apart, or stands twice")
        return codes


@dataclass(frozen=True, slots=True)
class _ConditionRow:
    """One condition: its passage, and both instructions."""

    condition: str
    passage: Passage
    asked: AskedInstruction
    reversed: Condition


class InfoSearch:
    """Implements `engine.protocols.Recipe`.

    Rejected with `empty_query`, `no_positive`, `no_answer`, `no_condition` (no dimension found two conditions),
    `no_negative`, or, for a reply that is not what was asked for, `condition_not_met`, `keyword_not_named`,
    `bad_constraint`, `empty_text`, `same_passage`, `same_instruction`, `answer_lost`, `answers_query`,
    `not_reversed`, or the name of another check of free text (`prompts.passages.reply_checks`).
    """

    name = "infosearch"

    def __init__(self, settings: InfoSearchSettings) -> None:
        self._settings = settings
        self._templates = {name: load(f"infosearch/{name}") for name in _TEMPLATES}
        digests = [template.digest for template in self._templates.values()]
        self.fingerprint = recipe_fingerprint(VERSION, digests, settings)

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        material = build_material(seed, passage_chars=self._settings.passage_chars, negatives=_NEGATIVES)
        material = material.that_answers()
        order = Random(material.number("infosearch")).sample(self._settings.dimensions, len(self._settings.dimensions))
        for dimension in order:
            writer = _DimensionWriter(material, dimension, self._settings, self._templates, ask)
            passages = await writer.passages()
            if len(passages) >= 2:
                return [await writer.topic(passages)]
        raise Rejected("no_condition", f"none of {', '.join(order)} has two conditions that the seed can meet")


class _DimensionWriter:
    """One seed under one dimension. Requests go one by one, so that the calls of a topic keep one order."""

    def __init__(
        self,
        material: SeedMaterial,
        dimension: Dimension,
        settings: InfoSearchSettings,
        templates: Mapping[str, PromptTemplate],
        ask: Ask,
    ) -> None:
        self._material, self._dimension, self._settings, self._templates = material, dimension, settings, templates
        self._ask = ask
        self._query, self._kind = material.seed.query, material.positives[0].kind

    async def passages(self) -> dict[str, Passage]:
        """A passage for every condition that the seed can meet."""
        conditions = await self._conditions()
        passages: dict[str, Passage] = {}
        for condition in conditions if len(conditions) > 1 else ():
            others = [c for c in conditions if c != condition]
            passage = self._corpus_passage(condition, others) or await self._rewrite(condition, others)
            if passage is not None:
                passages[condition] = passage
        return passages

    async def topic(self, passages: Mapping[str, Passage]) -> Topic:
        negative = await self._query_negative()
        rows = [await self._row(condition, passage) for condition, passage in passages.items()]
        builder = TopicBuilder(InfoSearch.name, self._material.seed)
        builder.add_passages(*passages.values(), negative)
        original = builder.add_intent("original")
        builder.judge(original, "seed", *((p, 1) for p in passages.values()))
        builder.judge(original, "seed" if negative.role == "seed_negative" else "construction", (negative, -1))
        for row in rows:
            for role, reply, sign in (("instructed", row.asked, 1), ("reversed", row.reversed, -1)):
                intent = self._add_intent(builder, cast("IntentRole", role), row, reply)
                labels = ((p, sign if p is row.passage else -sign) for p in passages.values())
                builder.judge(intent, "rule" if self._dimension in EXACT_DIMENSIONS else "construction", *labels)
                builder.judge(intent, "construction", (negative, -1))
        held_out = {"split": "heldout"} if self._settings.purpose == "benchmark" else {}
        conditions = canonical_json([*passages])
        return builder.build(rows="infosearch", dimension=self._dimension, conditions=conditions, **held_out)

    def _add_intent(self, builder: TopicBuilder, role: IntentRole, row: _ConditionRow, reply: Condition) -> Intent:
        return builder.add_intent(
            role,
            f"{row.asked.question.strip()} {reply.condition.strip()}",
            dimension=self._dimension,
            condition=row.condition,
        )

    async def _conditions(self) -> Sequence[str]:
        if self._dimension == "language":
            return self._settings.languages
        if self._dimension != "keyword":
            return CONDITIONS[self._dimension]
        prompt = self._templates["keywords"].render(
            kind=self._kind,
            query=self._query,
            passages=[p.text for p in self._material.positive_passages],
            most=self._settings.keywords,
        )
        written = await self._ask(writing(prompt, 60, temperature=0.7), Keywords, role="instruction_writer")
        usable = {fold_text(word): word.strip() for word in written.keywords if self._is_usable(word.strip())}
        return list(usable.values())[: self._settings.keywords]

    def _is_usable(self, word: str) -> bool:
        """Whether a keyword stands in a passage, and says more than the question."""
        news = stems(word) - stems(self._query)
        return bool(news) and any(meets("keyword", word, p) for p in self._material.positive_passages)

    def _corpus_passage(self, condition: str, others: Sequence[str]) -> Passage | None:
        """A positive that meets this condition and no other, as it is."""
        for source in self._material.positives:
            if self._dimension in EXACT_DIMENSIONS:
                fits = self._meets_only(source.passage, condition, others)
            else:
                fits = source.passage.attributes.get(self._dimension) == condition
            if fits:
                return replace(source.passage, attributes={**source.passage.attributes, **self._labels(condition)})
        return None

    async def _rewrite(self, condition: str, others: Sequence[str]) -> Passage | None:
        """The first positive rewritten; None where the writer says that it cannot be done."""
        base = self._material.positive
        prompt = self._templates["rewrite"].render(
            query=self._query,
            dimension=self._dimension,
            title=base.title,
            passage=base.text,
            wanted=describe(self._dimension, condition),
            unwanted=[describe(self._dimension, other) for other in others] if self._dimension == "keyword" else [],
        )
        words = _ARTICLE_WORDS + 2 * len(base.text.split())
        written = await self._ask(writing(prompt, words), Rewritten, role="passage_writer")
        if written.refusal:
            return None
        check_rewritten(written.stripped_text(), written.facts, base, figures=self._dimension != "language")
        passage = Passage(
            written.stripped_text(),
            "generated_positive",
            title="" if self._dimension == "language" else base.title,
            edited_from=base.id,
            attributes=kept_attributes(base) | self._labels(condition),
        )
        if self._dimension in EXACT_DIMENSIONS and not self._meets_only(passage, condition, others):
            raise Rejected(
                "condition_not_met", f"{self._dimension} {condition!r} is not what was written: {passage.text[:200]!r}"
            )
        return passage

    def _meets_only(self, passage: Passage, condition: str, others: Sequence[str]) -> bool:
        return meets(self._dimension, condition, passage) and not any(
            meets(self._dimension, other, passage) for other in others
        )

    def _labels(self, condition: str) -> dict[str, str]:
        return {"dimension": self._dimension, "condition": condition}

    async def _row(self, condition: str, passage: Passage) -> _ConditionRow:
        wanted = describe(self._dimension, condition)
        shared = {"kind": self._kind, "query": self._query, "wanted": wanted}
        tone = _TONES[self._material.number(condition) % len(_TONES)]
        asked = await self._ask(
            writing(self._templates["instruction"].render(**shared, tone=tone), 80, temperature=0.9),
            AskedInstruction,
            role="instruction_writer",
        )
        prompt = self._templates["reversal"].render(wanted=wanted, condition=asked.condition)
        reverse = await self._ask(writing(prompt, 40, temperature=0.7), Condition, role="instruction_writer")
        check_reversal(asked.condition, reverse.condition)
        for reply in (asked, reverse):
            if self._dimension == "keyword" and fold_text(condition) not in fold_text(reply.condition):
                raise Rejected("keyword_not_named", f"{reply.condition!r} does not name {condition!r}")
        return _ConditionRow(condition, passage, asked, reverse)

    async def _query_negative(self) -> Passage:
        candidates = (p for p in self._material.negative_passages if not answers(self._material.evidence, p))
        seed_negative = next(candidates, None)
        if seed_negative is not None and self._settings.query_negative == "seed":
            return seed_negative
        positive = self._material.positive
        words = min(max(len(positive.text.split()), _NEGATIVE_WORDS[0]), _NEGATIVE_WORDS[1])
        prompt = self._templates["query_negative"].render(
            kind=self._kind,
            query=self._query,
            passage=positive.text,
            words=round(words, -1),
        )
        written = await self._ask(writing(prompt, 3 * words), Rewritten, role="passage_writer")
        if written.refusal:
            raise Rejected("no_negative", written.refusal)
        negative = Passage(written.stripped_text(), "query_negative")
        check_passage(negative, "text" if self._kind == "documentation" else self._kind, others=[positive])
        check_unanswered(negative.text, written.facts, self._query)
        return negative
