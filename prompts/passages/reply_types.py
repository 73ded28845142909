"""The reply types of writers: what a recipe asks a model for.

    verifiable                           views of passages by block labels, and instructions with their constraints
    infir, promptriever, dual_view       instructions, queries and passages as plain text
    infosearch                           keywords, rewritten passages, one-sentence conditions

Every key of a reply's schema is required and no other is allowed, so that `strict` modes take it. What a task asks a
model to think through stands before the answer. A refusal is a field of its own, "" where there is none.

Some fields are hidden from the JSON schema, so a hosted model never sees them. The rule writer fills them: the
constraints behind a wording (`demands`), what answers a new query (`evidence`), the id of the edited passage
(`source`). With them a recipe checks the claim, and a judge can decide exactly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from engine.errors import Rejected, UsageError
from engine.topic import Passage, PassageRole
from prompts.constraints.constraint import Constraint, dump_constraints, surely_broken, surely_hold
from prompts.constraints.detectors import fold_text
from prompts.constraints.families import FAMILIES
from prompts.parse import StructuredReply
from prompts.passages.answer_evidence import Evidence
from prompts.passages.blocks import kept_attributes
from prompts.passages.reply_checks import check_analysis

Category = Literal["different_interpretation", "omission", "mentions_excluded"]
_REASON_CODE = re.compile(r"[a-z][a-z0-9_]{0,39}")

MOST_QUERY = 4000
"""Characters of another query at most."""


class View(StructuredReply):
    """A passage made of blocks; the first block's passage is the one that is edited."""

    blocks: tuple[str, ...] = Field(min_length=1, description="labels of the blocks, in the order in which they stand")
    layout: Literal["kept", "list"] = Field(default="kept", description="`list` sets each block as a bullet point")


class Demand(StructuredReply):
    """One constraint, as `prompts.constraints` knows it."""

    family: str
    value: str = ""
    negated: bool = False

    @classmethod
    def of(cls, constraint: Constraint) -> Demand:
        return cls(family=constraint.family, value=constraint.value, negated=constraint.negated)

    def constraint(self) -> Constraint:
        return Constraint(self.family, self.value, self.negated)


def constraints_from(demands: Sequence[Demand]) -> tuple[Constraint, ...]:
    """The constraints that the demands name. Raises Rejected(bad_constraint)."""
    try:
        return tuple(demand.constraint() for demand in demands)
    except UsageError as error:
        raise Rejected("bad_constraint", str(error)) from error


def verify_constraints(
    demands: Sequence[Demand], wording: str, holds: Sequence[Passage], fails: Sequence[Passage]
) -> tuple[Constraint, ...]:
    """The constraints behind a wording: all surely hold of each in `holds`, one is surely broken by each in `fails`.

    Raises Rejected (`bad_constraint`, `constraint_not_held`, `value_not_named`).
    """
    constraints = constraints_from(demands)
    all_met = all(surely_hold(constraints, p) for p in holds)
    if constraints and not (all_met and all(surely_broken(constraints, p) for p in fails)):
        raise Rejected("constraint_not_held", dump_constraints(constraints))
    folded_wording = fold_text(wording)
    unnamed = [
        c.value
        for c in constraints
        if FAMILIES[c.family].free
        and not any(fold_text(name) in folded_wording for name in (c.value, FAMILIES[c.family].describe_value(c.value)))
    ]
    if unnamed:
        raise Rejected("value_not_named", f"the instruction does not name {unnamed[0]!r}")
    return constraints


def refusal_of(reason: str) -> Rejected:
    """The rejection that a writer asks for: its reason code; a reason in prose becomes the detail of another code."""
    code = reason.strip()
    return Rejected(code if _REASON_CODE.fullmatch(code) else "writer_refused", f"the writer refused: {reason}")


class Instruction(StructuredReply):
    """An instruction and the constraints behind it."""

    constraints: tuple[Demand, ...] = Field(min_length=1, max_length=3)
    wording: str = Field(min_length=1, max_length=2000)

    def check(self, holds: Passage, fails: Passage) -> tuple[Constraint, ...]:
        """The constraints, which must all hold of one passage, and not all of the other."""
        return verify_constraints(self.constraints, self.wording, [holds], [fails])


class OtherQuery(StructuredReply):
    """Another query, and a view of a negative that answers it and obeys the instruction."""

    query: str = Field(min_length=1, max_length=MOST_QUERY)
    view: View


