"""The settings of the recipe `custom`, and all that its stages, templates and references must be to each other.

    job file -> CustomSettings, or every mistake at once, each with its place: recipe.stages.2.each

A stage may only name what stands before it, so there can be no cycle. Fields of answers are followed into the
templates: `{{ facts.sentence }}` is a mistake where the stage `facts` has no field `sentence`. Nothing is asked, and
nothing paid, before all of this holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import jinja2
from jinja2 import nodes
from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from engine.errors import UsageError
from engine.settings import Settings
from engine.topic import IntentRole, PassageRole
from prompts.constraints.families import FAMILIES
from prompts.render import PromptTemplate, compile_template
from prompts.rule_writer.custom import RULES, split_rule

BASE: Mapping[str, str] = {
    "query": "string",
    "positive": "passage",
    "positives": "passages",
    "negatives": "passages",
    "attributes": "mapping",
}
"""What every template may name of the seed, and of which sort it is."""

_MOST_CHARACTERS = 20_000
_MOST_ITEMS = 32
_NAME = r"^[a-z][a-z0-9_]*$"
_LARGEST = 2**53
"""Whole numbers up to here are the same in every JSON reader."""
_FILE = r"^[a-z0-9_]+(?:/[a-z0-9_]+)*$|^$"
_PASSAGE_FIELDS = frozenset({"title", "text"})
_DIALECT = jinja2.Environment(autoescape=False)  # noqa: S701 - it only parses; prompts.render renders, in a sandbox
Mistake = tuple[tuple[str | int, ...], str, Any]
"""Where in the recipe, what is wrong, what was found there."""


# --- settings ---


def _as_mapping(value: Any) -> Any:
    return {"type": value} if isinstance(value, str) else value


def _as_judgment(value: Any) -> Any:
    keys = ("intent", "passage", "relevance", "which")
    return dict(zip(keys, value, strict=False)) if isinstance(value, list) and 3 <= len(value) <= 4 else value


class AnswerField(Settings):
    """One field of an answer. `least` and `most` bound characters, a number, or the items of a list."""

    type: Literal["string", "integer", "number", "boolean", "list"]
    values: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    description: str = ""

    @model_validator(mode="after")
    def _together(self) -> AnswerField:
        if self.values and self.type not in {"string", "list"}:
            raise ValueError(f"`values` are for a string or a list, not for type {self.type}")
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError(f"`least` {self.least:g} is more than `most` {self.most:g}")
        if self.type not in {"integer", "number"} and any(b is not None and b < 0 for b in (self.least, self.most)):
            raise ValueError("a number of characters or items is 0 or more")
        if self.type != "number" and any(b is not None and b != int(b) for b in (self.least, self.most)):
            raise ValueError(f"`least` and `most` are whole for type {self.type}")
        return self

    @property
    def most_items(self) -> int:
        """How many items a list may have."""
        return _MOST_ITEMS if self.most is None else int(self.most)

    def annotation(self) -> Any:
        """The type that pydantic checks, with its bounds. A text is not empty unless `least` is 0."""
        if self.type == "boolean":
            return bool
        if self.type == "number":
            return Annotated[float, Field(ge=self.least, le=self.most, allow_inf_nan=False)]
        if self.type == "integer":
            low = -_LARGEST if self.least is None else int(self.least)
            return Annotated[int, Field(ge=low, le=_LARGEST if self.most is None else int(self.most))]
        if self.type == "list":
            item: Any = Literal[self.values] if self.values else _text(1, None)
            return Annotated[tuple[item, ...], Field(min_length=int(self.least or 0), max_length=self.most_items)]
        return Literal[self.values] if self.values else _text(self.least, self.most)


def _text(least: float | None, most: float | None) -> Any:
    shortest, longest = (1 if least is None else int(least)), (_MOST_CHARACTERS if most is None else int(most))
    return Annotated[str, Field(min_length=shortest, max_length=longest)]


class Stage(Settings):
    """One request to a model. `template` is a file of the folder without `.j2`; by default the stage's name."""

    name: str = Field(pattern=_NAME)
    template: str = Field("", pattern=_FILE)
    role: str = Field("writer", pattern=_NAME)
    answer: Mapping[str, Annotated[AnswerField, BeforeValidator(_as_mapping)]] = Field(min_length=1)
    each: str = ""
    when: str = ""
    rule: Mapping[str, str] = {}

    @property
    def file(self) -> str:
        return self.template or self.name


