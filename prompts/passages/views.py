"""Views: passages put together from labelled blocks, so that every edit is known to the letter.

A view lists what it keeps or borrows, or sets as a list. A hosted model and the rule writer
edit passages in this one way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.errors import Rejected
from engine.topic import Passage, PassageRole
from prompts.passages.blocks import Block, SourcePassage, join, kept_attributes
from prompts.passages.reply_types import View


class BlockIndex:
    """The blocks of a seed's passages by label; turns views into passages."""

    def __init__(self, sources: Sequence[SourcePassage]) -> None:
        self._sources: Mapping[str, SourcePassage] = {source.name: source for source in sources}
        self._blocks: Mapping[str, Block] = {b.label: b for source in sources for b in source.blocks}

    def block(self, label: str) -> Block:
        return self._blocks[label]

    def source(self, view: View) -> SourcePassage:
        """The passage that the view edits. Rejected(bad_view) for an unknown label."""
        unknown = [label for label in view.blocks if label not in self._blocks]
        if unknown:
            raise Rejected("bad_view", f"no block is labelled {unknown[0]!r}")
        return self._sources[view.blocks[0].partition(".")[0]]

    def passage(self, view: View, role: PassageRole) -> Passage:
        """The passage that the view describes, unedited where it keeps every block as it was."""
        source = self.source(view)
        original = source.passage
        keeps_all = source.whole and view.blocks == source.labels
        if keeps_all and view.layout == "kept":
            return replace(original, role=role)
        return Passage(
            self._text([self._blocks[label] for label in view.blocks], view),
            role,
            title=original.title,
            source_id=original.source_id,
            edited_from=original.id,
            attributes={**kept_attributes(original), "edit": edit_kind(view, source)},
        )

    def _text(self, blocks: Sequence[Block], view: View) -> str:
        if view.layout == "list":
            return "\n".join(f"- {' '.join(block.text.split())}" for block in blocks)
        return join(blocks)


def edit_kind(view: View, source: SourcePassage) -> str:
    """One word for what a view does to its passage."""
    if view.layout == "list":
        return "set_as_list"
    if any(label.partition(".")[0] != source.name for label in view.blocks):
        return "sentence_added"
    return "sentence_dropped" if len(view.blocks) < len(source.blocks) else "shortened"
