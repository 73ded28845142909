"""Test collections: queries, relevance judgments (qrels) and documents become seeds. TREC, BEIR and MS MARCO share it.

    queries + qrels -> ids of the needed documents -> one pass over the documents keeps those -> seeds in query order

A query becomes a seed if it has at least one judgment. Without a relevant document the seed has no positives, and a
recipe rejects it by name. A document without text is not a passage.
Price: memory holds the qrels, the needed documents and the sample that BM25 searches, never the whole collection.
"""

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, NamedTuple, TypeVar

from pydantic import BeforeValidator, Field

from foil.engine.errors import SeedFormatError, UsageError
from foil.engine.ids import fraction_of
from foil.engine.seeds.corpus import CorpusReader, CorpusSeed, CorpusSettings, NegativeCandidate
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.seeds.files.streams import Line, open_streams, read_lines
from foil.engine.seeds.files.unique import UniqueRecords
from foil.engine.topic import Passage

Qrels = dict[str, dict[str, int]]
JudgedIds = tuple[list[str], list[str]]
"""The documents of one query that a seed takes: relevant ones, non-relevant ones."""
Paths = Annotated[
    tuple[Path, ...], BeforeValidator(lambda value: value if isinstance(value, list | tuple) else (value,))
]
"""One path or several."""
_FIELDS = re.compile(r"\S+", re.ASCII)
_HEADERS = {"score", "relevance", "rel", "grade", "label"}
GRADE = re.compile(r"(-?\d{1,9})(?:\.0{1,9})?")
QREL_FORMAT = "a judgment: topic, iteration, document, grade; or query, document, grade"


class JudgedSettings(CorpusSettings):
    """What the settings of test collections share."""

    relevant_from: int = Field(
        1,
        ge=1,
        le=1_000,
        description="The lowest grade that counts as relevant; documents with a lower grade above 0 are not used.",
    )
    judged: int = Field(
        10,
        ge=1,
        le=10_000,
        description="Relevant documents that a seed takes at most, best grade first; also the most non-relevant ones.",
    )


CollectionSettings = TypeVar("CollectionSettings", bound=JudgedSettings)


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a test collection, with its file and line."""

    id: str
    text: str
    path: str
    line: int
    attributes: Mapping[str, str] = field(default_factory=dict)


class Document(NamedTuple):
    """One document with the corpus's id as `source_id`, its file and line; one without text has an empty text."""

    passage: Passage
    path: str
    line: int


class JudgedReader(CorpusReader[CollectionSettings]):
    """Makes seeds from the queries, judgments and documents of a test collection."""

    @abstractmethod
    def queries(self) -> Iterator[Query | SeedFormatError]:
        """The queries in the order of their file."""

    @abstractmethod
    def qrels(self) -> Qrels:
        """All judgments: query id -> document id -> grade."""

    @abstractmethod
    def documents(self) -> Iterator[Document | SeedFormatError]:
        """All documents in the order of their files."""

    def corpus_seeds(self) -> Iterator[CorpusSeed]:
        qrels = self.qrels()
        judged_ids = {query_id: self._choose_documents(query_id, grades) for query_id, grades in qrels.items()}
        relevant_ids = {document_id for relevant, _ in judged_ids.values() for document_id in relevant}
        needed_ids = relevant_ids.union(*(non_relevant for _, non_relevant in judged_ids.values()))
        documents = self._read_needed(needed_ids)
        self._require_relevant(relevant_ids - documents.keys())
        self._note_judged(needed_ids - relevant_ids - documents.keys(), "missing_documents")
        self._note_judged({name for name, passage in documents.items() if not passage.text}, "blank_documents")
        missing_queries = set(qrels)
        for query in self.drop_bad(self.queries()):
            if query.id in qrels:
                missing_queries.discard(query.id)
                yield self._make_corpus_seed(query, qrels[query.id], judged_ids[query.id], documents)
        self._note_judged(missing_queries, "missing_queries")
        if qrels and len(missing_queries) == len(qrels):
            raise UsageError(
                f"no query of corpus {self._settings.corpus!r} is judged: the qrels judge e.g. {next(iter(qrels))!r}; "
                "check that `qrels` belongs to the queries"
            )

    def negative_candidates(self) -> Iterator[NegativeCandidate]:
        reader = type(self)(self._settings)
        for document, _, _ in reader.drop_bad(reader.documents()):
            if document.text:
                yield NegativeCandidate(document.source_id, f"{document.title}\n{document.text}", (document,))

    def _read_needed(self, needed_ids: Set[str]) -> dict[str, Passage]:
        unique = UniqueRecords[str]("document", self.ledger)

        def take(document: Document) -> Passage | None:
            passage, path, line = document
            return passage if unique.take(passage.source_id, passage.id, path, line) else None

        records = (d for d in self.documents() if isinstance(d, SeedFormatError) or d.passage.source_id in needed_ids)
        return {passage.source_id: passage for passage in self.parse_records(records, take) if passage}

    def _note_judged(self, ids: Set[str], kind: str) -> None:
        self.ledger.note(kind, repr(min(ids, default="")), len(ids))

    def _choose_documents(self, query_id: str, grades: Mapping[str, int]) -> JudgedIds:
        relevant = [document_id for document_id, grade in grades.items() if grade >= self._settings.relevant_from]
        relevant.sort(key=lambda document_id: (-grades[document_id], fraction_of(query_id, document_id)))
        non_relevant = [document_id for document_id, grade in grades.items() if grade <= 0]
        non_relevant.sort(key=lambda document_id: fraction_of(query_id, document_id))
        return relevant[: self._settings.judged], non_relevant[: self._settings.judged]

    def _require_relevant(self, missing_ids: set[str]) -> None:
        if missing_ids and self._settings.on_error == "refuse":
            raise UsageError(
                f"{len(missing_ids):,} documents that the qrels call relevant are not among the documents (first: "
                f"{min(missing_ids)!r}); complete `documents`, or set `on_error: skip` to do without them"
            )
        self._note_judged(missing_ids, "missing_documents")

    def _make_corpus_seed(
        self, query: Query, grades: Mapping[str, int], judged_ids: JudgedIds, documents: Mapping[str, Passage]
    ) -> CorpusSeed:
        positives, negatives = (
            [documents[name] for name in ids if name in documents and documents[name].text] for ids in judged_ids
        )
        positives = list(map(mark_judged, positives))
        negatives = [replace(passage, role="seed_negative") for passage in negatives]
        seed = self.make_seed(query.id, query.text, positives, negatives, query.attributes)
        answer_ids = frozenset(document_id for document_id, grade in grades.items() if grade > 0)
        return CorpusSeed(seed, answer_ids, query.path, query.line)