class ConstraintEntry(Settings):
    """A verifiable constraint behind an intent's instruction; its value is text, or what a reference `from` means."""

    family: str
    value: str = ""
    reference: str = Field("", alias="from")
    negated: bool = False


class IntentEntry(Settings):
    """A row of the matrix: one for each item where `instruction` or `query` comes from a stage with `each`."""

    name: str = ""
    role: IntentRole
    instruction: str = ""
    query: str = "query"
    constraints: tuple[ConstraintEntry, ...] = ()

    @property
    def label(self) -> str:
        return self.name or self.role


class PassageEntry(Settings):
    """A column of the matrix: `positive` or `negatives` of the seed, or a text that a stage wrote."""

    name: str = ""
    role: PassageRole
    text: str
    most: int = Field(3, ge=1)

    @property
    def label(self) -> str:
        return self.name or self.role


class JudgmentEntry(Settings):
    """[intent, passage, 1 or -1]; of two that come from one loop `same` are those of the same item."""

    intent: str
    passage: str
    relevance: Literal[1, -1]
    which: Literal["same", "others", "all"] = "same"


class TopicEntry(Settings):
    """How a topic is put together."""

    intents: tuple[IntentEntry, ...] = Field(min_length=1)
    passages: tuple[PassageEntry, ...] = Field(min_length=1)
    judgments: tuple[Annotated[JudgmentEntry, BeforeValidator(_as_judgment)], ...] = Field(min_length=1)


class CustomSettings(Settings):
    """Stages of your own, and what becomes of their answers: a topic, or rows."""

    kind: Literal["custom"] = "custom"
    templates: Path = Field(description="folder of the templates, NAME.j2 each")
    stages: tuple[Stage, ...] = Field(
        min_length=1,
        description="each: name, answer, and where wanted template, role, each, when, rule (docs/custom.md)",
    )
    topic: TopicEntry | None = Field(None, description="intents, passages, judgments; or else `rows`")
    rows: Mapping[str, str] | None = Field(None, min_length=1, description="columns of plain rows: name -> reference")
    negatives: int = Field(3, ge=0, description="seed negatives that templates and topic may use")
    passage_chars: int = Field(4_000, ge=200, description="characters of a passage; a longer positive is shortened")

    def asks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(stage.role for stage in self.stages))

    @model_validator(mode="after")
    def _whole(self) -> CustomSettings:
        found = [
            InitErrorDetails(type=PydanticCustomError("mistake", "{why}", {"why": why}), loc=place, input=value)
            for place, why, value in _Checks(self).mistakes()
        ]
        if found:
            raise ValidationError.from_exception_data("CustomSettings", found)
        return self


def template_of(folder: Path, file: str) -> PromptTemplate:
    """A template of a user's folder, checked; its task is `custom.FILE`. Raises UsageError."""
    return compile_template(f"custom/{file}", _source_of(folder, file))


def _source_of(folder: Path, file: str) -> str:
    path = folder / f"{file}.j2"
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"there is no readable template {path}; write it, in UTF-8") from error


# --- checks ---


