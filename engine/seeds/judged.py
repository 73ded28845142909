"""Test collections: queries, relevance judgments (qrels) and documents become seeds. TREC, BEIR and MS MARCO share it.

    queries + qrels -> which documents are wanted -> one pass over the documents keeps those -> seeds, in query order

A query is a seed if it has at least one judgment; one without a relevant document is a seed without positives, which a
recipe rejects by name. A document without text is no passage.
Price: the qrels and the wanted documents are held in memory, never the collection (except for the sample in which BM25
looks for negatives).
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from engine.errors import SeedFormatError, UsageError
from engine.ids import fraction_of
from engine.seeds.corpus import CorpusReader, CorpusSettings, NegativeCandidate, SeedDraft, make_seed
from engine.seeds.files.streams import Line, lines, streams
from engine.topic import Passage

Qrels = dict[str, dict[str, int]]
Paths = Annotated[
    tuple[Path, ...], BeforeValidator(lambda given: given if isinstance(given, list | tuple) else (given,))
]
"""One path or several."""
_GRADE = re.compile(r"-?\d+")
QREL = "a judgment: topic, iteration, document, grade; or query, document, grade"


class JudgedSettings(CorpusSettings):
    """What the settings of test collections share."""

    relevant_from: int = Field(
        default=1,
        ge=1,
        description="The lowest grade that counts as relevant; grades between 0 and it are used neither way.",
    )
    judged: int = Field(
        default=10,
        ge=1,
        description="Relevant documents that a seed takes at most, best grade first, and non-relevant ones likewise.",
    )


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a test collection, with the place it stands at."""

    id: str
    text: str
    path: str
    line: int
    attributes: Mapping[str, str] = field(default_factory=dict)


class JudgedReader(CorpusReader):
    """Seeds from what a test collection consists of."""

    def __init__(self, settings: JudgedSettings) -> None:
        super().__init__(settings)
        self._judged = settings

    @abstractmethod
    def queries(self) -> Iterator[Query | SeedFormatError]:
        """The queries in the order of their file."""

    @abstractmethod
    def qrels(self) -> Qrels:
        """All judgments: query id -> document id -> grade."""

    @abstractmethod
    def documents(self) -> Iterator[Passage]:
        """All documents, the corpus's id as `source_id`; one without text has an empty text."""

    def drafts(self) -> Iterator[SeedDraft]:
        qrels = self.qrels()
        picks = {query: self._picks(query, grades) for query, grades in qrels.items()}
        wanted = {document for relevant, other in picks.values() for document in (*relevant, *other)}
        texts = {document.source_id: document for document in self.documents() if document.source_id in wanted}
        self._require_relevant({document for relevant, _ in picks.values() for document in relevant} - texts.keys())
        found = 0
        for draft in self.parsed(self.queries(), lambda query: self._draft(query, qrels, picks, texts)):
            if draft.seed.id in qrels:
                found += 1
                yield draft
        if qrels and not found:
            raise UsageError(
                f"no query of corpus {self._judged.corpus!r} is judged: the qrels judge e.g. {next(iter(qrels))!r}; "
                "check that `qrels` belongs to the queries"
            )

    def candidates(self) -> Iterator[NegativeCandidate]:
        for document in type(self)(self._judged).documents():
            if document.text:
                yield NegativeCandidate(document.source_id, f"{document.title}\n{document.text}", (document,))

    def _picks(self, query: str, grades: Mapping[str, int]) -> tuple[list[str], list[str]]:
        relevant = [document for document, grade in grades.items() if grade >= self._judged.relevant_from]
        relevant.sort(key=lambda document: (-grades[document], fraction_of(query, document)))
        other = [document for document, grade in grades.items() if grade <= 0]
        other.sort(key=lambda document: fraction_of(query, document))
        return relevant[: self._judged.judged], other[: self._judged.judged]

    def _require_relevant(self, missing: set[str]) -> None:
        if missing and self._judged.on_error == "refuse":
            raise UsageError(
                f"{len(missing):,} documents that the qrels call relevant are not among the documents (first: "
                f"{min(missing)!r}); complete `documents`, or set `on_error: skip` to do without them"
            )
        self.skipped += len(missing)

    def _draft(
        self, query: Query, qrels: Qrels, picks: Mapping[str, tuple[list[str], list[str]]], texts: Mapping[str, Passage]
    ) -> SeedDraft:
        relevant, other = picks.get(query.id, ([], []))
        negatives = (replace(passage, role="seed_negative") for passage in _present(other, texts))
        seed = make_seed(
            self._judged, query.id, query.text, _present(relevant, texts), negatives, attributes=query.attributes
        )
        answers = frozenset(document for document, grade in qrels.get(query.id, {}).items() if grade > 0)
        return SeedDraft(seed, answers, query.path, query.line)


def _present(ids: Iterable[str], texts: Mapping[str, Passage]) -> Iterator[Passage]:
    return (texts[name] for name in ids if name in texts and texts[name].text)


def read_qrels(paths: Iterable[Path], max_row_bytes: int) -> Qrels:
    """Judgments in TREC's four columns, or in three under an optional header, separated by any white space.

    A document judged twice keeps its higher grade. A bad line is always refused: a lost judgment would turn a relevant
    document into a negative.
    """
    qrels: Qrels = {}
    for path in paths:
        for stream in streams(path):
            for line in lines(stream, max_row_bytes):
                _judge(qrels, line)
    return qrels


def _judge(qrels: Qrels, line: Line) -> None:
    text = "a line that is too long" if line.raw is None else line.raw.decode("utf-8", "replace")
    fields = text.split()
    if not fields or (line.number == 1 and fields[-1] == "score"):
        return
    grade = fields[-1] if len(fields) in {3, 4} else ""
    if not _GRADE.fullmatch(grade):
        raise UsageError(f"{line.name}:{line.number}: expected {QREL}, found {text[:120]!r}; mend the line")
    grades = qrels.setdefault(fields[0], {})
    grades[fields[-2]] = max(int(grade), grades.get(fields[-2], int(grade)))
