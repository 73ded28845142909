"""The recipe `custom`: a user's own stages from the job file, templates and a small schema, without any Python.

    seed -> stage -> stage -> ... (each: a template, an answer of named fields) -> topic: intents, passages, judgments
                                                                               or  rows: columns

A stage sees the seed and the answers of the stages before it. With `each` it runs once for every item of a list that an
earlier stage answered. With `when` it is left out where an earlier yes-or-no is no. References such as
`ask.instruction` name what goes into the topic. All mistakes are refused when the job is read (`checks`).

A topic passes through the validators like any other. A plain row is a topic without intents, passages or judgments; its
attribute `row` holds its columns as JSON.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from types import SimpleNamespace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from foil.engine.errors import MissingValueError, Rejected, UsageError
from foil.engine.ids import canonical_json
from foil.engine.protocols import Ask
from foil.engine.topic import Intent, Passage, Seed, Topic, topic_id
from foil.prompts.constraints.constraint import Constraint
from foil.prompts.passages.seed_material import SeedMaterial, build_material
from foil.prompts.passages.topic_builder import TopicBuilder, held_out
from foil.prompts.recipes.custom.settings import CustomSettings
from foil.prompts.recipes.custom.specs import (
    SEED_VARIABLES,
    ConstraintSpec,
    IntentSpec,
    PassageSpec,
    Stage,
    TopicSpec,
    template_of,
)
from foil.prompts.render import recipe_fingerprint
from foil.prompts.untrusted_text import nonce, reply_as_meant

VERSION = "4"
"""Raised when the same seed, settings and templates would give other topics."""

LoopItem = tuple[str, int] | None
"""(list, index) of a value made for one item of a list; None for a value that stands once."""


@dataclass(frozen=True, slots=True)
class _Value:
    """One of the values that a reference means, and the item that it was made for."""

    value: Any
    loop_item: LoopItem = None


Answers = dict[str, Any]
"""stage -> its answer as a mapping; for a stage with `each` a list of them, None where it was left out."""


class Custom:
    """Implements `engine.protocols.Recipe`.

    Rejected with `empty_query`, `no_positive`, `nothing_made` (every instruction, passage or row was left out),
    `same_passage`, `same_instruction`, `bad_constraint`, `no_value` (a template uses an attribute that the seed lacks).
    """

    name = "custom"

    def __init__(self, settings: CustomSettings) -> None:
        self._settings = settings
        self._templates = {stage.name: template_of(settings.templates, stage.file) for stage in settings.stages}
        self._answers = {stage.name: model_of(stage) for stage in settings.stages}
        digests = [template.digest for template in self._templates.values()]
        self.fingerprint = recipe_fingerprint(VERSION, digests, settings, exclude={"templates"})

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        settings = self._settings
        material = build_material(seed, passage_chars=settings.passage_chars, negatives=settings.negatives)
        answers: Answers = {}
        for stage in settings.stages:
            answers[stage.name] = await self._run(stage, material, answers, ask)
        assembler = _Assembler(material, settings, answers)
        return [assembler.topic(settings.topic)] if settings.topic else assembler.rows(settings.rows or {})

    async def _run(self, stage: Stage, material: SeedMaterial, answers: Answers, ask: Ask) -> Any:
        if not stage.each:
            return await self._ask(stage, material, answers, ask)
        above, field = stage.each.split(".")
        items = answers[above][field] if answers[above] else ()
        same_loop = {s.name for s in self._settings.stages if s.each == stage.each}
        item_answers = []
        for i, item in enumerate(items):
            visible = {name: value[i] if name in same_loop else value for name, value in answers.items()}
            item_answers.append(await self._ask(stage, material, {**visible, "item": item}, ask))
        return item_answers

    async def _ask(self, stage: Stage, material: SeedMaterial, answers: Answers, ask: Ask) -> Any:
        """The answer, or None where `when` says no or a stage that the template names was left out."""
        template = self._templates[stage.name]
        present = {k: [item for item in v if item] if isinstance(v, list) else v for k, v in answers.items()}
        scope = {**_seed_variables(material), **present}
        inputs = {name: _template_value(scope[name]) for name in template.variables}
        if None in inputs.values() or (stage.when and not _is_true(scope, stage.when)):
            return None
        try:
            prompt = template.render(nonce(material.texts, "writer"), **inputs)
        except MissingValueError as error:
            raise Rejected("no_value", str(error)) from None
        answer = await ask(prompt, self._answers[stage.name], role=stage.role)
        return reply_as_meant(answer, material.texts).model_dump(mode="json")


def _is_true(scope: Mapping[str, Any], reference: str) -> bool:
    stage, _, field = reference.partition(".")
    return scope[stage] is not None and bool(scope[stage][field])


def _template_value(value: Any) -> Any:
    """A value as templates see it: fields as attributes, so that one called `items` is no method of a mapping."""
    if isinstance(value, list):
        return [_template_value(item) for item in value]
    return SimpleNamespace(**value) if isinstance(value, Mapping) else value


def _seed_variables(material: SeedMaterial) -> dict[str, Any]:
    positives, negatives = (
        [{"title": p.title, "text": p.text} for p in passages]
        for passages in (material.positive_passages, material.negative_passages)
    )
    return {
        "query": material.seed.query,
        "positive": positives[0],
        "positives": positives,
        "negatives": negatives,
        "attributes": dict(material.seed.attributes),
    }


def model_of(stage: Stage) -> type[BaseModel]:
    """The pydantic model of a stage's answer."""
    fields: dict[str, Any] = {
        name: (field.annotation(), Field(description=field.description or None)) for name, field in stage.answer.items()
    }
    return create_model(f"{stage.name}_answer", __config__=ConfigDict(frozen=True, extra="forbid"), **fields)