class _Checks:
    """The mistakes of one recipe, in the order of the file."""

    def __init__(self, settings: CustomSettings) -> None:
        self._settings = settings
        self._stages = {stage.name: stage for stage in settings.stages}
        self._order = [stage.name for stage in settings.stages]

    def mistakes(self) -> Iterator[Mistake]:
        for at, stage in enumerate(self._settings.stages):
            place = ("stages", at)
            if stage.name in BASE or stage.name == "item" or stage.name in self._order[:at]:
                yield (*place, "name"), "is taken; give every stage a name of its own", stage.name
            for name in stage.answer:
                if not re.fullmatch(_NAME, name) or hasattr(BaseModel, name):
                    yield (*place, "answer", name), "is no name for a field; use another, in small letters", name
            yield from self._loop(place, at, stage)
            yield from self._template((*place, "template"), at, stage)
            yield from self._rule((*place, "rule"), at, stage)
        if (self._settings.topic is None) is (self._settings.rows is None):
            yield (), "a custom recipe yields either a `topic` or `rows`; write one of them", "both or neither"
        for column, reference in (self._settings.rows or {}).items():
            yield from self._reference(("rows", column), reference, None)
        if self._settings.topic:
            yield from self._topic(self._settings.topic)

    # a reference, and what it means

    def _sort(self, reference: str, at: int | None) -> str:
        """`string`, `list`, ... of what a reference means to stage number `at`, or to the topic. Raises ValueError."""
        name, dot, field = reference.partition(".")
        if name == "item" and not dot and at is not None and self._settings.stages[at].each:
            return "string"
        if name in BASE:
            return self._sort_of_seed(name, dot, field)
        if name not in self._stages:
            raise ValueError(
                f"{name!r} is no stage; there are {', '.join(self._order)}, and of the seed {', '.join(BASE)}"
            )
        if at is not None and self._order.index(name) >= at:
            raise ValueError(f"stage {name!r} comes later; a stage sees only those before it")
        answer = self._stages[name].answer
        if field not in answer:
            raise ValueError(f"stage {name!r} has no field {field!r}; it has {', '.join(answer)}")
        return answer[field].type

    @staticmethod
    def _sort_of_seed(name: str, dot: str, field: str) -> str:
        if not dot:
            return BASE[name]
        if name == "attributes" or (name == "positive" and field in _PASSAGE_FIELDS):
            return "string"
        raise ValueError(f"{name!r} has no field {field!r}; use `positive.text`, `positive.title` or `attributes.NAME`")

    def _reference(
        self, place: tuple[str | int, ...], reference: str, at: int | None, *sorts: str
    ) -> Iterator[Mistake]:
        """A mistake where the reference means nothing, or nothing of the sorts wanted."""
        try:
            sort = self._sort(reference, at)
        except ValueError as error:
            yield place, str(error), reference
            return
        if sort not in (sorts or ("string", "integer", "number", "boolean", "list")):
            yield place, f"is a {sort}; wanted is a {' or '.join(sorts) or 'field'}", reference

    # stages

    def _loop(self, place: tuple[str | int, ...], at: int, stage: Stage) -> Iterator[Mistake]:
        """`each` and `when`: what they refer to, and that it stands once, or for the same item."""
        for key, reference, sort in (("each", stage.each, "list"), ("when", stage.when, "boolean")):
            if not reference:
                continue
            wrong = list(self._reference((*place, key), reference, at, sort))
            yield from wrong
            above = self._stages.get(reference.partition(".")[0])
            if not wrong and above and above.each not in {"", stage.each if key == "when" else ""}:
                yield (
                    (*place, key),
                    f"stage {above.name!r} has an `each` of its own; only what stands once will do",
                    reference,
                )

    def _template(self, place: tuple[str | int, ...], at: int, stage: Stage) -> Iterator[Mistake]:
        folder, file = self._settings.templates, stage.file
        try:
            template = template_of(folder, file)
        except UsageError as error:
            yield place, str(error), file
            return
        wrong = list(self._variables(template, at, stage))
        if not wrong:
            found = _wrong_fields(_DIALECT.parse(_source_of(folder, file)), *self._shapes(stage))
            wrong = [f"line {line}: {why}" for line, why in found]
        yield from ((place, why, file) for why in wrong)

    def _variables(self, template: PromptTemplate, at: int, stage: Stage) -> Iterator[str]:
        """What is wrong with the variables that a template names."""
        given = [*BASE, *(["item"] if stage.each else []), *self._order[:at]]
        for name in sorted(template.variables - set(given)):
            later = name in self._stages
            yield (
                f"names stage {name!r}, which comes later"
                if later
                else f"names {name!r}, which nobody provides; there are {', '.join(given)}"
            )

    def _shapes(self, stage: Stage) -> tuple[dict[str, frozenset[str]], dict[str, frozenset[str]]]:
        """Variable -> fields, of what stands once and of what is a list, as this stage sees them."""
        once = {"positive": _PASSAGE_FIELDS}
        lists = {"positives": _PASSAGE_FIELDS, "negatives": _PASSAGE_FIELDS}
        for other in self._settings.stages:
            (once if other.each in ("", stage.each) else lists)[other.name] = frozenset(other.answer)
        return once, lists

    def _rule(self, place: tuple[str | int, ...], at: int, stage: Stage) -> Iterator[Mistake]:
        lacking = [name for name in stage.answer if stage.rule and name not in stage.rule]
        if lacking:
            yield (
                place,
                f"has no rule for the field {lacking[0]!r}; give one for every field, or none at all",
                [*stage.rule],
            )
        for field, said in stage.rule.items():
            name, reference = split_rule(said)
            rule = RULES.get(name)
            if field not in stage.answer:
                yield (*place, field), f"the answer has no such field; it has {', '.join(stage.answer)}", said
            elif rule is None:
                yield (*place, field), f"{name!r} is no rule; there are {', '.join(RULES)}", said
            elif rule.gives != stage.answer[field].type:
                yield (*place, field), f"{name!r} gives a {rule.gives}, the field is a {stage.answer[field].type}", said
            elif rule.takes != bool(reference):
                wanted = "takes a reference behind it" if rule.takes else "takes nothing behind it"
                yield (*place, field), f"{name!r} {wanted}", said
            elif reference:
                yield from self._reference((*place, field), reference, at, "string")

    # the topic

    def _topic(self, topic: TopicEntry) -> Iterator[Mistake]:
        labels: dict[str, list[str]] = {"intents": [], "passages": []}
        for at, intent in enumerate(topic.intents):
            place = ("topic", "intents", at)
            yield from self._label(place, intent.label, labels["intents"])
            yield from self._intent(place, intent)
        for at, passage in enumerate(topic.passages):
            place = ("topic", "passages", at)
            yield from self._label(place, passage.label, labels["passages"])
            if passage.text not in {"positive", "negatives"}:
                yield from self._reference((*place, "text"), passage.text, None, "string")
        for at, judgment in enumerate(topic.judgments):
            for key, name in (("intents", judgment.intent), ("passages", judgment.passage)):
                if name not in labels[key]:
                    place = ("topic", "judgments", at)
                    yield place, f"{name!r} is none of the {key}: {', '.join(labels[key])}", name

    def _intent(self, place: tuple[str | int, ...], intent: IntentEntry) -> Iterator[Mistake]:
        if (intent.role == "original") is bool(intent.instruction):
            yield (*place, "instruction"), "an original intent has none, every other has one", intent.instruction
        for key, reference in (("instruction", intent.instruction), ("query", intent.query)):
            if reference:
                yield from self._reference((*place, key), reference, None, "string")
        for at, constraint in enumerate(intent.constraints):
            spot = (*place, "constraints", at)
            if constraint.family not in FAMILIES:
                yield (*spot, "family"), f"is no constraint family; use one of {', '.join(FAMILIES)}", constraint.family
            if constraint.reference and not self._is_item_list(constraint.reference, intent):
                yield from self._reference((*spot, "from"), constraint.reference, None, "string")

    def _is_item_list(self, reference: str, intent: IntentEntry) -> bool:
        """Whether a reference is the very list over which the intent's stage runs: then its item is meant."""
        loops = {self._stages[s].each for s in _names(intent) if s in self._stages}
        return reference in loops

    @staticmethod
    def _label(place: tuple[str | int, ...], label: str, taken: list[str]) -> Iterator[Mistake]:
        if label in taken:
            yield (*place, "name"), "stands twice; give each a name of its own", label
        taken.append(label)


def _names(intent: IntentEntry) -> list[str]:
    return [reference.partition(".")[0] for reference in (intent.instruction, intent.query)]


def _wrong_fields(
    node: nodes.Node, once: Mapping[str, frozenset[str]], lists: Mapping[str, frozenset[str]]
) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) of every field in a template that its variable does not have."""
    if isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name):
        name = node.node.name
        if name in lists:
            yield node.lineno, f"{name!r} is a list; write a loop over it"
        elif node.attr not in once.get(name, {node.attr}):
            yield node.lineno, f"{name!r} has no field {node.attr!r}; it has {', '.join(sorted(once[name]))}"
    if isinstance(node, nodes.For) and isinstance(node.target, nodes.Name):
        item = lists.get(node.iter.name) if isinstance(node.iter, nodes.Name) else None
        hidden = {name: fields for name, fields in once.items() if name != node.target.name}
        once = {**hidden, node.target.name: item} if item else hidden
    for child in node.iter_child_nodes():
        yield from _wrong_fields(child, once, lists)
