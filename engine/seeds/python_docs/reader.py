"""Seeds that every machine has: the documentation and sources of Python's standard library and of installed packages.

    objects --summary line--> query;  the rest of the docstring, the source --> passages;  BM25 --> hard negatives

Foil downloads and writes nothing: it reads the packages where they are installed. It skips a package that is not
installed, names it in `PythonDocsReader.absent`, and logs one line.

**Query**: the summary line, or for a share of the seeds a question built from it, or what it has in common with the
summaries of its kin. A summary is not used if it has fewer
than three words, reveals its object's code-like name, repeats an earlier one, or fits many objects of one name.
**Positives**: the rest of the object's documentation, sometimes a second passage with its examples, its source without
the docstring, the same thing in another library by the narrow rule of `same_things`, and kin for a query that asks for
them too.
**Hard negatives**: the passages nearest to the summary by BM25 that are surely of something else (`same_things`).

Order: by a hash of the object's name, so that the first N seeds are a fair sample of all libraries for any N.
Price: the default libraries take about 25 s on one core, 15 of them before the first seed, and 300 MB.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Annotated, Literal

from pydantic import Field

from foil.engine.errors import UsageError
from foil.engine.ids import fraction_of, sha256_hex
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.seeds.python_docs.docstrings import (
    Docstring,
    Section,
    count_words,
    is_code,
    parse_docstring,
    split_sentences,
)
from foil.engine.seeds.python_docs.objects import PythonObject, read_objects
from foil.engine.seeds.python_docs.parsed_module import STDLIB
from foil.engine.seeds.python_docs.questions import as_order, question_of
from foil.engine.seeds.python_docs.same_things import MAX_SAME_THINGS, DocumentedObject, Kin, ObjectIndex
from foil.engine.seeds.python_docs.words import content_words, specific_words, split_words
from foil.engine.settings import Settings
from foil.engine.texts.words import word_set
from foil.engine.topic import Passage, Seed


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


_LOG = logging.getLogger(__name__)

_MIN_WORDS = 32
_MAX_SUMMARY_WORDS = 22
_SEEDS_PER_BATCH = 256

_PERMISSIVE_LICENCES = word_set("PSF-2.0 BSD-3-Clause BSD-2-Clause Apache-2.0 MIT ISC 0BSD CC0-1.0")
_BSD_LIBRARIES = ("numpy", "scipy", "pandas", "sklearn", "torch")
_LICENCES = {STDLIB: "PSF-2.0", "pyarrow": "Apache-2.0", **dict.fromkeys(_BSD_LIBRARIES, "BSD-3-Clause")}
_POOR_SUMMARY = re.compile(
    r"^(?:alias|see|if|when|fixture|deprecated"
    r"|internal|private|helper|note|warning|like|same as|identical to|equivalent to|todo|mixin"
    r"|abstract|concrete|scalar method|dummy|stub|wrapper|not implemented|undocumented|default implementation|override"
    r"|overridden|inherit|legacy|backward|called|used by|for internal|parameters|returns?:"
    r"|this is|this (?:method|function|class) is|this (?:module|package)|for (?:each|all|every))\b",
    re.IGNORECASE,
)
_CODE_LIKE = re.compile(r"[`|\\{}<>*]|::| : |>>>|https?:|%\(|\$|\w_\w|@|\w/\w+\.\w|\w:\w|\b[A-Z]{2,}[a-z]{3,}")
_LOST_NAME = re.compile(
    r"\b(?:an?|the) (?:around|along|at|in|to|and|or|of|by|with|from|is|are|on|for)(?![-\w])|"
    r"\b(?:to|of|in|from|with|by|on) (?:and(?! from)|or|is|are)\b"
)
"""Where an argument's name was marked up, and a reader sees an article or a preposition without anything after it."""
_OWN_WORDS = re.compile(r"\b(?:we|our|us|self|it|the (?:function|method|class|module))\b", re.IGNORECASE)
_PLAIN_WORD = re.compile(r"(?<!\S)[A-Za-z]{2,}(?![^\s.,;:)])")
_PLACEHOLDER = re.compile(r"%\(\w+\)s|\{\w+_(?:note|notes|doc|args)\}|^\s*\{\w+\}$|\w\._\w = ", re.MULTILINE)


