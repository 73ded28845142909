"""TREC collections (Robust04, Core17, Robust05, CACM, Cranfield): topics, qrels and documents become seeds.

NIST licenses the documents of Robust04 (TREC disks 4 and 5 without the Congressional Record), so users bring them by
hand; topics and judgments are free (`foil seeds fetch robust04`).
A passage is the text of a document with its headline as title; `max_words` cuts longer ones, marked `cut_words`.
Price: see `engine.seeds.judged`.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import Field

from foil.engine.errors import SeedFormatError, UsageError
from foil.engine.seeds.corpus import parse_record
from foil.engine.seeds.files.streams import open_streams
from foil.engine.seeds.judged import Document, JudgedReader, JudgedSettings, Paths, Qrels, Query, read_qrels
from foil.engine.seeds.trec import read_blocks, read_document_topics, read_documents, read_topics
from foil.engine.topic import Passage


class Robust04Settings(JudgedSettings):
    """The files of a TREC collection, and what of them is used."""

    kind: Literal["robust04"] = "robust04"
    corpus: str = Field("robust04", min_length=1, description="Name of the corpus.")
    licence: str = Field(
        "TREC disks 4 and 5: NIST agreement; texts may not be passed on", description="Licence of the texts."
    )
    redistributable: bool = Field(False, description="Whether the texts may be passed on to others.")
    topics: Path = Field(description="File of topics.")
    qrels: Paths = Field(min_length=1, description="Files of relevance judgments.")
    documents: Path = Field(description="File, folder or tar archive of documents, plain, .gz or .Z.")
    query: Literal["title", "description"] = Field(
        "title", description="The part of the topic that is the query; if a topic lacks it, the other one."
    )
    topic_ids: Literal["number", "position"] = Field(
        "number",
        description="Whether the qrels name a topic by its <num> or by its position in the file (Cranfield), from 1.",
    )
    max_words: int | None = Field(
        None, ge=1, le=10**6, description="Words after which a passage is cut; by default none is cut."
    )


class Robust04Reader(JudgedReader[Robust04Settings]):
    """Makes seeds of a TREC collection."""

    def qrels(self) -> Qrels:
        qrels = read_qrels(self._settings.qrels, self._settings.max_row_bytes, self.ledger)
        if self._settings.topic_ids == "number":
            self._refuse_positions(qrels)
        return qrels

    def queries(self) -> Iterator[Query | SeedFormatError]:
        for position, query in enumerate(self._topics(), start=1):
            if isinstance(query, SeedFormatError):
                yield query
            else:
                query_id = str(position) if self._settings.topic_ids == "position" else query.id
                yield replace(query, id=query_id, text=self._query_text(query))

    def documents(self) -> Iterator[Document | SeedFormatError]:
        documents = read_documents(self._settings.documents, self._settings.max_row_bytes)
        return (parse_record(document, self._cut) for document in documents)

    def _topics(self) -> Iterator[Query | SeedFormatError]:
        path, limit = self._settings.topics, self._settings.max_row_bytes
        has_top_blocks = any(True for stream in open_streams(path) for _ in read_blocks(stream, "top", limit))
        return read_topics(path, limit) if has_top_blocks else read_document_topics(path, limit)

    def _query_text(self, query: Query) -> str:
        first, second = ("title", "description") if self._settings.query == "title" else ("description", "title")
        return query.attributes.get(first) or query.attributes[second]

    def _refuse_positions(self, qrels: Qrels) -> None:
        numbers = {query.id for query in self._topics() if isinstance(query, Query)}
        positions = {str(position) for position in range(1, len(numbers) + 1)}
        unknown_ids = qrels.keys() - numbers
        if unknown_ids and qrels.keys() <= positions:
            raise UsageError(
                f"the qrels judge {len(unknown_ids)} topics that {self._settings.topics} does not number (e.g. "
                f"{min(unknown_ids)!r}), and all lie between 1 and {len(numbers)}: they name topics by position; "
                "set `topic_ids: position`"
            )

    def _cut(self, document: Document) -> Document:
        passage, max_words = document.passage, self._settings.max_words
        if max_words is None or len(passage.text.split()) <= max_words:
            return document
        text, attributes = " ".join(passage.text.split()[:max_words]), {"cut_words": str(max_words)}
        cut = Passage(text, passage.role, passage.title, passage.source_id, attributes=attributes)
        return document._replace(passage=cut)
