"""The reply types of judges: each is a choice from a closed list."""

from typing import Literal, get_args

from prompts.parse import StructuredReply

Label = Literal["A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M", "N", "O", "P"]
LABELS: tuple[Label, ...] = get_args(Label)
"""The labels of the passages in one question; there are no more passages than labels."""


class MostRelevant(StructuredReply):
    """The passage that serves the search best."""

    most_relevant: Label | Literal["none"]


class Relevance(StructuredReply):
    """Whether the one passage is relevant."""

    relevant: bool


class Relevant(StructuredReply):
    """Which of two passages are relevant."""

    relevant: Literal["A", "B", "both", "neither"]
