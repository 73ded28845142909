"""A document as blocks under headings: paragraphs in plain words; code and tables as they stand.

Markdown --markdown-it-py--> tokens --> blocks        plain text --blank lines--> blocks
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

_BLANK_LINE = re.compile(r"\n\s*\n")
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class DocumentBlock:
    """A piece of a document. `headings`: those above it, outermost first; `whole`: code or a table, with its lines."""

    headings: tuple[str, ...]
    text: str
    whole: bool = False


def plain_blocks(text: str) -> Iterator[DocumentBlock]:
    """The paragraphs of a plain text, each on one line."""
    for paragraph in _BLANK_LINE.split(text):
        if paragraph.strip():
            yield DocumentBlock((), " ".join(paragraph.split()))


def markdown_blocks(text: str) -> Iterator[DocumentBlock]:
    """The blocks of a Markdown page; links and emphasis are left as their words, HTML and front matter are left out."""
    text = _FRONT_MATTER.sub("", text)
    lines, headings = text.splitlines(), dict[int, str]()
    tokens, mark = _parser().parse(text), ""
    for position, token in enumerate(tokens):
        if token.type == "list_item_open":
            mark = f"{token.info}. " if token.info else "- "
        elif token.type == "heading_open":
            level = int(token.tag[1:])
            headings = {at: words for at, words in headings.items() if at < level}
            headings[level] = _words(tokens[position + 1].children)
        elif token.type in ("fence", "code_block", "table_open"):
            begin, end = token.map
            yield DocumentBlock(_path(headings), "\n".join(lines[begin:end]).strip("\n"), whole=True)
        elif token.type == "paragraph_open" and (words := _words(tokens[position + 1].children)):
            yield DocumentBlock(_path(headings), mark + words)
            mark = ""


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table")


def _path(headings: dict[int, str]) -> tuple[str, ...]:
    return tuple(words for words in headings.values() if words)


def _words(tokens: Sequence[Any] | None) -> str:
    """The words of a line without its marks; a picture is left out."""
    parts = [" " if each.type in ("softbreak", "hardbreak") else each.content for each in _shown(tokens or ())]
    return " ".join("".join(parts).split())


def _shown(tokens: Sequence[Any]) -> Iterator[Any]:
    return (each for each in tokens if each.type in ("text", "text_special", "code_inline", "softbreak", "hardbreak"))
