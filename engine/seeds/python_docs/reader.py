"""Seeds that every machine has: the documentation and sources of Python's standard library and of installed packages.

    objects --summary line--> query;  the rest of the docstring, the source --> passages;  BM25 --> hard negatives

Nothing is downloaded and nothing is written; the packages are read where they lie. A package that is not installed is
skipped and named (`PythonDocsReader.absent`, and one log line).

**Query**: the summary line, or for a share of the seeds a question built from it. A summary is passed over if it has
fewer than three words, gives its object's code-like name away, was asked before, or fits many objects of one name.
**Positives**: the rest of the object's documentation, at times a second passage with its examples, its source without
the docstring, and the same thing in another library by the narrow rule of `same_things`.
**Hard negatives**: the passages nearest to the summary by BM25 that are surely of something else (`same_things`).

Order: by a hash of the object's name, so that any first N seeds are a fair sample of all libraries.
Price: the default libraries take about 25 s on one core, 15 of them before the first seed, and 300 MB.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import metadata
from typing import Annotated, Literal

from pydantic import Field

from engine.errors import UsageError
from engine.ids import fraction_of, sha256_hex
from engine.seeds.python_docs.docstrings import Docstring, DocstringText, is_code, read_docstring, sentences, texts_of
from engine.seeds.python_docs.objects import STDLIB, PythonObject, read_objects
from engine.seeds.python_docs.questions import question_of
from engine.seeds.python_docs.same_things import MAX_SAME, Corpus, DocumentedThing, content_words, meaning, words_of
from engine.settings import Settings
from engine.topic import Passage, Seed

_LOG = logging.getLogger(__name__)

_MIN_WORDS = 32
_BATCH = 256

_PERMISSIVE = frozenset(["PSF-2.0", "BSD-3-Clause", "BSD-2-Clause", "Apache-2.0", "MIT", "ISC", "0BSD", "CC0-1.0"])
_LICENCES = {
    STDLIB: "PSF-2.0",
    "numpy": "BSD-3-Clause",
    "scipy": "BSD-3-Clause",
    "pandas": "BSD-3-Clause",
    "sklearn": "BSD-3-Clause",
    "pyarrow": "Apache-2.0",
    "torch": "BSD-3-Clause",
}
_POOR_SUMMARY = re.compile(
    r"^(?:alias|see|if|when|fixture|deprecated"
    r"|internal|private|helper|note|warning|like|same as|identical to|equivalent to|todo|mixin"
    r"|abstract|concrete|scalar method|dummy|stub|wrapper|not implemented|undocumented|default implementation|override"
    r"|overridden|inherit|legacy|backward|called|used by|for internal|parameters|returns?:"
    r"|this (?:method|function|class) is)\b",
    re.IGNORECASE,
)
_ODD = re.compile(r"[`|\\{}<>*]|::| : |>>>|https?:|%\(|\$|__\w+__|@")
_PLAIN_WORD = re.compile(r"(?<!\S)[A-Za-z]{2,}(?![^\s.,;:)])")
_TEMPLATE = re.compile(r"%\(\w+\)s|\{\w+_(?:note|notes|doc|args)\}|^\s*\{\w+\}$", re.MULTILINE)


class PythonDocsSettings(Settings):
    """Which libraries to read, and what a seed made from an object holds."""

    kind: Literal["python_docs"] = "python_docs"
    libraries: tuple[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")], ...] = Field(
        default=(STDLIB, "numpy", "scipy", "pandas", "sklearn", "pyarrow", "torch"),
        min_length=1,
        description="`stdlib` or the import names of installed packages, read without importing them",
    )
    max_passage_words: int = Field(default=350, ge=60, description="longer documents are cut at their sections")
    negatives: int = Field(default=8, ge=0, description="hard negatives a seed, nearest by BM25")
    questions_share: float = Field(default=0.5, ge=0, le=1, description="share of the queries worded as questions")
    source_share: float = Field(
        default=0.5, ge=0, le=1, description="share of the documented functions whose source is a positive too"
    )


class PythonDocsReader:
    """Implements `engine.protocols.SeedReader`; `absent` names the libraries that are not installed."""

    def __init__(self, settings: PythonDocsSettings) -> None:
        self._settings = settings
        self.skipped = 0
        self.absent: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Seed]:
        corpus = Corpus(self._entries())
        chosen = _worth_asking(corpus)
        for start in range(0, len(chosen), _BATCH):
            batch = chosen[start : start + _BATCH]
            for position, negatives in zip(batch, corpus.negatives(batch, self._settings.negatives), strict=True):
                yield self._seed(corpus.entries[position], corpus.positives(position), negatives)

    def _entries(self) -> list[DocumentedThing]:
        """All objects with at least one passage, no text twice, in the order of the hash of their names."""
        found: list[DocumentedThing] = []
        absent: list[str] = []
        for library in self._settings.libraries:
            objects = read_objects(library)
            if objects is None:
                absent.append(library)
            else:
                found.extend(self._read(objects))
        self.absent = tuple(absent)
        if len(absent) == len(self._settings.libraries):
            msg = f"python_docs: none of the libraries {', '.join(absent)} is installed; name others, or `{STDLIB}`"
            raise UsageError(msg)
        if absent:
            _LOG.warning("python_docs: not installed and skipped: %s", ", ".join(absent))
        found.sort(key=lambda entry: (entry.name.count("."), entry.name))
        return sorted(_without_copies(found), key=lambda entry: sha256_hex(entry.name))

    def _read(self, objects: Sequence[PythonObject]) -> Iterator[DocumentedThing]:
        for item in objects:
            if not item.source and len(item.doc.split()) < _MIN_WORDS:
                continue
            document = read_docstring(item.doc)
            if document.deprecated or not _usable(document.summary, item.name):
                continue
            passages = tuple(self._passages(item, document))
            if passages:
                summary = document.summary.rstrip(".")
                yield DocumentedThing(item.name, item.library, item.kind, summary, content_words(summary), passages)

    def _passages(self, item: PythonObject, document: Docstring) -> Iterator[Passage]:
        """The documentation, one further passage of it that begins at a section, and the source."""
        texts = texts_of(document.sections, self._settings.max_passage_words)
        documented = bool(texts) and _worth_reading(texts[0])
        if documented:
            further = (text for text in texts[1:] if text.opens and _worth_reading(text))
            for text in [texts[0], *further][:2]:
                yield _documentation(item, text, document.summary)
        fits = _MIN_WORDS <= len(item.source.split()) <= self._settings.max_passage_words
        if fits and (not documented or fraction_of("source", item.name) < self._settings.source_share):
            yield Passage(
                item.source,
                "seed_positive",
                title=item.name,
                source_id=item.name,
                attributes=_attributes(item, "source"),
            )

    def _seed(self, entry: DocumentedThing, positives: tuple[Passage, ...], negatives: tuple[Passage, ...]) -> Seed:
        question = fraction_of("question", entry.name) < self._settings.questions_share
        asked = question_of(entry.summary, entry.name) if question else ""
        licence = licence_of(entry.library)
        return Seed(
            id=entry.name,
            corpus="python_docs",
            query=asked or entry.summary,
            positives=positives,
            negatives=negatives,
            licence=licence,
            redistributable=licence in _PERMISSIVE,
            attributes={
                "answer_sentence": positives[0].attributes.get("answer_sentence", ""),
                "kind": entry.kind,
                "library": entry.library,
                "query_form": "question" if asked else "summary",
            },
        )


def licence_of(library: str) -> str:
    """The SPDX expression of a library's licence; "" where its metadata state none."""
    if library in _LICENCES:
        return _LICENCES[library]
    try:
        return str(metadata.metadata(library)["License-Expression"] or "")
    except (metadata.PackageNotFoundError, KeyError):
        return ""


