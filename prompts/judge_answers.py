"""The reply types of judges: each is a choice from a closed list, after the reason for it where that is asked for."""

import re
from typing import Literal, Self, get_args

from pydantic import Field

from foil.engine.protocols import WordReply
from foil.prompts.parse import StructuredReply

Label = Literal["A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M", "N", "O", "P"]
LABELS: tuple[Label, ...] = get_args(Label)
"""The labels of the passages in one question; there are no more passages than labels."""
YES, NO = ("true", "yes"), ("false", "no")
"""The words of an answer in one word, in lower case."""
_WORDS = re.compile(rf"\b(?:{'|'.join((*YES, *NO))})\b", re.IGNORECASE)


class MostRelevant(StructuredReply):
    """The passage that serves the search best."""

    most_relevant: Label | Literal["none"]


class Relevance(StructuredReply):
    """Whether the one passage is relevant."""

    relevant: bool


class Relevant(StructuredReply):
    """Which of two passages are relevant."""

    relevant: Literal["A", "B", "both", "neither"]


class TrueFalse(WordReply):
    """True or false in a word; None where the reply says neither, since logprobs may tell all the same."""

    answer: bool | None

    @classmethod
    def read(cls, text: str) -> Self:
        """The last such word: an answer follows its reasoning.

        >>> TrueFalse.read("Hm, is that false? True.")
        TrueFalse(answer=True)
        """
        words = [word.lower() for word in _WORDS.findall(text)]
        return cls(answer=words[-1] in YES if words else None)


class _Reasoned(StructuredReply):
    reason: str = Field(min_length=1, max_length=4_000, description="which words meet or break which demand")


class ReasonedMostRelevant(MostRelevant, _Reasoned):
    """The passage that serves the search best, after the reason."""


class ReasonedRelevance(Relevance, _Reasoned):
    """Whether the one passage is relevant, after the reason."""


class ReasonedRelevant(Relevant, _Reasoned):
    """Which of two passages are relevant, after the reason."""


def reason_of(answer: StructuredReply) -> str:
    """Why a judge decided so; "" where it was not asked."""
    return answer.reason if isinstance(answer, _Reasoned) else ""
