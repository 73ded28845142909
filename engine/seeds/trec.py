"""TREC's formats: topics in both styles, and documents in SGML or HTML, as they lie on the disks and on the web.

Topics are `<top>` blocks with `<num> <title> <desc> <narr>` (labels such as `Description:` optional, closing tags
optional, text on the tag's line or the next), or `<DOC><DOCNO>` blocks whose text is the query (CACM).
Documents are `<DOC>` blocks without an XML root, tags in either case, or one HTML file a document (CACM).
Text is UTF-8 where it decodes as such, line by line, else Latin-1. Line breaks within a paragraph are typesetting and
become spaces; paragraphs stay apart.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath

from engine.errors import SeedFormatError
from engine.seeds.files.streams import Stream, lines, streams
from engine.seeds.judged import Query
from engine.topic import Passage

TITLES = ("headline", "title", "head", "hl", "ttl", "ti")
BODIES = ("lp", "leadpara", "text")
NOT_TEXT = ("docno", "docid", "dochdr", "fileid", "first", "second", "author", "bib")
ENTITIES = {"&hyph;": "-", "&blank;": " "}  # the Federal Register's own; the rest are HTML's

_TAG = re.compile(r"<!--.*?-->|</?[a-zA-Z][^<>]*>", re.DOTALL)
_DOCNO = re.compile(r"<docno>(.*?)</docno>", re.IGNORECASE | re.DOTALL)
_DOC_ID = re.compile(r"<doc\s[^>]*?id\s*=\s*[\"']?([^\"'\s>]+)", re.IGNORECASE)
_PARAGRAPH = re.compile(r"<p\b[^<>]*>|</p>|<br\b[^<>]*>|\n\s*\n", re.IGNORECASE)
_FIELD = re.compile(r"</?(num|title|desc|narr|[a-z]{3,5})>", re.IGNORECASE)
_LABEL = re.compile(r"\s*(?:Number|Topic|Description|Narrative)\s*:", re.IGNORECASE)
_PADDING = re.compile(r"(?<=\D)0+(?=\d)")  # the file is CACM-0115.html, its name in the qrels CACM-115
_CACM_STAMP = re.compile(r"^CA\d{6}\b.*", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class MarkupBlock:
    """The text of one tagged block, its tags included, and where it starts; `fault` says why it cannot be used."""

    path: str
    line: int
    text: str
    fault: str = ""

    def bad(self, expected: str) -> SeedFormatError:
        """The error for this block."""
        return SeedFormatError(self.path, self.line, expected, self.text)


def decoded(raw: bytes) -> str:
    """UTF-8, or else Latin-1, in which every byte is a character."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def blocks(stream: Stream, tag: str, max_bytes: int) -> Iterator[MarkupBlock]:
    """Every `<tag ...> ... </tag>` of the stream, in either case; what stands between them is passed over."""
    edge = re.compile(rf"(<{tag}(?=[\s>])|</{tag}>)", re.IGNORECASE)
    limit = f"at most {max_bytes:,} bytes"
    parts: list[str] = []
    start = size = 0
    for line in lines(stream, max_bytes):
        if line.raw is None:
            size = max_bytes + 1
            if not parts:
                yield MarkupBlock(stream.name, line.number, "a longer line", limit)
            continue
        for piece in _pieces(edge, decoded(line.raw)):
            mark = piece.lower()
            if mark == f"<{tag}":
                if parts:
                    yield MarkupBlock(stream.name, start, "".join(parts), f"</{tag}> before the next <{tag}>")
                parts, start, size = [piece], line.number, 0
            elif parts:
                size += len(piece)
                parts += [piece] if size <= max_bytes else []
            if mark == f"</{tag}>" and parts:
                yield MarkupBlock(stream.name, start, "".join(parts), "" if size <= max_bytes else limit)
                parts = []
    if parts:
        yield MarkupBlock(stream.name, start, "".join(parts), f"</{tag}> before the end of the file")


def _pieces(edge: re.Pattern[str], text: str) -> list[str]:
    return edge.split(f"{text}\n") if "<" in text else [f"{text}\n"]


