"""The parts of a custom recipe as a job file declares them: stages with their answers, and the topic made of these."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from foil.engine.errors import UsageError
from foil.engine.settings import Settings
from foil.engine.topic import IntentRole, PassageRole
from foil.prompts.render import MAX_SOURCE, PromptTemplate, compile_template

SEED_VARIABLES: Mapping[str, str] = {
    "query": "string",
    "positive": "passage",
    "positives": "passages",
    "negatives": "passages",
    "attributes": "mapping",
}
"""What every template may name of the seed, and the type of each."""

NAME_PATTERN = r"^[a-z][a-z0-9_]*$"
_FILE_PATTERN = r"^[a-z0-9_]+(?:/[a-z0-9_]+)*$|^$"
_MAX_CHARACTERS = 20_000
_MAX_ITEMS = 32
_MOST_ITEMS = 1_000
_MAX_INTEGER = 2**53
"""Whole numbers up to here are the same in every JSON reader."""


def _as_mapping(value: Any) -> Any:
    return {"type": value} if isinstance(value, str) else value


def _as_judgment(value: Any) -> Any:
    keys = ("intent", "passage", "relevance", "which")
    return dict(zip(keys, value, strict=False)) if isinstance(value, list) and 3 <= len(value) <= 4 else value


class AnswerField(Settings):
    """One field of an answer. `least` and `most` bound characters, a number, or the items of a list."""

    type: Literal["string", "integer", "number", "boolean", "list"]
    values: tuple[str, ...] = ()
    least: float | None = Field(None, ge=-_MAX_INTEGER, le=_MAX_INTEGER)
    most: float | None = Field(None, ge=-_MAX_INTEGER, le=_MAX_INTEGER)
    description: str = ""

    @model_validator(mode="after")
    def _together(self) -> AnswerField:
        if self.values and self.type not in {"string", "list"}:
            raise ValueError(f"`values` are for a string or a list, not for type {self.type}")
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError(f"`least` {self.least:g} is more than `most` {self.most:g}")
        if self.type == "list" and (self.most or 0) > _MOST_ITEMS:
            raise ValueError(f"a list has at most {_MOST_ITEMS:,} items")
        if self.type not in {"integer", "number"} and any(b is not None and b < 0 for b in (self.least, self.most)):
            raise ValueError("a number of characters or items is 0 or more")
        if self.type != "number" and any(b is not None and b != int(b) for b in (self.least, self.most)):
            raise ValueError(f"`least` and `most` are whole for type {self.type}")
        return self

    @property
    def most_items(self) -> int:
        """How many items a list may have."""
        return _MAX_ITEMS if self.most is None else int(self.most)

    def annotation(self) -> Any:
        """The type that pydantic checks, with its bounds. A text is not empty unless `least` is 0."""
        if self.type == "boolean":
            return bool
        if self.type == "number":
            return Annotated[float, Field(ge=self.least, le=self.most, allow_inf_nan=False)]
        if self.type == "integer":
            low = -_MAX_INTEGER if self.least is None else int(self.least)
            return Annotated[int, Field(ge=low, le=_MAX_INTEGER if self.most is None else int(self.most))]
        if self.type == "list":
            item: Any = Literal[self.values] if self.values else _text(1, None)
            return Annotated[tuple[item, ...], Field(min_length=int(self.least or 0), max_length=self.most_items)]
        return Literal[self.values] if self.values else _text(self.least, self.most)


def _text(least: float | None, most: float | None) -> Any:
    shortest, longest = (1 if least is None else int(least)), (_MAX_CHARACTERS if most is None else int(most))
    return Annotated[str, Field(min_length=shortest, max_length=longest)]


class Stage(Settings):
    """One request to a model. `template` is a file of the folder without `.j2`; by default the stage's name."""

    name: str = Field(pattern=NAME_PATTERN)
    template: str = Field("", pattern=_FILE_PATTERN)
    role: str = Field("writer", pattern=NAME_PATTERN)
    answer: Mapping[str, Annotated[AnswerField, BeforeValidator(_as_mapping)]] = Field(min_length=1)
    each: str = ""
    when: str = ""

    @property
    def file(self) -> str:
        return self.template or self.name


class ConstraintSpec(Settings):
    """A verifiable constraint behind an intent's instruction; its value is text, or what a reference `from` means."""

    family: str
    value: str = ""
    reference: str = Field("", alias="from")
    negated: bool = False


class IntentSpec(Settings):
    """A row of the matrix: one for each item where `instruction` or `query` comes from a stage with `each`."""

    name: str = ""
    role: IntentRole
    instruction: str = ""
    query: str = "query"
    constraints: tuple[ConstraintSpec, ...] = ()

    @property
    def label(self) -> str:
        return self.name or self.role


class PassageSpec(Settings):
    """A column of the matrix: `positive` or `negatives` of the seed, or a text that a stage wrote."""

    name: str = ""
    role: PassageRole
    text: str
    most: int = Field(3, ge=1, le=1_000)

    @property
    def label(self) -> str:
        return self.name or self.role


class JudgmentSpec(Settings):
    """[intent, passage, 1 or -1]; of two that come from one loop `same` are those of the same item."""

    intent: str
    passage: str
    relevance: Literal[1, -1]
    which: Literal["same", "others", "all"] = "same"


class TopicSpec(Settings):
    """How a topic is put together."""

    intents: tuple[IntentSpec, ...] = Field(min_length=1)
    passages: tuple[PassageSpec, ...] = Field(min_length=1)
    judgments: tuple[Annotated[JudgmentSpec, BeforeValidator(_as_judgment)], ...] = Field(min_length=1)


def template_of(folder: Path, file: str) -> PromptTemplate:
    """A template of a user's folder, checked; its task is `custom.FILE`. Raises UsageError."""
    return compile_template(f"custom/{file}", source_of(folder, file), fence_all=True)


def source_of(folder: Path, file: str) -> str:
    """The text of a template of a user's folder. Raises UsageError."""
    path = folder / f"{file}.j2"
    try:
        if path.is_file():
            with path.open(encoding="utf-8-sig") as template:
                return template.read(MAX_SOURCE + 1)
    except (OSError, UnicodeDecodeError):
        pass
    raise UsageError(f"there is no readable template {path}; write it, in UTF-8")
