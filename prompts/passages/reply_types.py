"""The reply types of writers: what a recipe asks a model for.

    infir, promptriever, dual_view       instructions, queries and passages as plain text
    infosearch                           keywords, rewritten passages, one-sentence conditions

Every key of a reply's schema is required and no other is allowed, so that `strict` modes take it. What a task asks a
model to think through stands before the answer. A refusal is a field of its own, "" where there is none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field

from engine.errors import Rejected
from engine.topic import Passage, PassageRole
from prompts.parse import StructuredReply
from prompts.passages.reply_checks import check_analysis

Category = Literal["different_interpretation", "omission", "mentions_excluded"]
_REASON_CODE = re.compile(r"[a-z][a-z0-9_]{0,39}")

MOST_QUERY = 4000
"""Characters of another query at most."""


def refusal_of(reason: str) -> Rejected:
    """The rejection that a writer asks for: its reason code; a reason in prose becomes the detail of another code."""
    code = reason.strip()
    return Rejected(code if _REASON_CODE.fullmatch(code) else "writer_refused", f"the writer refused: {reason}")


class _Aspects(StructuredReply):
    aspects: tuple[str, ...] = Field(max_length=8, description="what sets the passage apart, in short phrases")


class _Differences(StructuredReply):
    differences: tuple[str, ...] = Field(max_length=8, description="how what is wanted now differs from the passage")


class _Failure(StructuredReply):
    category: Category
    reason: str = Field(min_length=1, max_length=1000, description="the condition that the text misses")


class _CheckedInstruction(StructuredReply):
    """An instruction; `refusal` is a short reason where the passage allows none."""

    instruction: str = Field(max_length=5000)
    refusal: str = Field(max_length=200, description='"", or a short reason code in place of the rest')

    def check(self) -> None:
        """Raises Rejected: the writer's own reason, or `writer_refused` for one in prose; `no_instruction`."""
        if self.refusal.strip():
            raise refusal_of(self.refusal)
        if not self.instruction.strip():
            raise Rejected("no_instruction", "the writer gave no instruction")


class WrittenInstruction(_CheckedInstruction, _Aspects):
    """An instruction, what sets the kept passage apart, and the ids of the passages that it keeps and excludes."""

    kept: tuple[str, ...] = Field(max_length=32, description="ids of the passages that are relevant under it")
    excluded: tuple[str, ...] = Field(max_length=32, description="ids of all other passages shown")

    def check_ids(self, keep: str, others: Sequence[str]) -> None:
        """Raises Rejected(keeps_other_passages) unless it keeps one passage and excludes the others."""
        kept, excluded = (sorted({name.strip(" []") for name in names}) for names in (self.kept, self.excluded))
        if (kept, excluded) != ([keep], sorted(others)):
            raise Rejected("keeps_other_passages", f"it keeps {kept} and excludes {excluded}, not {keep} alone")


class PoisonedInstruction(_CheckedInstruction, _Differences, _Aspects):
    """An instruction that the passage breaks, after what the passage rests on and how another answer differs."""


class WrittenQuery(_Differences, _Aspects):
    """A poisoned query, with the aspects of the passage that it turns against and the differences that follow."""

    query: str = Field(max_length=MOST_QUERY)
    refusal: str = Field(max_length=200, description='"", or a short reason code in place of the rest')

    def check(self) -> None:
        """Raises Rejected: the writer's own reason; `no_analysis` (`check_analysis`)."""
        if self.refusal.strip():
            raise refusal_of(self.refusal)
        check_analysis(self.aspects, self.differences)


class WrittenPassage(StructuredReply):
    """A passage; `title` is "" where the corpus has none."""

    title: str = Field(max_length=500)
    text: str = Field(max_length=20_000)

    def to_passage(self, role: PassageRole, **attributes: str) -> Passage:
        """The passage, its title on one line."""
        return Passage(self.text.strip(), role, title=" ".join(self.title.split()), attributes=attributes)


class ContrastedPassage(WrittenPassage, _Differences):
    """A passage, after how it differs from the one shown."""


class WrittenNegative(WrittenPassage, _Failure):
    """A passage that answers the query and breaks the instruction, after in which way and why."""

    @property
    def failure(self) -> dict[str, str]:
        """In which way it fails, and why."""
        return {"category": self.category, "reason": self.reason}


class WrittenPassages(StructuredReply):
    """One passage that fits query and instruction, and some that fit the query alone (Promptriever, section 2.2)."""

    conditions: tuple[str, ...] = Field(max_length=12, description="the conditions of the instruction, one by one")
    positive: WrittenPassage | None
    negatives: tuple[WrittenNegative, ...] = Field(max_length=8)


def _on_one_line(text: str) -> str:
    if "\n" in text or not text.strip():
        raise ValueError("expected one sentence on one line")
    return text


_Sentence = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_on_one_line)]
"""A validator checks the line break, not a pattern: xgrammar, and so vLLM, refuses a pattern beside a length."""


class Keywords(StructuredReply):
    """Conditions of Keyword; `refusal` is a short reason where the passages offer fewer than two."""

    aspects: tuple[str, ...] = Field(max_length=16, description="what each passage speaks of that the others do not")
    keywords: tuple[str, ...] = Field(max_length=8)
    refusal: str = Field(max_length=200, description='"", or a short reason code in place of the rest')


class Rewritten(StructuredReply):
    """A passage, after the facts that it keeps or is about."""

    facts: tuple[str, ...] = Field(max_length=8, description="what answers the question")
    text: str = Field(max_length=20_000)
    refusal: str = Field(max_length=200, description='"", or a short reason code in place of the rest')

    def stripped_text(self) -> str:
        """The text. Raises Rejected(empty_text)."""
        if not self.text.strip():
            raise Rejected("empty_text", "the writer gave neither a passage nor a reason")
        return self.text.strip()


class _Question(StructuredReply):
    question: _Sentence


class Condition(StructuredReply):
    """One sentence that asks for a condition, or for anything else."""

    condition: _Sentence


class AskedInstruction(Condition, _Question):
    """The question in other words, then the condition."""

    model_config = ConfigDict(title="Asked")