class PythonDocsSettings(Settings):
    """Which libraries to read, and what a seed made from an object holds."""

    kind: Literal["python_docs"] = "python_docs"
    libraries: tuple[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")], ...] = Field(
        (STDLIB, "numpy", "scipy", "pandas", "sklearn", "pyarrow", "torch"),
        min_length=1,
        description="`stdlib` or the import names of installed packages, read without importing them",
    )
    max_passage_words: int = Field(350, ge=60, le=10**6, description="longer documents are cut, at their sections")
    negatives: int = Field(8, ge=0, le=1_000, description="hard negatives of each seed, nearest by BM25")
    questions_share: float = Field(0.5, ge=0, le=1, description="share of the queries that are questions")
    kin_share: float = Field(
        1.0,
        ge=0,
        le=1,
        description="share of the objects with kin whose query is what they have in common, with all of them relevant",
    )
    source_share: float = Field(
        0.5, ge=0, le=1, description="share of the documented functions whose source is also a positive"
    )


class PythonDocsReader:
    """Implements `engine.protocols.SeedReader`; `absent` names the libraries that are not installed."""

    def __init__(self, settings: PythonDocsSettings) -> None:
        self._settings = settings
        self.ledger = Ledger()
        self.absent: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Seed]:
        index = ObjectIndex(self._documented_objects())
        positions, count = _choose_objects(index), self._settings.negatives
        queries: set[str] = set()
        for start in range(0, len(positions), _SEEDS_PER_BATCH):
            batch = positions[start : start + _SEEDS_PER_BATCH]
            for position, nearest in zip(batch, index.nearest(batch, count), strict=True):
                obj = index.objects[position]
                wants_kin = fraction_of("kin", obj.name) < self._settings.kin_share
                kin = index.kin(position, nearest) if wants_kin else None
                if kin and kin.query.casefold() in queries:
                    kin = None
                if kin:
                    queries.add(kin.query.casefold())
                negatives = index.negatives(position, nearest, count, kin)
                yield self._make_seed(obj, index.positives(position), negatives, kin)

    def _documented_objects(self) -> list[DocumentedObject]:
        """All objects with at least one passage, without repeated texts, in the order of the hash of their names."""
        objects: list[DocumentedObject] = []
        absent: list[str] = []
        for library in self._settings.libraries:
            python_objects = read_objects(library)
            if python_objects is None:
                absent.append(library)
            objects.extend(self._read_documentation(python_objects or ()))
        self.absent = tuple(absent)
        if len(absent) == len(self._settings.libraries):
            msg = f"python_docs: none of the libraries {', '.join(absent)} is installed; name others, or `{STDLIB}`"
            raise UsageError(msg)
        if absent:
            _LOG.warning("python_docs: not installed and skipped: %s", ", ".join(absent))
        objects.sort(key=lambda obj: (obj.name.count("."), obj.name))
        return sorted(_drop_repeated_texts(objects), key=lambda obj: sha256_hex(obj.name))

    def _read_documentation(self, python_objects: Sequence[PythonObject]) -> Iterator[DocumentedObject]:
        for item in python_objects:
            if not item.source and len(item.doc.split()) < _MIN_WORDS:
                continue
            docstring = parse_docstring(item.doc)
            if docstring.deprecated or not _is_usable_summary(docstring.summary, item.name):
                continue
            passages = tuple(self._passages(item, docstring))
            if passages:
                summary = as_order(docstring.summary)
                yield DocumentedObject(item.name, item.library, item.kind, summary, content_words(summary), passages)

    def _passages(self, item: PythonObject, docstring: Docstring) -> Iterator[Passage]:
        """The documentation, one further passage of it that begins at a section, the source if it does the work."""
        chunks = pack_sections(docstring.sections, self._settings.max_passage_words)
        has_documentation = bool(chunks) and _is_usable_text(chunks[0])
        if has_documentation:
            further_chunks = (chunk for chunk in chunks[1:] if chunk.starts_section and _is_usable_text(chunk))
            for chunk in [chunks[0], *further_chunks][:2]:
                yield _documentation_passage(item, chunk, docstring.summary)
        fits = _MIN_WORDS <= len(item.source.split()) <= self._settings.max_passage_words and not _delegates(item)
        if fits and (not has_documentation or fraction_of("source", item.name) < self._settings.source_share):
            yield _passage(item, item.source, _attributes(item, "source"))

    def _make_seed(
        self, obj: DocumentedObject, positives: tuple[Passage, ...], negatives: tuple[Passage, ...], kin: Kin | None
    ) -> Seed:
        wants_question = fraction_of("question", obj.name) < self._settings.questions_share
        question = question_of(obj.summary, obj.name) if wants_question and not kin else ""
        licence = licence_of(obj.library)
        return Seed(
            id=obj.name,
            corpus="python_docs",
            query=kin.query if kin else question or obj.summary,
            positives=(*positives, *(kin.passages if kin else ())),
            negatives=negatives,
            licence=licence,
            redistributable=licence in _PERMISSIVE_LICENCES,
            attributes={
                "answer_sentence": positives[0].attributes.get("answer_sentence", ""),
                "kind": obj.kind,
                "library": obj.library,
                "query_form": "shared" if kin else "question" if question else "summary",
            },
        )