def topics(path: Path, max_bytes: int) -> Iterator[Query | SeedFormatError]:
    """The topics of a file; `Query.text` is the title, attributes hold title, description and narrative."""
    for stream in streams(path):
        for block in blocks(stream, "top", max_bytes):
            yield _topic(block)


def _topic(block: MarkupBlock) -> Query | SeedFormatError:
    parts = _FIELD.split(block.text)
    fields: dict[str, str] = {}
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        content = " ".join(html.unescape(_LABEL.sub("", text, count=1)).split())
        if content:
            fields.setdefault(name.lower(), content)
    if block.fault or "num" not in fields or not fields.keys() & {"title", "desc"}:
        return block.bad(block.fault or "a topic with <num> and a <title> or <desc>")
    attributes = {"title": "title", "description": "desc", "narrative": "narr"}
    known = {name: fields[tag] for name, tag in attributes.items() if tag in fields}
    return Query(topic_number(fields["num"]), known.get("title", ""), block.path, block.line, known)


def topic_number(text: str) -> str:
    """The topic's number as qrels write it: without leading zeros."""
    return text.lstrip("0") or text if text.isdigit() else text


def document_topics(path: Path, max_bytes: int) -> Iterator[Query | SeedFormatError]:
    """Topics written as documents: the number is the DOCNO, the query all the text."""
    for stream in streams(path):
        for block in blocks(stream, "doc", max_bytes):
            document = _document(block)
            if isinstance(document, SeedFormatError):
                yield document
            else:
                text = " ".join(document.text.split())
                yield Query(topic_number(document.source_id), text, block.path, block.line, {"title": text})


def documents(path: Path, max_bytes: int) -> Iterator[Passage | SeedFormatError]:
    """The documents of a file, tree or archive. Files without a <DOC>, such as a disk's read-me, hold none."""
    for stream in streams(path):
        if stream.inner.lower().endswith((".html", ".htm")):
            yield _html_document(stream, max_bytes)
        else:
            for block in blocks(stream, "doc", max_bytes):
                yield _document(block)


def _document(block: MarkupBlock) -> Passage | SeedFormatError:
    name = _DOCNO.search(block.text) or _DOC_ID.match(block.text)
    if block.fault or name is None or not name[1].strip():
        return block.bad(block.fault or "a document with a <DOCNO>")
    title = next((found for tag in TITLES for found in _contents(block.text, (tag,))), "")
    bodies = _contents(block.text, BODIES) or [_without(block.text, (*NOT_TEXT, *TITLES))]
    text = "\n\n".join(paragraph for body in bodies for paragraph in paragraphs(body))
    return Passage(text, "seed_positive", title=" ".join(plain(title).split()), source_id=name[1].strip())


def _contents(text: str, tags: tuple[str, ...]) -> list[str]:
    return [match[2] for match in _element(tags).finditer(text)]


def _without(text: str, tags: tuple[str, ...]) -> str:
    return _element(tags).sub(" ", text)


@cache
def _element(tags: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"<({'|'.join(tags)})\b[^<>]*>(.*?)</\1>", re.IGNORECASE | re.DOTALL)


def _html_document(stream: Stream, max_bytes: int) -> Passage | SeedFormatError:
    raw = stream.data.read(max_bytes + 1)
    if len(raw) > max_bytes:
        return SeedFormatError(stream.name, 1, f"a document of at most {max_bytes:,} bytes", "a larger one")
    markup = decoded(raw)
    heading = next(iter(_contents(markup, ("title",))), "")
    body = _CACM_STAMP.sub("", plain(_without(markup, ("title", "script", "style"))))
    found = list(paragraphs(body))
    title = " ".join(plain(heading).split()) or (found.pop(0) if len(found) > 1 else "")
    name = _PADDING.sub("", PurePath(stream.inner).stem)
    return Passage("\n\n".join(found), "seed_positive", title=title, source_id=name)


def paragraphs(markup: str) -> Iterator[str]:
    """The paragraphs of marked-up text as plain single lines, blank ones left out."""
    for part in _PARAGRAPH.split(markup):
        if text := " ".join(plain(part).split()):
            yield text


def plain(markup: str) -> str:
    """The text without tags and comments, entities resolved."""
    text = _TAG.sub(" ", markup)
    for entity, character in ENTITIES.items():
        text = text.replace(entity, character)
    return html.unescape(text)
