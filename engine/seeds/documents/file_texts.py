"""Files of documents as blocks: text and Markdown as they are, HTML by markdownify, PDF by pypdf.

Of an HTML page, what stands around its text is left out: navigation, header, footer, forms, and lists of links alone.
"""

import logging
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import NoReturn

from foil.engine.seeds.documents.blocks import DocumentBlock, markdown_blocks, plain_blocks

WINDOWS_1252 = "cp1252"
MARKDOWN, HTML = (".md", ".markdown"), (".html", ".htm", ".xhtml")
ENDINGS = (".txt", ".text", ".rst", *MARKDOWN, *HTML, ".pdf")
"""Of the names of files that are read."""
_AROUND = (
    "nav", "header", "footer", "aside", "script", "style", "form", "noscript", "template", "svg", "button", "head",
)  # fmt: skip
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_DAMAGED = (ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, RuntimeError, TypeError, ValueError)
"""What parsers raise besides errors of their own at a file that is damaged."""
_CUT_WORD = re.compile(r"(?<=\w)-\n(?=[a-z])")


class UnreadableDocumentError(Exception):
    """A file that holds no document of its kind; the text says why."""


def decode_text(raw: bytes) -> tuple[str, str]:
    """A text and its encoding: UTF-8, UTF-16 with its mark, or else Windows-1252, which Latin-1 is part of."""
    if raw.startswith(_UTF_16):
        return raw.decode("utf-16", "replace"), "utf-16"
    try:
        return raw.decode("utf-8-sig"), "utf-8"
    except UnicodeDecodeError:
        text = raw.decode(WINDOWS_1252, "replace")
    if _CONTROL.search(text):
        raise UnreadableDocumentError("it is no text: it holds control characters")
    return text, WINDOWS_1252


def html_to_markdown(raw: bytes) -> str:
    """The text of a page as Markdown. The page says its encoding, or it is found by its bytes."""
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(raw, "html.parser")
    for element in soup(_AROUND):
        element.decompose()
    for element in soup(["ul", "ol"]):
        words = "".join(element.get_text().split())
        if not element.decomposed and words == "".join("".join(a.get_text() for a in element("a")).split()):
            element.decompose()
    converter = MarkdownConverter(
        heading_style="atx", bullets="-", strip=["a", "img", "b", "i", "strong", "em"],
        escape_misc=False, escape_underscores=False, escape_asterisks=False,
    )  # fmt: skip
    return str(converter.convert_soup(soup))


def pdf_text(raw: bytes) -> str:
    """The text of all pages as one paragraph: a PDF says where letters stand, not where paragraphs end."""
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, PyPdfError

    logging.getLogger("pypdf").setLevel(logging.ERROR)
    try:
        pages = [page.extract_text() for page in PdfReader(BytesIO(raw)).pages]
    except (DependencyError, PyPdfError) as error:
        raise UnreadableDocumentError(f"{type(error).__name__}: {error}") from None
    return " ".join(_CUT_WORD.sub("", "\n".join(pages)).split())


def read_blocks(path: Path, max_bytes: int) -> tuple[list[DocumentBlock], str]:
    """The blocks of a file, and the encoding that was taken. Raises UnreadableDocumentError."""
    try:
        with path.open("rb") as file:
            raw = file.read(max_bytes + 1)
        blocks, encoding = _blocks_of(path.suffix.lower(), raw) if len(raw) <= max_bytes else _refuse(max_bytes)
        return list(blocks), encoding
    except OSError as error:
        raise UnreadableDocumentError(error.strerror or str(error)) from None
    except _DAMAGED as error:
        raise UnreadableDocumentError(f"{type(error).__name__}: {error}") from None


def _refuse(max_bytes: int) -> NoReturn:
    raise UnreadableDocumentError(f"it has more than {max_bytes:,} bytes, the limit of `max_row_bytes`")


def _blocks_of(ending: str, raw: bytes) -> tuple[Iterator[DocumentBlock], str]:
    if ending == ".pdf" and raw:
        return plain_blocks(_storable(pdf_text(raw))), "utf-8"
    if b"\0" in raw and not raw.startswith(_UTF_16):
        raise UnreadableDocumentError("it is no text: it holds control characters")
    if ending in HTML:
        return markdown_blocks(_storable(html_to_markdown(raw))), "utf-8"
    text, encoding = decode_text(raw)
    return (markdown_blocks if ending in MARKDOWN else plain_blocks)(text), encoding


def _storable(text: str) -> str:
    return text.encode("utf-8", "ignore").decode().replace("\0", "")
