"""Views: passages put together from labelled blocks, so that every edit is known to the letter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from foil.engine.topic import Passage, PassageRole
from foil.prompts.passages.blocks import Block, SourcePassage, join, kept_attributes


@dataclass(frozen=True, slots=True)
class View:
    """A passage made of blocks, by their labels in the order in which they stand; all are of one passage."""

    blocks: tuple[str, ...]


class BlockIndex:
    """The blocks of a seed's passages by label; turns views into passages."""

    def __init__(self, sources: Sequence[SourcePassage]) -> None:
        self._sources: Mapping[str, SourcePassage] = {source.name: source for source in sources}
        self._blocks: Mapping[str, Block] = {b.label: b for source in sources for b in source.blocks}

    def source(self, view: View) -> SourcePassage:
        """The passage that the view edits."""
        return self._sources[view.blocks[0].partition(".")[0]]

    def passage(self, view: View, role: PassageRole) -> Passage:
        """The passage that the view describes, unedited where it keeps every block as it was."""
        source = self.source(view)
        original = source.passage
        if source.whole and view.blocks == source.labels:
            return replace(original, role=role)
        edit = "sentence_dropped" if len(view.blocks) < len(source.blocks) else "shortened"
        return Passage(
            join([self._blocks[label] for label in view.blocks]),
            role,
            title=original.title,
            source_id=original.source_id,
            edited_from=original.id,
            attributes={**kept_attributes(original), "edit": edit},
        )
