"""The recipe `infosearch`: a query, a passage for each condition of a dimension, three modes (InfoSearch, section 2).

    dimension drawn -> conditions -> a passage for each -> an instruction for each, and its reversal -> a query negative

             P_c  P_c'  P_c''  hard negative
    (none,q)  +1   +1    +1     -1            original
    (I_c, q)  +1   -1    -1     -1            instructed, one row for each condition c
    (not I_c) -1   +1    +1     -1            reversely instructed

A passage of the corpus that meets one condition alone stays as it is; for every other condition the first positive is
rewritten. If a seed meets fewer than two conditions of a dimension, the recipe tries the next one that was drawn, up to
`tries`. `constraints.dimensions` decides Keyword, Format, Language and Length, and tells the writer what it measured.
Audience and Source need a judge and are labelled by construction. An instruction is the query in other words and a
sentence about the condition, written apart: who words the query sees no condition, and who words the condition sees no
query, so that neither speaks of the other's. Three conditions take about nine requests.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from pydantic import Field, field_validator

from foil.engine.errors import FaultyReply, Rejected, UnreadableReplyError
from foil.engine.ids import canonical_json
from foil.engine.protocols import Ask
from foil.engine.settings import Settings
from foil.engine.topic import Passage, Seed, Topic
from foil.prompts.constraints.detectors import fold_text
from foil.prompts.constraints.dimensions import (
    CONDITIONS,
    DIMENSIONS,
    EXACT_DIMENSIONS,
    PARAGRAPH_WORDS,
    SENTENCE_WORDS,
    Dimension,
    count_words,
    describe,
    meets,
    name_of,
    names,
)
from foil.prompts.demands import dump_demands
from foil.prompts.languages import languages
from foil.prompts.passages.answering import stems
from foil.prompts.passages.blocks import kept_attributes
from foil.prompts.passages.topic_builder import TopicBuilder
from foil.prompts.render import load, recipe_fingerprint
from foil.prompts.sampling import KEEPING_TEMPERATURE, writing
from foil.prompts.writing.answers import ConditionWording, Keywords
from foil.prompts.writing.checks import (
    CHECKS_DESCRIPTION,
    OnFail,
    Problem,
    Reason,
    denies,
    denies_twice,
    figures_in,
    problem_of,
)
from foil.prompts.writing.examples import wording_example
from foil.prompts.writing.material import WritingMaterial, writing_material
from foil.prompts.writing.stage import Stages

VERSION = "20"
"""Raised when the same seed, settings and templates would give other topics."""

_TEMPLATES = ("keywords", "rewrite", "question", "wording", "query_negative")
_TONES = {"request": "a polite request", "statement": "a plain statement of what is needed", "question": "a question"}
_FORMS = {
    "request": "a polite request",
    "sentence": "a whole sentence that tells what is sought",
    "question": "a question",
    "keywords": "a few words without a verb",
}
_LONGEST_QUERY = 30
"""Words of a query above which it is no question but a task, whose every word counts: it stays as it is."""
_NEGATIVE_WORDS = (30, 150)
_ARTICLE_WORDS = 300
_SPELLED = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_PLACES = re.compile(r"(?<!\S)[1-9](?:[.)]\s+|\s+(?=[A-Z]))|(?<=[.,;:] )[1-9]\s+(?=[a-z])")  # numbers of a list


class InfoSearchSettings(Settings):
    """Which dimensions are drawn, and what the topics are for."""

    kind: Literal["infosearch"] = "infosearch"
    dimensions: tuple[Dimension, ...] = Field(
        DIMENSIONS, min_length=1, description="the dimensions; a seed's order of trying them follows from its hash"
    )
    tries: int = Field(2, ge=1, le=6, description="dimensions that are tried before a seed is rejected")
    purpose: Literal["training", "benchmark"] = Field(
        "training", description="benchmark: every topic says that it is held out (attribute `split`)"
    )
    languages: tuple[str, ...] = Field(
        CONDITIONS["language"], min_length=2, description="conditions of Language, as ISO 639 codes"
    )
    question: Literal["reworded", "same"] = Field(
        "reworded", description="reworded: an instruction says a query of up to 30 words in other words"
    )
    keywords: int = Field(3, ge=2, le=5, description="most conditions of Keyword in a topic")
    query_negative: Literal["seed", "written"] = Field(
        "seed", description="seed: the corpus's own hard negative where it has one, else a written one"
    )
    passage_chars: int = Field(
        4_000, ge=200, le=500_000, description="characters of a passage; a longer positive is cut at a sentence"
    )
    checks: dict[Reason, OnFail] = Field(default_factory=dict, description=CHECKS_DESCRIPTION)

    @field_validator("languages")
    @classmethod
    def _material(cls, codes: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [code for code in codes if code not in languages()]
        if unknown or len(set(codes)) < len(codes):
            raise ValueError(f"{(unknown or list(codes))[0]!r} is no language that can be recognised, or stands twice")
        return codes


@dataclass(frozen=True, slots=True)
class _ConditionRow:
    """One condition: its passage, and the sentences that ask for it and against it."""

    condition: str
    passage: Passage
    question: str
    wording: ConditionWording


class InfoSearch:
    """Implements `engine.protocols.Recipe`.

    Rejected with `empty_query`, `no_positive`, `no_condition` (no dimension found two conditions), or the name of a
    check (`prompts.writing.checks`). A condition for which no turn brings a passage is left out.
    """

    name = "infosearch"

    def __init__(self, settings: InfoSearchSettings) -> None:
        self._settings = settings
        digests = [load(f"infosearch/{name}").digest for name in _TEMPLATES]
        self.fingerprint = recipe_fingerprint(VERSION, digests, settings)

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        material = writing_material(seed, passage_chars=self._settings.passage_chars)
        order = Random(material.number("infosearch")).sample(self._settings.dimensions, len(self._settings.dimensions))
        why: list[str] = []
        for dimension in order[: self._settings.tries]:
            writer = _DimensionWriter(material, dimension, self._settings, ask)
            passages = await writer.passages()
            if len(passages) >= 2 and (rows := await writer.rows(passages)):
                return [await writer.topic(rows, list(passages.values()))]
            why.append(f"{dimension}: {'; '.join(writer.dropped) or f'{len(passages)} conditions'}")
        raise Rejected("no_condition", f"no dimension has two conditions that were met: {' | '.join(why)}")


class _DimensionWriter:
    """One seed under one dimension. Requests go one by one, so that the calls of a topic keep one order."""

    def __init__(self, material: WritingMaterial, dimension: Dimension, settings: InfoSearchSettings, ask: Ask) -> None:
        self._material, self._dimension, self._settings = material, dimension, settings
        self._stages = Stages(material, ask, settings.checks)
        self._query = material.seed.query
        self.dropped: list[str] = []

    async def passages(self) -> dict[str, Passage]:
        """A passage for every condition that the seed can meet."""
        conditions = await self._conditions()
        passages: dict[str, Passage] = {}
        for condition in conditions if len(conditions) > 1 else ():
            rest = [c for c in conditions if c != condition]
            try:
                passages[condition] = self._corpus_passage(condition, rest) or await self._rewrite(condition, rest)
            except (FaultyReply, UnreadableReplyError) as fault:
                self.dropped.append(f"{condition}: {problem_of(fault)}")
        return passages

    async def rows(self, passages: Mapping[str, Passage]) -> list[_ConditionRow]:
        """What is said of each condition. One that no turn puts into words keeps its passage, for the other rows."""
        rows = []
        for condition, passage in passages.items():
            try:
                wording = await self._wording(condition)
            except (FaultyReply, UnreadableReplyError) as fault:
                self.dropped.append(f"{condition}: {problem_of(fault)}")
            else:
                rows.append(_ConditionRow(condition, passage, await self._question(condition), wording))
        return rows

    async def topic(self, rows: Sequence[_ConditionRow], passages: Sequence[Passage]) -> Topic:
        negative = await self._query_negative()
        builder = TopicBuilder(InfoSearch.name, self._material.seed)
        builder.add_passages(*passages, negative)
        original = builder.add_intent("original")
        builder.judge(original, "seed", *((p, 1) for p in passages))
        builder.judge(original, "seed" if negative.role == "seed_negative" else "construction", (negative, -1))
        for row in rows:
            self._add_rows(builder, row, passages, negative)
        held_out = {"split": "heldout"} if self._settings.purpose == "benchmark" else {}
        attributes = {**held_out, **self._stages.topic_attributes()}
        if self.dropped:
            attributes["dropped"] = canonical_json(self.dropped)
        conditions = canonical_json([p.attributes["condition"] for p in passages])
        return builder.build(rows="infosearch", dimension=self._dimension, conditions=conditions, **attributes)

    def _add_rows(
        self, builder: TopicBuilder, row: _ConditionRow, passages: Sequence[Passage], negative: Passage
    ) -> None:
        """The condition and its reversal, over all passages."""
        question = (f"Is it {describe(self._dimension, row.condition)}?",)
        judge = "rule" if self._dimension in EXACT_DIMENSIONS else "construction"
        shared = {"dimension": self._dimension, "condition": row.condition}
        instruction = f"{row.question} {row.wording.condition.strip()}"
        reversal = f"{row.question} {row.wording.reversal.strip()}"
        attributes = {**shared, "demands": dump_demands(question)}
        reversed_attributes = {**shared, "demands": dump_demands((), question)}
        instructed = builder.add_intent("instructed", instruction, attributes=attributes)
        reversed_intent = builder.add_intent("reversed", reversal, attributes=reversed_attributes)
        for intent, sign in ((instructed, 1), (reversed_intent, -1)):
            builder.judge(intent, judge, *((p, sign if p is row.passage else -sign) for p in passages))
            builder.judge(intent, "construction", (negative, -1))

    async def _conditions(self) -> Sequence[str]:
        if self._dimension == "language":
            return self._settings.languages
        if self._dimension != "keyword":
            return CONDITIONS[self._dimension]
        prompt = load("infosearch/keywords").render(
            self._material.code,
            query=self._query,
            passages=[p.text for p in self._material.positives[:3]],
            most=self._settings.keywords,
        )
        written = await self._stages.answer(
            writing(prompt, 60, temperature=KEEPING_TEMPERATURE),
            Keywords,
            "instruction_writer",
            mend=self._usable_keywords,
        )
        return list(written.keywords)[: self._settings.keywords]

    def _usable_keywords(self, reply: Keywords) -> Keywords:
        """Those that stand in a passage and say more than the question, each once."""
        usable = {fold_text(word): word.strip() for word in reply.keywords if self._is_usable(word.strip())}
        return Keywords(keywords=tuple(usable.values()))

    def _is_usable(self, word: str) -> bool:
        news = stems(word) - stems(self._query)
        return bool(news) and any(meets("keyword", word, p) for p in self._material.positives)

    def _corpus_passage(self, condition: str, rest: Sequence[str]) -> Passage | None:
        """A positive that meets this condition and no other, as it is."""
        for passage in self._material.positives:
            if self._dimension in EXACT_DIMENSIONS:
                fits = self._meets_only(passage, condition, rest)
            else:
                fits = passage.attributes.get(self._dimension) == condition
            if fits:
                return replace(passage, attributes={**passage.attributes, **self._labels(condition)})
        return None

    async def _rewrite(self, condition: str, rest: Sequence[str]) -> Passage:
        """The first positive rewritten. Raises FaultyReply where no turn meets the condition."""
        base = self._material.positive
        unwanted = [describe("keyword", each) for each in rest] if self._dimension == "keyword" else []
        prompt = load("infosearch/rewrite").render(
            self._material.code,
            query=self._query,
            dimension=self._dimension,
            title=base.title,
            passage=base.text,
            wanted=describe(self._dimension, condition),
            unwanted=unwanted,
        )
        title = "" if self._dimension == "language" else base.title

        def passage_of(text: str) -> Passage:
            attributes = kept_attributes(base) | self._labels(condition)
            return Passage(text, "generated_positive", title=title, edited_from=base.id, attributes=attributes)

        text = await self._stages.text(
            writing(prompt, self._room(condition, len(base.text.split()))),
            "passage_writer",
            lambda text: self._rewrite_problems(passage_of(text), condition, rest),
            keeps_fences=self._dimension == "format",
        )
        return passage_of(text)

    def _room(self, condition: str, words: int) -> int:
        """Words that a rewriting may take. Few where it shall be short, since a writer in a loop fills all of them."""
        short = {"sentence": 2 * SENTENCE_WORDS[1], "paragraph": 2 * PARAGRAPH_WORDS[1]}
        return short[condition] if self._dimension == "length" and condition in short else _ARTICLE_WORDS + 2 * words

    def _rewrite_problems(self, passage: Passage, condition: str, rest: Sequence[str]) -> Iterator[Problem]:
        description = describe(self._dimension, condition)
        if self._dimension in EXACT_DIMENSIONS and not self._meets_only(passage, condition, rest):
            measured = f"It has {count_words(passage.text)} words and {passage.text.count(chr(10)) + 1} lines."
            advice = f"It is not {description}. {measured if self._dimension == 'length' else ''}".strip()
            yield Problem("condition_not_met", f"{self._dimension} {condition!r} is not what was written", advice)
        words = re.findall(r"\w+", fold_text(passage.text))
        figures = figures_in(passage.text) | {str(number) for number, name in enumerate(_SPELLED) if name in words}
        lost = sorted((self._answer_figures() & figures_in(self._material.positive.text)) - figures)
        if lost and self._dimension != "language":
            yield Problem("answer_lost", f"the passage lacks {lost[0]}", f"The answer is lost: say {lost[0]} as well.")

    def _answer_figures(self) -> set[str]:
        answer = self._material.seed.attributes.get("answer", "")
        is_list = {"1", "2"} <= {place[0] for place in _PLACES.findall(answer)}
        return figures_in(_PLACES.sub("", answer) if is_list else answer)

    def _meets_only(self, passage: Passage, condition: str, rest: Sequence[str]) -> bool:
        return meets(self._dimension, condition, passage) and not any(
            meets(self._dimension, each, passage) for each in rest
        )

    def _labels(self, condition: str) -> dict[str, str]:
        return {"dimension": self._dimension, "condition": condition}

    async def _question(self, condition: str) -> str:
        """The query in other words, and as it is where those say something else."""
        if self._settings.question == "same" or len(self._query.split()) > _LONGEST_QUERY:
            return self._query
        number, place = divmod(self._material.number(f"question {condition}"), len(_FORMS))
        form = list(_FORMS)[place]
        prompt = load("infosearch/question").render(
            self._material.code, query=self._query, form=_FORMS[form], example=wording_example(number, form=form)
        )
        try:
            return await self._stages.text(
                writing(prompt, 40), "instruction_writer", self._question_problems, one_line=True
            )
        except (FaultyReply, UnreadableReplyError):
            return self._query

    def _question_problems(self, text: str) -> Iterator[Problem]:
        query_stems, text_stems = stems(self._query), stems(text)
        if missing := sorted(figures_in(self._query) ^ figures_in(text)):
            advice = f"The numbers of the query stay as they are: {missing[0]} does not."
            yield Problem("query_changed", f"{text!r} has other numbers than the query", advice)
        elif query_stems and 2 * len(query_stems & text_stems) < len(query_stems):
            advice = "It asks for something else. Keep the words that say what is sought."
            yield Problem("query_changed", f"{text!r} has few of the query's words", advice)

    async def _wording(self, condition: str) -> ConditionWording:
        """A sentence that asks for the condition, and its reversal."""
        number, place = divmod(self._material.number(f"wording {condition}"), len(_TONES))
        tone = list(_TONES)[place]
        example = wording_example(number, tone=tone)
        prompt = load("infosearch/wording").render(
            self._material.code,
            wanted=name_of(self._dimension, condition),
            tone=_TONES[tone],
            example=example,
            example_answer=canonical_json({k: example[k] for k in ("condition", "reversal")}),
        )
        return await self._stages.answer(
            writing(prompt, 80),
            ConditionWording,
            "instruction_writer",
            problems=lambda reply: self._wording_problems(reply, condition),
        )

    def _wording_problems(self, reply: ConditionWording, condition: str) -> Iterator[Problem]:
        name = name_of(self._dimension, condition)
        if not denies(reply.reversal) or fold_text(reply.reversal) == fold_text(reply.condition):
            advice = f'"reversal" must exclude the kind: say with "not" or "no" that such texts are unwanted ({name}).'
            yield Problem("not_reversed", f"{reply.reversal!r} does not exclude {name}", advice)
        elif denies_twice(reply.reversal):
            advice = f'"reversal" denies twice, which asks for the kind: say once that these are unwanted ({name}).'
            yield Problem("not_reversed", f"{reply.reversal!r} denies twice", advice)
        for key, text in (("condition", reply.condition), ("reversal", reply.reversal)):
            if not names(self._dimension, condition, text):
                advice = f'"{key}" must name the kind of text: {name}.'
                yield Problem("property_not_named", f"{text!r} does not name {name}", advice)

    async def _query_negative(self) -> Passage:
        negatives = self._material.negatives
        if negatives and self._settings.query_negative == "seed":
            return negatives[0]
        positive = self._material.positive
        words = min(max(len(positive.text.split()), _NEGATIVE_WORDS[0]), _NEGATIVE_WORDS[1])
        prompt = load("infosearch/query_negative").render(
            self._material.code,
            noun=self._material.noun,
            query=self._query,
            passage=positive.text,
            words=round(words, -1),
        )
        answer = self._answer_figures() - figures_in(self._query)

        def problems(text: str) -> Iterator[Problem]:
            if leak := sorted(answer & figures_in(text)):
                yield Problem("answers_query", f"the passage says {leak[0]!r}", f"It gives the answer, {leak[0]}.")

        return Passage(
            await self._stages.text(writing(prompt, 3 * words), "passage_writer", problems), "query_negative"
        )
