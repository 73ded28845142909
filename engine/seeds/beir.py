"""BEIR's layout: `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv` in one folder, each plain, .gz or Parquet.

Ids are compared as text, however they are written (numbers in one file and strings in another are a known trap).
A query's `metadata` become the seed's attributes. Price: see `engine.seeds.judged`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from engine.errors import SeedFormatError, UsageError
from engine.seeds.files.rows import ENDINGS, SourceRow, attributes_of, rows
from engine.seeds.judged import JudgedReader, JudgedSettings, Qrels, Query, read_qrels
from engine.topic import Passage


class BeirSettings(JudgedSettings):
    """Where a BEIR data set lies, and which split is read."""

    kind: Literal["beir"] = "beir"
    corpus: str = Field(default="beir", min_length=1, description="Name of the corpus.")
    licence: str = Field(default="unknown", description="Licence of the texts.")
    redistributable: bool = Field(default=False, description="Whether the texts may be exported to others.")
    path: Path = Field(description="Folder with corpus, queries and qrels.")
    split: str = Field(default="train", min_length=1, description="The qrels file that is read: qrels/SPLIT.tsv.")


class BeirReader(JudgedReader):
    """Seeds of a BEIR data set."""

    def __init__(self, settings: BeirSettings) -> None:
        super().__init__(settings)
        self._settings = settings

    def qrels(self) -> Qrels:
        path = self._file(f"qrels/{self._settings.split}")
        if path.name.removesuffix(".gz").endswith(".tsv"):
            return read_qrels([path], self._settings.max_row_bytes)
        qrels: Qrels = {}
        for row in rows(path, self._settings.max_row_bytes):
            if isinstance(row, SeedFormatError):
                raise row
            grade = row.value.get("score")
            if not isinstance(grade, int):
                raise row.bad("a whole number under 'score'", grade)
            qrels.setdefault(row.name("query-id"), {})[row.name("corpus-id")] = grade
        return qrels

    def queries(self) -> Iterator[Query | SeedFormatError]:
        for row in rows(self._file("queries"), self._settings.max_row_bytes):
            try:
                yield row if isinstance(row, SeedFormatError) else _query(row)
            except SeedFormatError as error:
                yield error

    def documents(self) -> Iterator[Passage]:
        for row in rows(self._file("corpus"), self._settings.max_row_bytes):
            try:
                if isinstance(row, SeedFormatError):
                    raise row
                yield _document(row)
            except SeedFormatError:
                if self._settings.on_error == "refuse":
                    raise
                self.skipped += 1

    def _file(self, name: str) -> Path:
        stem = self._settings.path / name
        candidates = [stem.with_name(stem.name + ending + gz) for ending in (*ENDINGS, "") for gz in ("", ".gz")]
        for candidate in candidates:
            if candidate.exists():
                return candidate
        raise UsageError(
            f"no {name}.jsonl, .tsv or .parquet in {self._settings.path}; a BEIR folder holds corpus, queries, qrels"
        )


def _query(row: SourceRow) -> Query:
    metadata = row.value.get("metadata")
    return Query(row.name("_id"), row.text("text"), row.path, row.line, attributes_of(metadata or {}))


def _document(row: SourceRow) -> Passage:
    text, title = row.value.get("text"), row.value.get("title") or ""
    if not isinstance(text, str) or not isinstance(title, str):
        raise row.bad("texts under 'text' and 'title'", {"text": text, "title": title})
    return Passage(text.strip(), "seed_positive", title=title.strip(), source_id=row.name("_id"))
