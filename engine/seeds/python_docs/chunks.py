"""Packs the sections of a docstring into texts of bounded length.

Docstring.sections -> pack_sections -> chunks, in the order of the sections
"""

from collections.abc import Iterator
from dataclasses import dataclass

from foil.engine.seeds.python_docs.docstrings import Section, count_words


@dataclass(frozen=True, slots=True)
class DocstringChunk:
    """Some sections as one text; `starts_section` is false if the text begins within a section."""

    text: str
    headings: tuple[str, ...]
    starts_section: bool

    @property
    def words(self) -> int:
        """How many words it holds."""
        return len(self.text.split())


def pack_sections(sections: tuple[Section, ...], max_words: int) -> list[DocstringChunk]:
    """Packs the sections into chunks of about at most `max_words` words.

    A new chunk begins at a section once half of the words are used. A section that is too long for the rest of a chunk
    is cut between its items; only an item longer than a whole chunk passes the limit.
    """
    chunks: list[DocstringChunk] = []
    lines: list[str] = []
    headings: list[str] = []
    starts_section, used_words = True, 0

    def close_chunk() -> None:
        chunks.append(DocstringChunk("\n".join(lines), tuple(headings), starts_section))
        lines.clear()
        headings.clear()

    for section in sections:
        if lines and used_words + section.words > max_words and used_words >= max_words // 2:
            close_chunk()
            starts_section, used_words = True, 0
        has_heading = False
        for item in _split_items(section.lines, max_words):
            item_words = count_words(item)
            if lines and used_words + item_words > max_words:
                close_chunk()
                starts_section, used_words, has_heading = not has_heading, 0, False
            if section.heading and not has_heading:
                lines.append(section.heading + ":")
                headings.append(section.heading)
            has_heading = True
            lines.extend(item)
            used_words += item_words
    if lines:
        close_chunk()
    return chunks


def _split_items(lines: tuple[str, ...], max_words: int) -> Iterator[list[str]]:
    """Groups of lines that belong together: each unindented line with the indented ones below it."""
    item: list[str] = []
    for line in lines:
        belongs_to_item = line.startswith((" ", "..."))
        if item and (not belongs_to_item or count_words(item) > max_words // 2):
            yield item
            item = []
        item.append(line)
    if item:
        yield item
