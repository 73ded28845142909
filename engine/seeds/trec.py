"""TREC's formats: topics in both styles, and documents in SGML or HTML, as they are on the disks and on the web.

Topics are `<top>` blocks with `<num> <title> <desc> <narr>`. Labels such as `Description:` and closing tags are
optional; the text begins on the line of the tag or on the next. CACM has `<DOC><DOCNO>` blocks whose text is the query.
Documents are `<DOC>` blocks without an XML root, tags in either case, or one HTML file for each document (CACM).
A document with `<author>` and `<bib>`, or with CACM's line of the issue, is an abstract: these lines stand at its end,
and its attributes name `author` and `year`. Cranfield's records without either bear another record's title.
The Federal Register has its title in `<DOCTITLE>` within the text, which then does not repeat it.
Each line is read as UTF-8 if it decodes as such, else as Latin-1. A line break within a paragraph becomes a space;
paragraphs stay apart.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath

from foil.engine.errors import SeedFormatError
from foil.engine.seeds.files.streams import Stream, open_streams, read_lines
from foil.engine.seeds.judged import Document, Query
from foil.engine.topic import Passage

TITLE_IN_TEXT = "doctitle"
TITLES = ("headline", "title", "head", "hl", "ttl", "ti", TITLE_IN_TEXT)
BODIES = ("lp", "leadpara", "text")
NOT_TEXT = ("docno", "docid", "dochdr", "fileid", "first", "second", "author", "bib")
ENTITIES = {"&hyph;": "-", "&blank;": " "}  # the Federal Register's own; the rest are HTML's

_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_COMMENT_OR_TAG = re.compile(rf"<!--.*?-->|{_TAG.pattern}", re.DOTALL)
_DOCNO = re.compile(r"<docno>(.*?)</docno>", re.IGNORECASE | re.DOTALL)
_DOCNO_END = re.compile(r"</docno>", re.IGNORECASE)
_DOC_ID = re.compile(r"<doc\s[^>]*?id\s*=\s*[\"']?([^\"'\s>]+)", re.IGNORECASE)
_PARAGRAPH = re.compile(r"<p\b[^<>]*>|</p>|<br\b[^<>]*>|\n\s*\n", re.IGNORECASE)
_FIELD = re.compile(r"</?(num|title|desc|narr|[a-z]{3,5})>", re.IGNORECASE)
_LABEL = re.compile(r"\s*(?:Number|Topic|Description|Narrative)\s*:", re.IGNORECASE)
_PADDING = re.compile(r"(?<=\D)0+(?=\d)")  # the file is CACM-0115.html, its name in the qrels CACM-115
_CACM_STAMP = re.compile(r"^CA\d{6}\b.*", re.MULTILINE | re.DOTALL)
_CACM_ISSUE = re.compile(r"CACM [A-Z][a-z]+, ((?:19|20)\d\d)")
_CLASSES = re.compile(r"(?:\d+\.\d+\s*)+")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_AUTHOR = re.compile(r"([A-Z][\w'-]+(?: [A-Z][\w'-]+)*),\s*[A-Z]")


@dataclass(frozen=True, slots=True)
class MarkupBlock:
    """The text of one block with its tags, and where it starts; `fault` says why it cannot be used."""

    path: str
    line: int
    text: str
    fault: str = ""

    def format_error(self, expected: str) -> SeedFormatError:
        return SeedFormatError(self.path, self.line, expected, self.text)


def _decode(content: bytes) -> str:
    """Decodes UTF-8, or else Latin-1, in which every byte is a character."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def read_blocks(stream: Stream, tag: str, max_bytes: int) -> Iterator[MarkupBlock]:
    """Every `<tag ...> ... </tag>` of the stream, in either case; the text between the blocks is skipped."""
    tag_pattern = re.compile(rf"(<{tag}(?=[\s>])|</{tag}>)", re.IGNORECASE)
    limit = f"at most {max_bytes:,} bytes"
    parts: list[str] = []
    start = size = 0
    for line in read_lines(stream, max_bytes):
        if line.content is None:
            size = max_bytes + 1
            if not parts:
                yield MarkupBlock(stream.name, line.number, "a longer line", limit)
            continue
        for piece in _split_at_tags(tag_pattern, _decode(line.content)):
            lowered = piece.lower()
            if lowered == f"<{tag}":
                if parts:
                    yield MarkupBlock(stream.name, start, "".join(parts), f"</{tag}> before the next <{tag}>")
                parts, start, size = [piece], line.number, 0
            elif parts:
                size += len(piece)
                parts += [piece] if size <= max_bytes else []
            if lowered == f"</{tag}>" and parts:
                yield MarkupBlock(stream.name, start, "".join(parts), "" if size <= max_bytes else limit)
                parts = []
    if parts:
        yield MarkupBlock(stream.name, start, "".join(parts), f"</{tag}> before the end of the file")


