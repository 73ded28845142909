"""The settings of the recipe `custom`, checked as a whole when the job is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from foil.engine.settings import Settings
from foil.prompts.recipes.custom.checks import RecipeChecks
from foil.prompts.recipes.custom.specs import Stage, TopicSpec


class CustomSettings(Settings):
    """Stages of your own, and what becomes of their answers: a topic, or rows."""

    kind: Literal["custom"] = "custom"
    templates: Path = Field(description="folder of the templates, NAME.j2 each")
    stages: tuple[Stage, ...] = Field(
        min_length=1,
        max_length=100,
        description="each: name, answer, and where wanted template, role, each, when (docs/custom.md)",
    )
    topic: TopicSpec | None = Field(None, description="intents, passages, judgments; or else `rows`")
    rows: Mapping[str, str] | None = Field(None, min_length=1, description="columns of plain rows: name -> reference")
    negatives: int = Field(3, ge=0, le=1_000, description="seed negatives that templates and topic may use")
    passage_chars: int = Field(
        4_000, ge=200, le=500_000, description="characters of a passage; a longer positive is shortened"
    )

    def asks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(stage.role for stage in self.stages))

    @model_validator(mode="after")
    def _whole(self) -> CustomSettings:
        checks = RecipeChecks(self.stages, self.templates, self.topic, self.rows)
        errors = [
            InitErrorDetails(type=PydanticCustomError("mistake", "{why}", {"why": why}), loc=place, input=value)
            for place, why, value in checks.mistakes()
        ]
        if errors:
            raise ValidationError.from_exception_data("CustomSettings", errors)
        return self
