"""What a writer answers in the recipes of the published methods: instructions, queries and passages as plain text.

Three fields are hidden from the JSON schema, so a hosted model never sees them; the rule writer fills them: the
constraints behind a wording (`demands`), what answers a new query (`evidence`), the passage that was edited (`source`).
With them a recipe checks the claim, and a judge can decide exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from engine.errors import Rejected, UsageError
from engine.topic import Passage, PassageRole
from prompts.constraints.constraint import Constraint, all_hold, dump_constraints
from prompts.constraints.detectors import fold_text
from prompts.constraints.families import FAMILIES
from prompts.passages.answer_evidence import Evidence
from prompts.passages.views import KEPT, Demand, refused

Category = Literal["different_interpretation", "omission", "mentions_excluded"]
CATEGORIES: tuple[Category, ...] = get_args(Category)


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WrittenInstruction(_Answer):
    """An instruction; `refusal` is a short reason where the passage allows none."""

    instruction: str = Field(default="", max_length=5000)
    refusal: str = Field(default="", max_length=200)
    demands: SkipJsonSchema[tuple[Demand, ...]] = ()

    def checked(self, holds: Sequence[Passage], fails: Sequence[Passage]) -> tuple[Constraint, ...]:
        """The constraints behind it, which all hold of some passages and not all of the others; none of a free text.

        Raises Rejected: the writer's own reason, or `writer_refused` for one in prose; `no_instruction`; as `checked`.
        """
        if self.refusal.strip():
            raise refused(self.refusal)
        if not self.instruction.strip():
            raise Rejected("no_instruction", "the writer gave no instruction")
        return checked(self.demands, self.instruction, holds, fails)


def checked(
    demands: Sequence[Demand], wording: str, holds: Sequence[Passage], fails: Sequence[Passage]
) -> tuple[Constraint, ...]:
    """The constraints that a wording names, which all hold of some passages and not all of the others; () for none.

    Raises Rejected (`bad_constraint`, `constraint_not_held`, `value_not_named`).
    """
    try:
        constraints = tuple(demand.constraint() for demand in demands)
    except UsageError as error:
        raise Rejected("bad_constraint", str(error)) from error
    met = all(all_hold(constraints, p) for p in holds)
    if constraints and (not met or any(all_hold(constraints, p) for p in fails)):
        raise Rejected("constraint_not_held", dump_constraints(constraints))
    said = fold_text(wording)
    unnamed = [c.value for c in constraints if FAMILIES[c.family].free and fold_text(c.value) not in said]
    if unnamed:
        raise Rejected("value_not_named", f"the instruction does not name {unnamed[0]!r}")
    return constraints


class WrittenQuery(_Answer):
    """A poisoned query, with the aspects of the passage that it turns against and the differences that follow."""

    aspects: tuple[str, ...] = Field(min_length=2, max_length=3, description="core aspects of the passage")
    differences: tuple[str, ...] = Field(min_length=3, max_length=8, description="how what is sought now differs")
    query: str = Field(min_length=1, max_length=4000)
    evidence: SkipJsonSchema[Evidence] = ()


class WrittenPassage(_Answer):
    """A passage; `title` is "" where the corpus has none."""

    text: str = Field(min_length=1, max_length=20_000)
    title: str = Field(default="", max_length=500)
    source: SkipJsonSchema[str] = ""

    def passage(self, role: PassageRole, known: Sequence[Passage], **attributes: str) -> Passage:
        """As a passage; an edit of a known one keeps what stays true of it."""
        text, title = self.text.strip(), " ".join(self.title.split())
        original = next((p for p in known if p.id == self.source), None)
        if original is None:
            return Passage(text, role, title=title, attributes=attributes)
        kept = {k: v for k, v in original.attributes.items() if k in KEPT}
        if (self.text, self.title) == (original.text, original.title):
            return replace(original, role=role, attributes={**attributes, **original.attributes})
        return Passage(
            self.text,
            role,
            title=self.title,
            source_id=original.source_id,
            edited_from=original.id,
            attributes={**attributes, **kept},
        )


class WrittenNegative(WrittenPassage):
    """A passage that answers the query and breaks the instruction: in which way, and why."""

    category: Category
    reason: str = Field(min_length=1, max_length=1000)


class WrittenPassages(_Answer):
    """One passage that fits query and instruction, and some that fit the query alone (Promptriever, section 2.2)."""

    positive: WrittenPassage | None = None
    negatives: tuple[WrittenNegative, ...] = Field(min_length=1, max_length=8)
