"""What a writer answers when it is asked for a topic, and how its views become passages.

A view is a list of block labels, so that a hosted model and the rule writer edit passages in the same exact way: what
is kept, borrowed, set as a list or has one figure changed is known to the letter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from engine.errors import Rejected
from engine.topic import Passage, PassageRole
from prompts.constraints.constraint import Constraint
from prompts.passages.blocks import Block, Cut, join


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class View(_Answer):
    """A passage made of blocks; the first block's passage is the one that is edited."""

    blocks: tuple[str, ...] = Field(min_length=1, description="labels of the blocks, in the order in which they stand")
    layout: Literal["kept", "list"] = Field(default="kept", description="`list` sets each block as a bullet point")
    changed: tuple[str, str] | None = Field(default=None, description="one figure or year: as it was, as it becomes")


class Demand(_Answer):
    """One constraint, as `prompts.constraints` knows it."""

    family: str
    value: str = ""
    negated: bool = False

    def constraint(self) -> Constraint:
        return Constraint(self.family, self.value, self.negated)


class Instruction(_Answer):
    """An instruction and the constraints behind it."""

    constraints: tuple[Demand, ...] = Field(min_length=1, max_length=3)
    wording: str = Field(min_length=1, max_length=2000)


class OtherQuery(_Answer):
    """Another query, and a view of a negative that answers it and obeys the instruction."""

    query: str = Field(min_length=1, max_length=4000)
    view: View


class TopicAnswer(_Answer):
    """Two views that both answer the query, the instructions that part them, and another query."""

    refusal: str = Field(default="", description="a short reason code, where the passages allow no topic")
    first: View | None = None
    second: View | None = None
    instruction: Instruction | None = None
    reverse: Instruction | None = None
    poison: Instruction | None = None
    other: OtherQuery | None = None


_CODE = re.compile(r"[a-z][a-z0-9_]{0,39}")


def refused(said: str) -> Rejected:
    """The rejection that a writer asks for: its reason code; a reason in prose becomes the detail of another code."""
    code = said.strip()
    return Rejected(code if _CODE.fullmatch(code) else "writer_refused", f"the writer refused: {said}")


class Blocks:
    """The blocks of a seed's passages by label; turns views into passages."""

    def __init__(self, cuts: Sequence[Cut]) -> None:
        self._cuts: Mapping[str, Cut] = {cut.name: cut for cut in cuts}
        self._blocks: Mapping[str, Block] = {b.label: b for cut in cuts for b in cut.blocks}

    def block(self, label: str) -> Block:
        return self._blocks[label]

    def owner(self, view: View) -> Cut:
        """The passage that the view edits. Rejected(bad_view) for an unknown label."""
        unknown = [label for label in view.blocks if label not in self._blocks]
        if unknown:
            raise Rejected("bad_view", f"no block is labelled {unknown[0]!r}")
        return self._cuts[view.blocks[0].partition(".")[0]]

    def passage(self, view: View, role: PassageRole) -> Passage:
        """The passage that the view describes, unedited where it keeps every block as it was."""
        cut = self.owner(view)
        original = cut.passage
        whole = cut.whole and view.blocks == tuple(b.label for b in cut.blocks)
        if whole and view.layout == "kept" and view.changed is None:
            return replace(original, role=role)
        text = self._text([self._blocks[label] for label in view.blocks], view)
        edit = {"edit": edit_kind(view, cut)}
        attributes = {k: v for k, v in original.attributes.items() if k in KEPT} | edit
        return Passage(
            text,
            role,
            title=original.title,
            source_id=original.source_id,
            edited_from=original.id,
            attributes=attributes,
        )

    def _text(self, blocks: Sequence[Block], view: View) -> str:
        if view.layout == "list":
            return "\n".join(f"- {' '.join(block.text.split())}" for block in blocks)
        text = join(blocks)
        if view.changed is None:
            return text
        old, new = view.changed
        if text.count(old) != 1 or any(old in b.text for b in blocks if b.core):
            raise Rejected("bad_view", f"the figure {old!r} must stand once, outside the blocks that answer")
        return text.replace(old, new)


KEPT = frozenset({"language", "library", "kind", "form", "module"})
"""Attributes that stay true of a passage whatever blocks are dropped."""


def edit_kind(view: View, cut: Cut) -> str:
    """One word for what a view does to its passage."""
    if view.layout == "list":
        return "set_as_list"
    if view.changed is not None:
        return "figure_changed"
    if any(label.partition(".")[0] != cut.name for label in view.blocks):
        return "sentence_added"
    return "sentence_dropped" if len(view.blocks) < len(cut.blocks) else "shortened"