def _delegates(item: PythonObject) -> bool:
    """Whether the source calls something else of its own name: what is asked for is done there."""
    return re.search(rf"\.{re.escape(item.name.rpartition('.')[2])}\(", item.source) is not None


def licence_of(library: str) -> str:
    """The SPDX expression of a library's licence; "" if its metadata state none."""
    if library in _LICENCES:
        return _LICENCES[library]
    try:
        return str(metadata.metadata(library)["License-Expression"] or "")
    except (metadata.PackageNotFoundError, KeyError):
        return ""


def answer_sentence(text: str, summary: str) -> str:
    """The sentence of the text that shares most content words with the summary, verbatim; the first of equals."""
    summary_words = specific_words(content_words(summary))
    prose = [line.strip() for line in text.splitlines() if not is_code(line) and not line.endswith(":")]
    sentences = (sentence for line in prose for sentence in split_sentences(line))
    candidates = [sentence for sentence in sentences if len(_PLAIN_WORD.findall(sentence)) >= 4]
    return max(candidates, key=lambda sentence: len(summary_words & content_words(sentence)), default="")


def _is_usable_summary(summary: str, name: str) -> bool:
    """Whether a user could have written this line without knowing the object."""
    simple_name = name.rpartition(".")[2]
    words = summary.split()
    is_plain_word = simple_name.isalpha() and (simple_name[1:].islower() or simple_name.isupper())
    return (
        3 <= len(words) <= _MAX_SUMMARY_WORDS
        and words[0][0].isalnum()
        and not summary.endswith((":", ",", ";", "e.g."))
        and summary.count("(") == summary.count(")")
        and not _POOR_SUMMARY.match(summary)
        and not _CODE_LIKE.search(summary)
        and not _OWN_WORDS.search(summary)
        and not _LOST_NAME.search(summary)
        and name not in summary
        and (is_plain_word or not re.search(rf"\b{re.escape(simple_name)}\b", summary))
        and len(content_words(summary)) >= min(3, len(words) - 1)
    )


def _is_usable_text(chunk: DocstringChunk) -> bool:
    """Whether it is long enough and has no placeholder that the library fills only at import time, or wrongly."""
    return chunk.words >= _MIN_WORDS and not _PLACEHOLDER.search(chunk.text)


def _documentation_passage(item: PythonObject, chunk: DocstringChunk, summary: str) -> Passage:
    attributes = _attributes(item, "documentation") | {
        "answer_sentence": answer_sentence(chunk.text, summary),
        "has_example": "yes" if any(is_code(line) for line in chunk.text.splitlines()) else "no",
        "sections": ",".join(dict.fromkeys(chunk.headings)),
    }
    return _passage(item, chunk.text, attributes)


def _passage(item: PythonObject, text: str, attributes: dict[str, str]) -> Passage:
    return Passage(text, "seed_positive", title=item.name, source_id=item.name, attributes=attributes)


def _attributes(item: PythonObject, form: str) -> dict[str, str]:
    module = item.name if item.kind == "module" else item.name.rpartition(".")[0]
    return {"form": form, "kind": item.kind, "language": "python", "library": item.library, "module": module}


def _drop_repeated_texts(objects: Sequence[DocumentedObject]) -> Iterator[DocumentedObject]:
    """Drops texts that an earlier object has (inherited or re-exported docstrings), and objects left without any."""
    text_hashes: set[str] = set()
    for obj in objects:
        new_passages = []
        for passage in obj.passages:
            text_hash = sha256_hex(" ".join(split_words(passage.text.casefold())))
            if text_hash not in text_hashes:
                new_passages.append(passage)
                text_hashes.add(text_hash)
        if new_passages:
            yield replace(obj, passages=tuple(new_passages))


def _choose_objects(index: ObjectIndex) -> list[int]:
    """The objects that become seeds: not too many of one name and meaning, and each summary once."""
    summaries: set[str] = set()
    positions = []
    for position, obj in enumerate(index.objects):
        summary = obj.summary.casefold()
        if len(index.same_things[position]) <= MAX_SAME_THINGS and summary not in summaries:
            summaries.add(summary)
            positions.append(position)
    return positions