def answer_sentence(text: str, summary: str) -> str:
    """The sentence of the text that shares most content words with the summary, the first of equals; verbatim."""
    asked = meaning(content_words(summary))
    prose = [line.strip() for line in text.splitlines() if not is_code(line) and not line.endswith(":")]
    found = [sentence for line in prose for sentence in sentences(line) if len(_PLAIN_WORD.findall(sentence)) >= 4]
    return max(found, key=lambda sentence: len(asked & content_words(sentence)), default="")


def _usable(summary: str, name: str) -> bool:
    """Whether a user could have written this line without knowing the object."""
    simple = name.rpartition(".")[2]
    words = summary.split()
    code_like = not simple.isalpha() or not (simple[1:].islower() or simple.isupper())
    return (
        3 <= len(words) <= 30
        and words[0][0].isalnum()
        and not summary.endswith((":", ",", ";", "e.g."))
        and summary.count("(") == summary.count(")")
        and not _POOR_SUMMARY.match(summary)
        and not _ODD.search(summary)
        and name not in summary
        and not (code_like and re.search(rf"\b{re.escape(simple)}\b", summary))
        and len(content_words(summary)) >= min(3, len(words) - 1)
    )


def _worth_reading(text: DocstringText) -> bool:
    """Long enough, and no template whose placeholders are filled only at import time."""
    return text.words >= _MIN_WORDS and not _TEMPLATE.search(text.text)


def _documentation(item: PythonObject, text: DocstringText, summary: str) -> Passage:
    attributes = _attributes(item, "documentation") | {
        "answer_sentence": answer_sentence(text.text, summary),
        "has_example": "yes" if any(is_code(line) for line in text.text.splitlines()) else "no",
        "sections": ",".join(dict.fromkeys(text.headings)),
    }
    return Passage(text.text, "seed_positive", title=item.name, source_id=item.name, attributes=attributes)


def _attributes(item: PythonObject, form: str) -> dict[str, str]:
    module = item.name if item.kind == "module" else item.name.rpartition(".")[0]
    return {"form": form, "kind": item.kind, "language": "python", "library": item.library, "module": module}


def _without_copies(entries: Sequence[DocumentedThing]) -> Iterator[DocumentedThing]:
    """Drops texts that stood before (inherited and re-exported docstrings), and objects left without any."""
    seen: set[str] = set()
    for entry in entries:
        fresh = []
        for passage in entry.passages:
            key = sha256_hex(" ".join(words_of(passage.text.casefold())))
            if key not in seen:
                fresh.append(passage)
                seen.add(key)
        if fresh:
            yield replace(entry, passages=tuple(fresh))


def _worth_asking(corpus: Corpus) -> list[int]:
    """The entries that make a seed: not too many of one name and meaning, and each summary once."""
    asked: set[str] = set()
    chosen = []
    for position, entry in enumerate(corpus.entries):
        summary = entry.summary.casefold()
        if len(corpus.same[position]) <= MAX_SAME and summary not in asked:
            asked.add(summary)
            chosen.append(position)
    return chosen
