"""The recipe `custom`: a user's own stages from the job file, templates and a small schema, without any Python.

    seed -> stage -> stage -> ... (each: a template, an answer of named fields) -> topic: intents, passages, judgments
                                                                               or  rows: columns

A stage sees the seed and the answers of the stages before it. With `each` it runs once for every item of a list that an
earlier stage answered, and `when` leaves it out where an earlier yes-or-no is no. What it yields is said by references
such as `ask.instruction`. Every mistake is refused when the job is read, with its place (`stages`).

A topic goes through the validators as any other. A plain row is a topic without intents, passages or judgments, whose
attribute `row` holds its columns as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, create_model

from engine.errors import Rejected, UsageError
from engine.ids import canonical_json, sha256_hex
from engine.protocols import Ask
from engine.topic import Intent, Passage, Seed, Topic, topic_id
from prompts.constraints.constraint import Constraint
from prompts.passages.seed_material import Material, material
from prompts.passages.topic_builder import Matrix
from prompts.recipes.custom.stages import (
    BASE,
    ConstraintEntry,
    CustomSettings,
    IntentEntry,
    PassageEntry,
    Stage,
    TopicEntry,
    template_of,
)

VERSION = "1"
"""Raised when the same seed, settings and templates would give other topics."""

Place = tuple[str, int] | None
"""(loop, number) of what stands once for each item of a list; None for what stands once."""


@dataclass(frozen=True, slots=True)
class _Value:
    """One of the values that a reference means, and for which item of which list it was made."""

    value: Any
    place: Place = None


Answers = dict[str, Any]
"""stage -> its answer as a mapping; for a stage with `each` a list of them, None where it was left out."""


class Custom:
    """Implements `engine.protocols.Recipe`.

    Rejected with `empty_query`, `no_positive`, `nothing_made` (every instruction, passage or row was left out),
    `same_passage`, `same_instruction`, `bad_constraint`.
    """

    name = "custom"

    def __init__(self, settings: CustomSettings) -> None:
        self._settings = settings
        self._templates = {stage.name: template_of(settings.templates, stage.file) for stage in settings.stages}
        self._answers = {stage.name: model_of(stage) for stage in settings.stages}
        digests = [template.digest for template in self._templates.values()]
        said = settings.model_dump(mode="json", exclude={"templates"})
        self.fingerprint = sha256_hex(canonical_json([VERSION, digests, said]))

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        known = material(seed, passage_chars=self._settings.passage_chars, negatives=self._settings.negatives)
        answers: Answers = {}
        for stage in self._settings.stages:
            answers[stage.name] = await self._run(stage, known, answers, ask)
        made = _Made(known, self._settings, answers)
        return [made.topic()] if self._settings.topic else made.rows()

    async def _run(self, stage: Stage, known: Material, answers: Answers, ask: Ask) -> Any:
        if not stage.each:
            return await self._ask(stage, known, answers, ask)
        above, field = stage.each.split(".")
        items = answers[above][field] if answers[above] else ()
        loops = {s.name for s in self._settings.stages if s.each == stage.each}
        found = []
        for i, item in enumerate(items):
            beside = {name: value[i] if name in loops else value for name, value in answers.items()}
            found.append(await self._ask(stage, known, {**beside, "item": item}, ask))
        return found

    async def _ask(self, stage: Stage, known: Material, answers: Answers, ask: Ask) -> Any:
        """The answer, or None where `when` says no or a stage that the template names was left out."""
        template = self._templates[stage.name]
        made = {k: [one for one in v if one] if isinstance(v, list) else v for k, v in answers.items()}
        scope = {**_base(known), **made}
        inputs = {name: _shown(scope[name]) for name in template.variables}
        if None in inputs.values() or (stage.when and not _reached(scope, stage.when)):
            return None
        most = {name: field.most_items for name, field in stage.answer.items()}
        facts = {"material": known, "rule": stage.rule, "most": most, "scope": scope}
        answer = await ask(template.render(facts, **inputs), self._answers[stage.name], role=stage.role)
        return answer.model_dump(mode="json")


def _reached(scope: Mapping[str, Any], reference: str) -> Any:
    stage, _, field = reference.partition(".")
    return scope[stage][field] if scope[stage] is not None else None


def _shown(value: Any) -> Any:
    """A value as templates see it: fields as attributes, so that one called `items` is no method of a mapping."""
    if isinstance(value, list):
        return [_shown(one) for one in value]
    return SimpleNamespace(**value) if isinstance(value, Mapping) else value


def _base(known: Material) -> dict[str, Any]:
    seen = [{"title": cut.passage.title, "text": cut.passage.text} for cut in known.positives]
    return {
        "query": known.seed.query,
        "positive": seen[0],
        "positives": seen,
        "negatives": [{"title": cut.passage.title, "text": cut.passage.text} for cut in known.negatives],
        "attributes": dict(known.seed.attributes),
    }


def model_of(stage: Stage) -> type[BaseModel]:
    """The pydantic model of a stage's answer."""
    fields: dict[str, Any] = {
        name: (field.annotation(), Field(description=field.description or None)) for name, field in stage.answer.items()
    }
    return create_model(f"{stage.name}_answer", __config__=ConfigDict(frozen=True, extra="forbid"), **fields)