def mark_judged(passage: Passage) -> Passage:
    """The passage with `relevance: judged`: an assessor of a collection called it relevant to its query, which a mined
    negative keeps with the mark. Of prose, recipes by rule believe that only where it has the query's words
    (lab/2026-11-26-audits.md).
    """
    return replace(passage, attributes={**passage.attributes, "relevance": "judged"})


def read_qrels(paths: Iterable[Path], max_row_bytes: int, ledger: Ledger) -> Qrels:
    """Reads judgments in TREC's four columns, or in three below an optional header, separated by tabs or blanks.

    A document judged twice keeps its higher grade, and is counted. A bad line is always refused: without that judgment
    a relevant document could become a negative.
    """
    qrels: Qrels = {}
    for path in paths:
        for stream in open_streams(path):
            widths: set[int] = set()
            for line in read_lines(stream, max_row_bytes):
                _record_judgment(qrels, line, ledger, widths)
    return qrels


def _record_judgment(qrels: Qrels, line: Line, ledger: Ledger, widths: set[int]) -> None:
    text = "a line that is too long" if line.content is None else line.content.decode("utf-8", "replace")
    fields = _fields(text)
    if not fields or (line.number == 1 and fields[-1].lower() in _HEADERS):
        return
    widths.add(len(fields))
    grade = fields[-1] if widths in ({3}, {4}) else ""
    whole = GRADE.fullmatch(grade)
    if not whole:
        raise UsageError(f"{line.name}:{line.number}: expected {QREL_FORMAT}, found {text[:120]!r}; mend the line")
    judge(qrels, ledger, (fields[0], fields[-2], int(whole[1])), f"{line.name}:{line.number}")


def _fields(text: str) -> list[str]:
    """The columns of a line: between tabs, where ids may hold blanks, or else between blanks."""
    columns = [column.strip() for column in text.split("\t")]
    return columns if len(columns) in {3, 4} and all(columns) else _FIELDS.findall(text)


def judge(qrels: Qrels, ledger: Ledger, judgment: tuple[str, str, int], place: str) -> None:
    """Notes a judgment (query, document, grade). A document that is judged twice keeps its higher grade."""
    query_id, document_id, grade = judgment
    grades = qrels.setdefault(query_id, {})
    before = grades.setdefault(document_id, grade)
    if before != grade:
        ledger.note("regraded", f"{place}, query {query_id!r} and document {document_id!r}")
        grades[document_id] = max(grade, before)
