"""The checks of a custom recipe: what its stages, templates and references must be to each other.

    stages, templates, topic, rows -> every mistake at once, each with its place: recipe.stages.2.each

A stage may only name what stands before it, so there can be no cycle. References are followed into the templates:
`{{ facts.sentence }}` is a mistake where the stage `facts` has no field `sentence`. All of this is checked before the
first request.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes
from pydantic import BaseModel

from foil.engine.errors import UsageError
from foil.prompts.constraints.families import FAMILIES
from foil.prompts.recipes.custom.specs import (
    NAME_PATTERN,
    SEED_VARIABLES,
    IntentSpec,
    Stage,
    TopicSpec,
    source_of,
    template_of,
)
from foil.prompts.render import PromptTemplate

_PASSAGE_FIELDS = frozenset({"title", "text"})
_PARSER = jinja2.Environment(autoescape=True)
Place = tuple[str | int, ...]
Mistake = tuple[Place, str, Any]
"""Where in the recipe, what is wrong, and the value there."""


class RecipeChecks:
    """The mistakes of one recipe, in the order of the file."""

    def __init__(
        self, stages: Sequence[Stage], templates: Path, topic: TopicSpec | None, rows: Mapping[str, str] | None
    ) -> None:
        self._order, self._folder, self._spec, self._rows = stages, templates, topic, rows
        self._names = [stage.name for stage in stages]
        self._stages = dict(zip(self._names, stages, strict=True))

    def mistakes(self) -> Iterator[Mistake]:
        for index, stage in enumerate(self._order):
            place = ("stages", index)
            if stage.name in SEED_VARIABLES or stage.name == "item" or stage.name in self._names[:index]:
                yield (*place, "name"), "is taken; give every stage a name of its own", stage.name
            for name in stage.answer:
                if not re.fullmatch(NAME_PATTERN, name) or hasattr(BaseModel, name):
                    yield (*place, "answer", name), "is no name for a field; use another, in small letters", name
            yield from self._loop(place, index, stage)
            yield from self._template((*place, "template"), index, stage)
        if (self._spec is None) is (self._rows is None):
            yield (), "a custom recipe yields either a `topic` or `rows`; write one of them", "both or neither"
        for column, reference in (self._rows or {}).items():
            yield from self._reference(("rows", column), reference, None)
        if self._spec:
            yield from self._topic(self._spec)

    def _type_of(self, reference: str, index: int | None) -> str:
        """The type of what a reference means to stage number `index`, or (None) to the topic. Raises ValueError."""
        name, dot, field = reference.partition(".")
        if name == "item" and not dot and index is not None and self._order[index].each:
            return "string"
        if name in SEED_VARIABLES:
            return self._type_in_seed(name, dot, field)
        if name not in self._stages:
            raise ValueError(
                f"{name!r} is no stage; there are {', '.join(self._names)}, and of the seed {', '.join(SEED_VARIABLES)}"
            )
        if index is not None and self._names.index(name) >= index:
            raise ValueError(f"stage {name!r} comes later; a stage sees only those before it")
        answer = self._stages[name].answer
        if field not in answer:
            raise ValueError(f"stage {name!r} has no field {field!r}; it has {', '.join(answer)}")
        return answer[field].type

    @staticmethod
    def _type_in_seed(name: str, dot: str, field: str) -> str:
        if not dot:
            return SEED_VARIABLES[name]
        if name == "attributes" or (name == "positive" and field in _PASSAGE_FIELDS):
            return "string"
        raise ValueError(f"{name!r} has no field {field!r}; use `positive.text`, `positive.title` or `attributes.NAME`")

    def _reference(self, place: Place, reference: str, index: int | None, *allowed_types: str) -> Iterator[Mistake]:
        """A mistake where the reference means nothing, or nothing of a wanted type."""
        try:
            type_name = self._type_of(reference, index)
        except ValueError as error:
            yield place, str(error), reference
            return
        if type_name not in (allowed_types or ("string", "integer", "number", "boolean", "list")):
            yield place, f"is a {type_name}; wanted is a {' or '.join(allowed_types) or 'field'}", reference

    def _loop(self, place: Place, index: int, stage: Stage) -> Iterator[Mistake]:
        """`each` and `when`: what they refer to, and that it stands once, or for the same item."""
        for key, reference, type_name in (("each", stage.each, "list"), ("when", stage.when, "boolean")):
            if not reference:
                continue
            mistakes = list(self._reference((*place, key), reference, index, type_name))
            yield from mistakes
            above = self._stages.get(reference.partition(".")[0])
            if not mistakes and above and above.each not in {"", stage.each if key == "when" else ""}:
                why = f"stage {above.name!r} has an `each` of its own; only what stands once will do"
                yield (*place, key), why, reference

    def _template(self, place: Place, index: int, stage: Stage) -> Iterator[Mistake]:
        folder, file = self._folder, stage.file
        try:
            template = template_of(folder, file)
        except UsageError as error:
            yield place, str(error), file
            return
        reasons = list(self._variables(template, index, stage))
        if not reasons:
            wrong_fields = _wrong_fields(_PARSER.parse(source_of(folder, file)), *self._fields(stage))
            reasons = [f"line {line}: {why}" for line, why in wrong_fields]
        yield from ((place, why, file) for why in reasons)

    def _variables(self, template: PromptTemplate, index: int, stage: Stage) -> Iterator[str]:
        """What is wrong with the variables that a template names."""
        available = [*SEED_VARIABLES, *(["item"] if stage.each else []), *self._names[:index]]
        for name in sorted(template.variables - set(available)):
            if name in self._stages:
                yield f"names stage {name!r}, which comes later"
            else:
                yield f"names {name!r}, which nobody provides; there are {', '.join(available)}"

    def _fields(self, stage: Stage) -> tuple[dict[str, frozenset[str]], dict[str, frozenset[str]]]:
        """Variable -> fields, of what stands once and of what is a list, as this stage sees them."""
        once = {"positive": _PASSAGE_FIELDS}
        lists = {"positives": _PASSAGE_FIELDS, "negatives": _PASSAGE_FIELDS}
        for earlier in self._order:
            (once if earlier.each in ("", stage.each) else lists)[earlier.name] = frozenset(earlier.answer)
        return once, lists

    def _topic(self, topic: TopicSpec) -> Iterator[Mistake]:
        labels: dict[str, list[str]] = {"intents": [], "passages": []}
        for index, intent in enumerate(topic.intents):
            place = ("topic", "intents", index)
            yield from self._label(place, intent.label, labels["intents"])
            yield from self._intent(place, intent)
        for index, passage in enumerate(topic.passages):
            place = ("topic", "passages", index)
            yield from self._label(place, passage.label, labels["passages"])
            if passage.text not in {"positive", "negatives"}:
                yield from self._reference((*place, "text"), passage.text, None, "string")
        for index, judgment in enumerate(topic.judgments):
            for key, name in (("intents", judgment.intent), ("passages", judgment.passage)):
                if name not in labels[key]:
                    place = ("topic", "judgments", index)
                    yield place, f"{name!r} is none of the {key}: {', '.join(labels[key])}", name

    def _intent(self, place: Place, intent: IntentSpec) -> Iterator[Mistake]:
        if (intent.role == "original") is bool(intent.instruction):
            yield (*place, "instruction"), "an original intent has none, every other has one", intent.instruction
        for key, reference in (("instruction", intent.instruction), ("query", intent.query)):
            if reference:
                yield from self._reference((*place, key), reference, None, "string")
        for index, constraint in enumerate(intent.constraints):
            spot = (*place, "constraints", index)
            if constraint.family not in FAMILIES:
                yield (*spot, "family"), f"is no constraint family; use one of {', '.join(FAMILIES)}", constraint.family
            if constraint.reference and not self._is_item_list(constraint.reference, intent):
                yield from self._reference((*spot, "from"), constraint.reference, None, "string")

    def _is_item_list(self, reference: str, intent: IntentSpec) -> bool:
        """Whether a reference is the very list over which the intent's stage runs: then its item is meant."""
        loops = {self._stages[s].each for s in _names(intent) if s in self._stages}
        return reference in loops

    @staticmethod
    def _label(place: Place, label: str, labels: list[str]) -> Iterator[Mistake]:
        if label in labels:
            yield (*place, "name"), "stands twice; give each a name of its own", label
        labels.append(label)


def _names(intent: IntentSpec) -> list[str]:
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
