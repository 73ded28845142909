"""Seeds that every machine has: the documentation and sources of Python's standard library and of installed packages.

    objects --summary line--> query;  the rest of the docstring, the source --> passages;  BM25 --> hard negatives

Nothing is downloaded and nothing is written; the packages are read where they lie. A package that is not installed is
skipped and named (`PythonDocsReader.absent`, and one log line).

**Query**: the summary line, or for a share of the seeds a question built from it. A summary is passed over if it has
fewer than four words, gives its object's code-like name away, or fits more than `_MAX_SAME` objects of one name.
**Positives**: the rest of the object's documentation, at times a second passage with its examples, its source without
the docstring, and *the same thing elsewhere*: an object of the same simple name (case and underscores aside), of the
same sort (class, or function and method) and with the same qualifiers (`_QUALIFIERS`, in name or summary: sparse,
masked, rolling ...), if the two summaries have enough of their content words in common: half for functions of two
libraries, words such as "array", "tensor" and "element" not counted; three quarters where one is a method; all of them,
"array" and the like included, within one library. Narrow on purpose: `numpy.sqrt` and `torch.sqrt` pass,
`shutil.copy` and `numpy.copy`, `gzip.open` and `lzma.open` do not.
**Hard negatives**: the passages nearest to the summary by BM25, one an object, without those that might be relevant
after all: any object whose summary shares half of the content words, one of the same name with any word in common,
owners and members of the object, and near-copies of a positive.

Order: by a hash of the object's name, so that any first N seeds are a fair sample of all libraries.
Price: the default libraries take about 25 s on one core and 700 MB; an object's texts stay in memory, its tree does not.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Literal

from pydantic import Field

from engine.errors import UsageError
from engine.ids import fraction_of, sha256_hex
from engine.seeds.bm25 import Bm25Index
from engine.seeds.doc_queries import question_of
from engine.seeds.docstrings import Docstring, Text, is_code, read_docstring, sentences, texts_of
from engine.seeds.python_objects import STDLIB, PythonObject, read_objects
from engine.settings import Settings
from engine.topic import Passage, Seed

_LOG = logging.getLogger(__name__)

_MIN_WORDS = 40
_SAME, _SAME_METHOD, _NEAR_COPY = 0.5, 0.75, 0.8
"""Shares of common words from which on two summaries mean the same (the second if one is a method's), two texts are one."""
_MAX_SAME = 4
_BATCH = 256

_PERMISSIVE = frozenset(["PSF-2.0", "BSD-3-Clause", "BSD-2-Clause", "Apache-2.0", "MIT", "ISC", "0BSD", "Zlib", "CC0-1.0"])
_LICENCES = {
    STDLIB: "PSF-2.0", "numpy": "BSD-3-Clause", "scipy": "BSD-3-Clause", "pandas": "BSD-3-Clause",
    "sklearn": "BSD-3-Clause", "pyarrow": "Apache-2.0", "torch": "BSD-3-Clause",
}  # fmt: skip
_POOR_SUMMARY = re.compile(
    r"^(?:alias|see|deprecated|internal|private|helper|note|warning|like|same as|identical to|equivalent to|todo|base class|mixin"
    r"|abstract|concrete|scalar method|dummy|stub|wrapper|convenience|not implemented|undocumented|default implementation"
    r"|override|overridden|inherit|legacy|backward|called|used by|for internal|parameters|returns?:|this (?:method|function|class) is)\b",
    re.IGNORECASE,
)
_ODD = re.compile(r"[`|\\{}<>]|::|>>>|https?:|%\(|\$|__\w+__|@")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*|\d+")
_STOP = frozenset(
    """a an the of in on to for from by with at as and or is are be been that this these those it its into over given each all
    any one which whose whether if when not no using used use via based such other than then between per along""".split()
)
_LIBRARY_WORDS = frozenset(
    """return compute calculate get array tensor element wise elementwise input output new value object function python numpy torch
    pandas scipy pyarrow arrow x y s dataframe sery series index ndarray matrix like specified provided axis dimension current
    create construct make perform apply evaluate self obj instance argument""".split()
)


_QUALIFIERS = frozenset(
    """sparse masked ma mask group groupby rolling expanding window weighted quantized chunked categorical interval period decimal
    context distributed nested complex cuda xpu mtia mps cmath char string random""".split()
)
"""Words that make two objects of one name different things when only one of them has it."""


class PythonDocsSettings(Settings):
    """Which libraries to read, and what a seed made from an object holds."""

    kind: Literal["python_docs"] = "python_docs"
    libraries: tuple[str, ...] = Field(
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


@dataclass(frozen=True, slots=True)
class _Entry:
    """An object with its passages; `words` are the content words of its summary, `meaning` those not of every library."""

    name: str
    library: str
    kind: str
    summary: str
    words: frozenset[str]
    meaning: frozenset[str]
    passages: tuple[Passage, ...]

    @property
    def simple_name(self) -> str:
        """The last part of its name, case and underscores aside."""
        return self.name.rpartition(".")[2].replace("_", "").casefold()

    @property
    def qualifiers(self) -> frozenset[str]:
        """What sets it apart from objects of the same name."""
        return _QUALIFIERS & (self.words | set(self.name.casefold().split(".")))


class PythonDocsReader:
    """Implements `engine.protocols.SeedReader`; `absent` names the libraries that are not installed."""

    def __init__(self, settings: PythonDocsSettings) -> None:
        self._settings = settings
        self.skipped = 0
        self.absent: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Seed]:
        entries = self._entries()
        same = _same_things(entries)
        owners = [position for position, entry in enumerate(entries) for _ in entry.passages]
        passages = [passage for entry in entries for passage in entry.passages]
        index = Bm25Index([f"{passage.title}\n{passage.text}" for passage in passages])
        chosen = _seeds_among(entries, same)
        for start in range(0, len(chosen), _BATCH):
            batch = chosen[start : start + _BATCH]
            nearest = index.nearest(
                [entries[position].summary for position in batch],
                4 * self._settings.negatives + 16 if self._settings.negatives else 0,
                [[]] * len(batch),
            )
            for position, near in zip(batch, nearest, strict=True):
                positives = _positives(position, entries, same[position])
                candidates = ((owners[at], passages[at]) for at in near)
                negatives = _negatives(position, entries, same[position], positives, candidates, self._settings.negatives)
                yield self._seed(entries[position], positives, negatives)

    def _entries(self) -> list[_Entry]:
        """All objects with at least one passage, no text twice, in the order of the hash of their names."""
        found: list[_Entry] = []
        absent: list[str] = []
        for library in self._settings.libraries:
            objects = read_objects(library)
            if objects is None:
                absent.append(library)
            else:
                found.extend(self._read(objects))
        self.absent = tuple(absent)
        if absent:
            _LOG.warning("python_docs: not installed and skipped: %s", ", ".join(absent))
        if len(absent) == len(self._settings.libraries):
            raise UsageError(f"python_docs: none of the libraries {absent} is installed; name one that is, or `{STDLIB}`")
        found.sort(key=lambda entry: (entry.name.count("."), entry.name))
        return sorted(_without_copies(found), key=lambda entry: sha256_hex(entry.name))

    def _read(self, objects: Sequence[PythonObject]) -> Iterator[_Entry]:
        for item in objects:
            document = read_docstring(item.doc) if item.doc else None
            if document is None or document.deprecated or not _usable(document.summary, item.name):
                continue
            passages = tuple(self._passages(item, document))
            if passages:
                summary = document.summary.rstrip(".")
                words = content_words(summary)
                yield _Entry(item.name, item.library, item.kind, summary, words, words - _LIBRARY_WORDS, passages)

    def _passages(self, item: PythonObject, document: Docstring) -> Iterator[Passage]:
        """The documentation, one further passage of it that begins with examples or notes, and the source."""
        texts = texts_of(document.sections, self._settings.max_passage_words)
        lead = bool(texts) and texts[0].words >= _MIN_WORDS and not _is_template(texts[0].text)
        if lead:
            yield _documentation(item, texts[0], document.summary)
            more = (text for text in texts[1:] if text.opens and text.words >= _MIN_WORDS and not _is_template(text.text))
            yield from (_documentation(item, text, document.summary) for text in list(more)[:1])
        fits = _MIN_WORDS <= len(item.source.split()) <= self._settings.max_passage_words
        if fits and (not lead or fraction_of("source", item.name) < self._settings.source_share):
            attributes = _attributes(item, "source")
            yield Passage(item.source, "seed_positive", title=item.name, source_id=item.name, attributes=attributes)

    def _seed(self, entry: _Entry, positives: tuple[Passage, ...], negatives: tuple[Passage, ...]) -> Seed:
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
        return metadata.metadata(library).get("License-Expression", "")
    except metadata.PackageNotFoundError:
        return ""


def content_words(text: str) -> frozenset[str]:
    """The words of a text without function words, lower-cased, verbs and nouns without their final s."""
    return frozenset(_singular(word) for word in _WORD.findall(text.lower()) if word not in _STOP)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _shared(one: Collection[str], other: Collection[str]) -> float:
    """Jaccard's share of common members; 0 if both are empty."""
    a, b = frozenset(one), frozenset(other)
    return len(a & b) / len(a | b) if a or b else 0.0


def _usable(summary: str, name: str) -> bool:
    """Whether a user could have written this line without knowing the object."""
    simple = name.rpartition(".")[2]
    words = summary.split()
    code_like = not simple.isalpha() or not simple[1:].islower()
    return (
        4 <= len(words) <= 30
        and words[0][0].isalnum()
        and not summary.endswith((":", ",", ";", "e.g."))
        and summary.count("(") == summary.count(")")
        and not _POOR_SUMMARY.match(summary)
        and not _ODD.search(summary)
        and name not in summary
        and not (code_like and simple in summary)
        and len({word.lower() for word in _WORD.findall(summary)} - _STOP) >= 3
    )


def _is_template(text: str) -> bool:
    """Docstrings with unfilled placeholders are filled at import time; unread, they are noise."""
    return bool(re.search(r"%\(\w+\)s|\{\w+_(?:note|notes|doc|args)\}", text))


def _documentation(item: PythonObject, text: Text, summary: str) -> Passage:
    attributes = _attributes(item, "documentation") | {
        "answer_sentence": answer_sentence(text.text, summary),
        "has_example": "yes" if any(is_code(line) for line in text.text.splitlines()) else "no",
        "sections": ",".join(dict.fromkeys(text.headings)),
    }
    return Passage(text.text, "seed_positive", title=item.name, source_id=item.name, attributes=attributes)


def _attributes(item: PythonObject, form: str) -> dict[str, str]:
    module = item.name if item.kind == "module" else item.name.rpartition(".")[0]
    return {"form": form, "kind": item.kind, "language": "python", "library": item.library, "module": module}


def answer_sentence(text: str, summary: str) -> str:
    """The sentence of the text that shares most content words with the summary, the first of equals; verbatim."""
    meaning = content_words(summary) - _LIBRARY_WORDS
    prose = [line.strip() for line in text.splitlines() if not is_code(line) and not line.endswith(":")]
    found = [sentence for line in prose for sentence in sentences(line) if len(sentence.split()) >= 4]
    return max(found, key=lambda sentence: len(meaning & content_words(sentence)), default="")


def _without_copies(entries: Sequence[_Entry]) -> Iterator[_Entry]:
    """Drops texts that stood before (inherited and re-exported docstrings), and objects left without any."""
    seen: set[str] = set()
    for entry in entries:
        fresh = []
        for passage in entry.passages:
            key = sha256_hex(" ".join(_WORD.findall(passage.text.casefold())))
            if key not in seen:
                fresh.append(passage)
                seen.add(key)
        if fresh:
            yield replace(entry, passages=tuple(fresh))


def _same_things(entries: Sequence[_Entry]) -> list[list[int]]:
    """For each entry the others that are the same thing, by the rule of the module's docstring."""
    groups: Mapping[tuple[str, str], list[int]] = defaultdict(list)
    for position, entry in enumerate(entries):
        if entry.kind != "module":
            groups[entry.simple_name, "class" if entry.kind == "class" else "function"].append(position)
    same: list[list[int]] = [[] for _ in entries]
    for group in groups.values():
        for one in group:
            same[one] = [other for other in group if other != one and _same_thing(entries[one], entries[other])]
    return same


def _same_thing(one: _Entry, other: _Entry) -> bool:
    """Whether two objects of one name and sort do the same, by the rule of the module's docstring."""
    if one.qualifiers != other.qualifiers:
        return False
    if one.library == other.library:
        return one.words == other.words
    needed = _SAME_METHOD if "method" in {one.kind, other.kind} else _SAME
    return _shared(one.meaning, other.meaning) >= needed


def _seeds_among(entries: Sequence[_Entry], same: Sequence[Sequence[int]]) -> list[int]:
    """The entries that make a seed: not too many of one name and meaning, and each summary once."""
    asked: set[str] = set()
    chosen = []
    for position, entry in enumerate(entries):
        summary = entry.summary.casefold()
        if len(same[position]) <= _MAX_SAME and summary not in asked:
            asked.add(summary)
            chosen.append(position)
    return chosen


def _positives(position: int, entries: Sequence[_Entry], same: Sequence[int]) -> tuple[Passage, ...]:
    """The object's own passages, then the first passage of each same thing that is not a near-copy of one before."""
    positives = list(entries[position].passages)
    for other in same:
        passage = entries[other].passages[0]
        if not _near_copy(passage, positives):
            positives.append(passage)
    return tuple(positives)


def _negatives(
    position: int,
    entries: Sequence[_Entry],
    same: Sequence[int],
    positives: Sequence[Passage],
    candidates: Iterator[tuple[int, Passage]],
    wanted: int,
) -> tuple[Passage, ...]:
    """The first `wanted` candidates, one an object, that are surely not relevant."""
    negatives: list[Passage] = []
    taken = {position, *same}
    for owner, passage in candidates:
        if len(negatives) == wanted:
            break
        if owner in taken or _perhaps_relevant(entries[position], entries[owner]) or _near_copy(passage, positives):
            continue
        taken.add(owner)
        negatives.append(replace(passage, role="seed_negative"))
    return tuple(negatives)


def _perhaps_relevant(entry: _Entry, other: _Entry) -> bool:
    common = _shared(entry.meaning, other.meaning)
    kin = f"{other.name}.".startswith(f"{entry.name}.") or f"{entry.name}.".startswith(f"{other.name}.")
    return kin or common >= _SAME or (common > 0 and entry.simple_name == other.simple_name)


def _near_copy(passage: Passage, others: Sequence[Passage]) -> bool:
    words = frozenset(_WORD.findall(passage.text))
    return any(_shared(words, frozenset(_WORD.findall(other.text))) >= _NEAR_COPY for other in others)