class _Made:
    """A topic or rows from a seed's answers."""

    def __init__(self, known: Material, settings: CustomSettings, answers: Answers) -> None:
        self._known, self._settings, self._answers = known, settings, answers
        self._each = {stage.name: stage.each for stage in settings.stages}

    def topic(self) -> Topic:
        entry = cast("TopicEntry", self._settings.topic)
        matrix = Matrix(Custom.name, self._known.seed)
        passages = {one.label: [(value.place, value.value) for value in self._passages(one)] for one in entry.passages}
        matrix.passages(*(p for found in passages.values() for _, p in found))
        intents = {one.label: list(self._intents(matrix, one)) for one in entry.intents}
        asked = [one for one in entry.intents if one.instruction] or entry.intents
        if not any(passages.values()) or not any(intents[one.label] for one in asked):
            raise Rejected("nothing_made", "every passage, or every intent with an instruction, was left out")
        for one in entry.judgments:
            for at, intent in intents[one.intent]:
                fitting = [p for place, p in passages[one.passage] if _goes_with(at, place, one.which)]
                for passage in fitting:
                    matrix.judge(intent, _who(intent, passage), (passage, one.relevance))
        return matrix.topic(rows="custom")

    def rows(self) -> Sequence[Topic]:
        """One topic for each row; columns that come from a loop make a row an item."""
        columns = {name: self._values(reference) for name, reference in (self._settings.rows or {}).items()}
        places: list[Place] = list(dict.fromkeys(v.place for values in columns.values() for v in values if v.place))
        made = [
            {name: value.value for name, values in columns.items() for value in values if value.place in (place, None)}
            for place in places or [None]
        ]
        whole = [row for row in made if row.keys() == columns.keys()]
        if not whole:
            raise Rejected("nothing_made", "a column of every row was left out")
        seed = self._known.seed
        return [
            Topic(
                id=topic_id(Custom.name, seed, index),
                seed_id=seed.id,
                corpus=seed.corpus,
                recipe=Custom.name,
                query=seed.query,
                licence=seed.licence,
                redistributable=seed.redistributable,
                attributes={"rows": "plain", "row": canonical_json(row)},
            )
            for index, row in enumerate(whole)
        ]

    def _values(self, reference: str) -> list[_Value]:
        """All that a reference means; nothing where its stage was left out."""
        name, _, field = reference.partition(".")
        if name in BASE:
            value = _base(self._known)[name]
            return [_Value(value[field] if field else value)] if not field or field in value else []
        answer, loop = self._answers[name], self._each[name]
        if not loop:
            return [_Value(answer[field])] if answer else []
        return [_Value(one[field], (loop, i)) for i, one in enumerate(answer or ()) if one]

    def _passages(self, entry: PassageEntry) -> Iterator[_Value]:
        if entry.text in {"positive", "negatives"}:
            cuts = self._known.positives[:1] if entry.text == "positive" else self._known.negatives[: entry.most]
            yield from (_Value(replace(cut.passage, role=entry.role)) for cut in cuts)
            return
        for one in self._values(entry.text):
            yield _Value(
                Passage(one.value, entry.role, edited_from=self._known.positive.id, attributes={"name": entry.label}),
                one.place,
            )

    def _intents(self, matrix: Matrix, entry: IntentEntry) -> Iterator[tuple[Place, Intent]]:
        said = self._values(entry.instruction) if entry.instruction else [_Value("")]
        asked = self._values(entry.query)
        for instruction in said:
            for query in asked:
                if _goes_with(instruction.place, query.place, "same"):
                    place = instruction.place or query.place
                    behind = [c for one in entry.constraints for c in self._constraints(one, place)]
                    yield place, matrix.intent(entry.role, instruction.value, query.value, constraints=behind)

    def _constraints(self, entry: ConstraintEntry, place: Place) -> Iterator[Constraint]:
        """The constraint with each value that belongs to the intent; of the list that it runs over, its own item."""
        values: Sequence[Any] = [entry.value]
        if entry.reference and place and entry.reference == place[0]:
            stage, _, field = place[0].partition(".")
            values = [self._answers[stage][field][place[1]]]
        elif entry.reference:
            values = [v.value for v in self._values(entry.reference) if _goes_with(v.place, place, "same")]
        for value in values:
            try:
                yield Constraint(entry.family, str(value), entry.negated)
            except UsageError as error:
                raise Rejected("bad_constraint", str(error)) from error


def _who(intent: Intent, passage: Passage) -> str:
    """Who says what the job says: the corpus of its own passages; a rule, where a constraint can be held against it."""
    if intent.role == "original":
        return (
            "seed" if passage.role in {"seed_positive", "seed_negative"} and not passage.edited_from else "construction"
        )
    answering = passage.role in {"seed_positive", "generated_positive", "instruction_negative"}
    return "rule" if answering and "constraints" in intent.attributes else "construction"


def _goes_with(one: Place, other: Place, which: str) -> bool:
    """Whether two values belong together: what stands once goes with all, items of one loop with the same or others."""
    if one is None or other is None or one[0] != other[0] or which == "all":
        return True
    return (one[1] == other[1]) is (which == "same")