def _split_at_tags(tag_pattern: re.Pattern[str], text: str) -> list[str]:
    return tag_pattern.split(f"{text}\n") if "<" in text else [f"{text}\n"]


def read_topics(path: Path, max_bytes: int) -> Iterator[Query | SeedFormatError]:
    """The topics of a file; `Query.text` is the title, attributes hold title, description and narrative."""
    for stream in open_streams(path):
        for block in read_blocks(stream, "top", max_bytes):
            yield _parse_topic(block)


def _parse_topic(block: MarkupBlock) -> Query | SeedFormatError:
    parts = _FIELD.split(block.text)
    fields: dict[str, str] = {}
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        content = " ".join(html.unescape(_LABEL.sub("", text, count=1)).split())
        if content:
            fields.setdefault(name.lower(), content)
    if block.fault or "num" not in fields or not fields.keys() & {"title", "desc"}:
        return block.format_error(block.fault or "a topic with <num> and a <title> or <desc>")
    tags = {"title": "title", "description": "desc", "narrative": "narr"}
    attributes = {name: fields[tag] for name, tag in tags.items() if tag in fields}
    return Query(_topic_number(fields["num"]), attributes.get("title", ""), block.path, block.line, attributes)


def _topic_number(text: str) -> str:
    """The number of a topic as qrels write it: without leading zeros."""
    return text.lstrip("0") or text if text.isdigit() else text


def read_document_topics(path: Path, max_bytes: int) -> Iterator[Query | SeedFormatError]:
    """Topics written as documents: the DOCNO is the number, and all the text is the query."""
    for stream in open_streams(path):
        for block in read_blocks(stream, "doc", max_bytes):
            document = _parse_document(block)
            if isinstance(document, SeedFormatError):
                yield document
            else:
                text = " ".join(document.passage.text.split())
                yield Query(_topic_number(document.passage.source_id), text, block.path, block.line, {"title": text})


def read_documents(path: Path, max_bytes: int) -> Iterator[Document | SeedFormatError]:
    """The documents of a file, folder or archive. A file without a <DOC>, such as a read-me, gives none."""
    for stream in open_streams(path):
        if stream.base_name.lower().endswith((".html", ".htm")):
            yield _read_html_document(stream, max_bytes)
        else:
            for block in read_blocks(stream, "doc", max_bytes):
                yield _parse_document(block)


def _parse_document(block: MarkupBlock) -> Document | SeedFormatError:
    ends = [match.end() for match in _DOCNO_END.finditer(block.text)]  # beyond the last, each search would be in vain
    name = _DOCNO.search(block.text, 0, ends[-1] if ends else 0) or _DOC_ID.match(block.text)
    if block.fault or name is None or not name[1].strip():
        return block.format_error(block.fault or "a document with a <DOCNO>")
    title, markup = _take_title(block.text)
    bodies = _element_texts(markup, BODIES) or [_remove_elements(markup, (*NOT_TEXT, *TITLES))]
    title = " ".join(_strip_markup(title).split())
    paragraphs = [paragraph for body in bodies for paragraph in _split_paragraphs(body)]
    attributes: dict[str, str] = {}
    if credits_texts := [*_element_texts(markup, ("author",)), *_element_texts(markup, ("bib",))]:
        author, *source = (" ".join(_strip_markup(text).split()) for text in credits_texts)
        paragraphs = [*_without_title(paragraphs, title), *filter(None, (author, *source))]
        attributes = _abstract(author.title().replace("And ", ""), " ".join(source))
        title = title if author or any(source) else ""
    text = "\n\n".join(paragraphs)
    passage = Passage(text, "seed_positive", title=title, source_id=name[1].strip(), attributes=attributes)
    return Document(passage, block.path, block.line)


