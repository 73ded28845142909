"""What judges answer: a choice from a closed list, nothing else."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict

Label = Literal["A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M", "N", "O", "P"]
LABELS: tuple[Label, ...] = get_args(Label)
"""The names under which passages are shown; no more passages than these fit into one question."""


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MostRelevant(_Answer):
    """The passage that serves the search best."""

    most_relevant: Label | Literal["none"]


class Relevance(_Answer):
    """Whether the one passage is relevant."""

    relevant: bool


class Relevant(_Answer):
    """Which of two passages are relevant."""

    relevant: Literal["A", "B", "both", "neither"]