class _Assembler:
    """Puts a topic or rows together from a seed's answers."""

    def __init__(self, material: SeedMaterial, settings: CustomSettings, answers: Answers) -> None:
        self._material, self._answers = material, answers
        self._each = {stage.name: stage.each for stage in settings.stages}

    def topic(self, spec: TopicSpec) -> Topic:
        builder = TopicBuilder(Custom.name, self._material.seed)
        passages = {p.label: list(self._passages(p)) for p in spec.passages}
        builder.add_passages(*(value.value for values in passages.values() for value in values))
        intents = {i.label: list(self._intents(builder, i)) for i in spec.intents}
        instructed = [i for i in spec.intents if i.instruction] or spec.intents
        if not any(passages.values()) or not any(intents[i.label] for i in instructed):
            raise Rejected("nothing_made", "every passage, or every intent with an instruction, was left out")
        for judgment in spec.judgments:
            for loop_item, intent in intents[judgment.intent]:
                for passage in passages[judgment.passage]:
                    if _goes_with(loop_item, passage.loop_item, judgment.which):
                        builder.judge(intent, _judge_of(intent, passage.value), (passage.value, judgment.relevance))
        return builder.build(rows="custom")

    def rows(self, references: Mapping[str, str]) -> Sequence[Topic]:
        """One topic for each row; columns that come from a loop make a row an item."""
        columns = {name: self._values(reference) for name, reference in references.items()}
        items = dict.fromkeys(v.loop_item for values in columns.values() for v in values if v.loop_item)
        rows = [
            {name: v.value for name, values in columns.items() for v in values if v.loop_item in (item, None)}
            for item in items or [None]
        ]
        complete = [row for row in rows if row.keys() == columns.keys()]
        if not complete:
            raise Rejected("nothing_made", "a column of every row was left out")
        seed = self._material.seed
        return [
            Topic(
                id=topic_id(Custom.name, seed, index),
                seed_id=seed.id,
                corpus=seed.corpus,
                recipe=Custom.name,
                query=seed.query,
                licence=seed.licence,
                redistributable=seed.redistributable,
                attributes={**held_out(seed), "rows": "plain", "row": canonical_json(row)},
            )
            for index, row in enumerate(complete)
        ]

    def _values(self, reference: str) -> list[_Value]:
        """All that a reference means; nothing where its stage was left out."""
        name, _, field = reference.partition(".")
        if name in SEED_VARIABLES:
            value = _seed_variables(self._material)[name]
            return [_Value(value[field] if field else value)] if not field or field in value else []
        answer, loop = self._answers[name], self._each[name]
        if not loop:
            return [_Value(answer[field])] if answer else []
        return [_Value(item[field], (loop, i)) for i, item in enumerate(answer or ()) if item]

    def _passages(self, spec: PassageSpec) -> Iterator[_Value]:
        material = self._material
        if spec.text in {"positive", "negatives"}:
            passages = [material.positive] if spec.text == "positive" else material.negative_passages[: spec.most]
            yield from (_Value(replace(passage, role=spec.role)) for passage in passages)
            return
        edit: dict[str, Any] = {"edited_from": material.positive.id, "attributes": {"name": spec.label}}
        for text in self._values(spec.text):
            yield _Value(Passage(text.value, spec.role, **edit), text.loop_item)

    def _intents(self, builder: TopicBuilder, spec: IntentSpec) -> Iterator[tuple[LoopItem, Intent]]:
        instructions = self._values(spec.instruction) if spec.instruction else [_Value("")]
        queries = self._values(spec.query)
        for instruction, query in product(instructions, queries):
            if _goes_with(instruction.loop_item, query.loop_item, "same"):
                item = instruction.loop_item or query.loop_item
                constraints = [c for constraint in spec.constraints for c in self._constraints(constraint, item)]
                yield item, builder.add_intent(spec.role, instruction.value, query.value, constraints=constraints)

    def _constraints(self, spec: ConstraintSpec, item: LoopItem) -> Iterator[Constraint]:
        """The constraint with each value that belongs to the intent; of the list that it runs over, its own item."""
        values: Sequence[Any] = [spec.value]
        if spec.reference and item and spec.reference == item[0]:
            stage, _, field = item[0].partition(".")
            values = [self._answers[stage][field][item[1]]]
        elif spec.reference:
            values = [v.value for v in self._values(spec.reference) if _goes_with(v.loop_item, item, "same")]
        for value in values:
            try:
                yield Constraint(spec.family, str(value), spec.negated)
            except UsageError as error:
                raise Rejected("bad_constraint", str(error)) from error


def _judge_of(intent: Intent, passage: Passage) -> str:
    """Who judges: the corpus its own passages, a rule where the intent has constraints, else construction."""
    if intent.role == "original":
        is_seed = passage.role in {"seed_positive", "seed_negative"} and not passage.edited_from
        return "seed" if is_seed else "construction"
    answering = passage.role in {"seed_positive", "generated_positive", "instruction_negative"}
    return "rule" if answering and "constraints" in intent.attributes else "construction"


def _goes_with(first: LoopItem, second: LoopItem, pairing: str) -> bool:
    """Whether two values belong together: what stands once goes with all, items of one loop with the same or others."""
    if first is None or second is None or first[0] != second[0] or pairing == "all":
        return True
    return (first[1] == second[1]) is (pairing == "same")