def _take_title(markup: str) -> tuple[str, str]:
    """The title with its tags, and the markup without it where it stands within the text."""
    for tag in TITLES:
        for first, start, end, last in _elements(markup, (tag,)):
            rest = f"{markup[:first]}\n\n{markup[last:]}" if tag == TITLE_IN_TEXT else markup
            return markup[start:end], rest
    return "", markup


def _without_title(paragraphs: list[str], title: str) -> list[str]:
    """The paragraphs of an abstract that begins with its title, without that."""
    if title and paragraphs and len(paragraphs[0]) > len(title):
        paragraphs[0] = paragraphs[0].removeprefix(title).strip()
    return paragraphs


def _abstract(author: str, issue: str) -> dict[str, str]:
    """What is known of a paper: the surnames of its authors and the year in which it appeared, as far as they are."""
    years = _YEAR.findall(issue)  # the last one: "naca tn.2000, 1950"
    facts = {"author": "; ".join(_AUTHOR.findall(author)), "year": years[-1] if years else ""}
    return {"form": "abstract", **{name: value for name, value in facts.items() if value}}


def _element_texts(text: str, tags: tuple[str, ...]) -> list[str]:
    return [text[start:end] for _, start, end, _ in _elements(text, tags)]


def _remove_elements(text: str, tags: tuple[str, ...]) -> str:
    pieces, at = [], 0
    for first, _, _, last in _elements(text, tags):
        pieces.append(text[at:first])
        at = last
    return " ".join([*pieces, text[at:]])


def _elements(text: str, tags: tuple[str, ...]) -> Iterator[tuple[int, int, int, int]]:
    """Where each element and its content start and end, in one pass: a tag whose end is missing is looked for once."""
    missing: set[str] = set()
    at = 0
    while tag := _start_pattern(tags).search(text, at):
        at, name = tag.end(), tag[1].lower()
        if name not in missing and (end := _end_pattern(name).search(text, at)):
            yield tag.start(), tag.end(), end.start(), end.end()
            at = end.end()
        else:
            missing.add(name)


@cache
def _start_pattern(tags: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"<({'|'.join(tags)})\b[^<>]*>", re.IGNORECASE)


@cache
def _end_pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{re.escape(name)}>", re.IGNORECASE)


def _read_html_document(stream: Stream, max_bytes: int) -> Document | SeedFormatError:
    content = stream.data.read(max_bytes + 1)
    if len(content) > max_bytes:
        return SeedFormatError(stream.name, 1, f"a document of at most {max_bytes:,} bytes", "a larger one")
    markup = _decode(content)
    title_markup = next(iter(_element_texts(markup, ("title",))), "")
    body = _CACM_STAMP.sub("", _strip_markup(_remove_elements(markup, ("title", "script", "style"))))
    paragraphs = list(_split_paragraphs(body))
    title = " ".join(_strip_markup(title_markup).split()) or (paragraphs.pop(0) if len(paragraphs) > 1 else "")
    source_id = _PADDING.sub("", PurePath(stream.base_name).stem)
    attributes: dict[str, str] = {}
    issue = next((i for i, paragraph in enumerate(paragraphs) if _CACM_ISSUE.fullmatch(paragraph)), None)
    if issue is not None:
        attributes = _abstract(" ".join(paragraphs[issue + 1 : issue + 2]), paragraphs[issue])
        paragraphs = [paragraph for paragraph in paragraphs if not _CLASSES.fullmatch(paragraph)]
    text = "\n\n".join(paragraphs)
    passage = Passage(text, "seed_positive", title=title, source_id=source_id, attributes=attributes)
    return Document(passage, stream.name, 1)


def _split_paragraphs(markup: str) -> Iterator[str]:
    """The paragraphs as single lines without markup; blank ones are left out."""
    for part in _PARAGRAPH.split(markup):
        if text := " ".join(_strip_markup(part).split()):
            yield text


def _strip_markup(markup: str) -> str:
    """The text without tags and comments, with entities replaced by their characters."""
    last = markup.rfind("-->")  # beyond it each search for the end of a comment would be in vain
    commented = last + 3 if last >= 0 else 0
    text = _COMMENT_OR_TAG.sub(" ", markup[:commented]) + _TAG.sub(" ", markup[commented:])
    for entity, character in ENTITIES.items():
        text = text.replace(entity, character)
    return html.unescape(text)