class TopicAnswer(StructuredReply):
    """Two views that both answer the query, the instructions that part them, and another query."""

    refusal: str = Field(default="", description="a short reason code, where the passages allow no topic")
    first: View | None = None
    second: View | None = None
    instruction: Instruction | None = None
    reverse: Instruction | None = None
    poison: Instruction | None = None
    other: OtherQuery | None = None


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
    demands: SkipJsonSchema[tuple[Demand, ...]] = ()

    def check(self, holds: Sequence[Passage], fails: Sequence[Passage]) -> tuple[Constraint, ...]:
        """The verified constraints behind it; none behind free text.

        Raises Rejected: the writer's own reason, or `writer_refused` for one in prose; `no_instruction`; as
        `verify_constraints`.
        """
        if self.refusal.strip():
            raise refusal_of(self.refusal)
        if not self.instruction.strip():
            raise Rejected("no_instruction", "the writer gave no instruction")
        return verify_constraints(self.demands, self.instruction, holds, fails)


class WrittenInstruction(_CheckedInstruction, _Aspects):
    """An instruction, what sets the kept passage apart, and the ids of the passages that it keeps and excludes."""

    kept: tuple[str, ...] = Field(max_length=32, description="ids of the passages that are relevant under it")
    excluded: tuple[str, ...] = Field(max_length=32, description="ids of all other passages shown")

    def check_ids(self, keep: str, others: Sequence[str]) -> None:
        """Raises Rejected(keeps_other_passages) unless it keeps one passage and excludes the others.

        Where a program knows the constraints, it has looked at the passages itself.
        """
        kept, excluded = (sorted({name.strip(" []") for name in names}) for names in (self.kept, self.excluded))
        if not self.demands and (kept, excluded) != ([keep], sorted(others)):
            raise Rejected("keeps_other_passages", f"it keeps {kept} and excludes {excluded}, not {keep} alone")


class PoisonedInstruction(_CheckedInstruction, _Differences, _Aspects):
    """An instruction that the passage breaks, after what the passage rests on and how another answer differs."""


class WrittenQuery(_Differences, _Aspects):
    """A poisoned query, with the aspects of the passage that it turns against and the differences that follow."""

    query: str = Field(max_length=MOST_QUERY)
    refusal: str = Field(max_length=200, description='"", or a short reason code in place of the rest')
    evidence: SkipJsonSchema[Evidence] = ()

    def check(self) -> None:
        """Raises Rejected: the writer's own reason; `no_analysis` (`check_analysis`)."""
        if self.refusal.strip():
            raise refusal_of(self.refusal)
        if not self.evidence:
            check_analysis(self.aspects, self.differences)


class WrittenPassage(StructuredReply):
    """A passage; `title` is "" where the corpus has none."""

    title: str = Field(max_length=500)
    text: str = Field(max_length=20_000)
    source: SkipJsonSchema[str] = ""

    def to_passage(self, role: PassageRole, originals: Sequence[Passage], **attributes: str) -> Passage:
        """The passage; an edit of one of the `originals` keeps what stays true of it."""
        original = next((p for p in originals if p.id == self.source), None)
        if original is None:
            title = " ".join(self.title.split())
            return Passage(self.text.strip(), role, title=title, attributes=attributes)
        if (self.text, self.title) == (original.text, original.title):
            return replace(original, role=role, attributes={**attributes, **original.attributes})
        return Passage(
            self.text,
            role,
            title=self.title,
            source_id=original.source_id,
            edited_from=original.id,
            attributes={**attributes, **kept_attributes(original)},
        )


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
    """A passage; `source` is the id of the one that was edited, where that is not the first positive."""

    facts: tuple[str, ...] = Field(max_length=8, description="what answers the question")
    text: str = Field(max_length=20_000)
    refusal: str = Field(max_length=200, description='"", or a short reason code in place of the rest')
    source: SkipJsonSchema[str] = ""

    def stripped_text(self) -> str:
        """The text. Raises Rejected(empty_text)."""
        if not self.text.strip():
            raise Rejected("empty_text", "the writer gave neither a passage nor a reason")
        return self.text.strip()


class _Question(StructuredReply):
    question: _Sentence


class Condition(StructuredReply):
    """One sentence that asks for a condition, or for anything else; the rule writer adds what is behind it."""

    condition: _Sentence
    demands: SkipJsonSchema[tuple[Demand, ...]] = ()


class AskedInstruction(Condition, _Question):
    """The question in other words, then the condition."""

    model_config = ConfigDict(title="Asked")
    evidence: SkipJsonSchema[Evidence] = ()
