"""Any table: jsonl, JSON array, Parquet, CSV or TSV, with a mapping from its columns to what a seed is made of.

    columns: {query: question, positives: context, id: qid, negatives: distractors, attributes: {year: meta.year}}

A dotted name reaches into nested records. A cell of passages is a text, a list of texts, or records with `text` and
optionally `title` and `id`. Without an `id` column a seed is named by file and place, so ids hold for one version of
the files. Rows stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from engine.seeds.corpus import CorpusReader, CorpusSettings, NegativeCandidate, SeedDraft, make_seed
from engine.seeds.files.rows import SourceRow, attributes_of, place_in, rows
from engine.settings import Settings
from engine.topic import Passage, PassageRole


class Columns(Settings):
    """Which column holds what."""

    query: str = Field(description="Column of the query.")
    positives: str = Field(description="Column of the relevant passages.")
    id: str = Field(default="", description="Column of the query's id; empty names rows by file and place.")
    negatives: str = Field(default="", description="Column of the non-relevant passages; empty where there is none.")
    attributes: dict[str, str] = Field(default_factory=dict, description="Attributes of the seed: name -> column.")


class TableSettings(CorpusSettings):
    """Where the table lies, and what its columns mean."""

    kind: Literal["table"] = "table"
    licence: str = Field(default="unknown", description="Licence of the texts.")
    redistributable: bool = Field(default=False, description="Whether the texts may be exported to others.")
    path: Path = Field(description="File or folder of rows: jsonl, JSON array, Parquet, CSV or TSV.")
    columns: Columns = Field(description="Which column holds what.")


class TableReader(CorpusReader):
    """Seeds of a table's rows."""

    def __init__(self, settings: TableSettings) -> None:
        super().__init__(settings)
        self._settings = settings

    def drafts(self) -> Iterator[SeedDraft]:
        return self.parsed(rows(self._settings.path, self._settings.max_row_bytes), self._draft)

    def candidates(self) -> Iterator[NegativeCandidate]:
        for draft in type(self)(self._settings).drafts():
            for passage in draft.seed.positives:
                yield NegativeCandidate(passage.id, f"{passage.title}\n{passage.text}", (passage,))

    def _draft(self, row: SourceRow) -> SeedDraft:
        columns = self._settings.columns
        query = _cell(row, columns.query)
        if not isinstance(query, str) or not query.strip():
            raise row.bad(f"a text in column {columns.query!r}", query)
        positives = _passages(row, columns.positives, "seed_positive")
        negatives = _passages(row, columns.negatives, "seed_negative") if columns.negatives else []
        attributes = attributes_of({name: _cell(row, column) for name, column in columns.attributes.items()})
        seed = make_seed(self._settings, self._name(row), query, positives, negatives, attributes=attributes)
        return SeedDraft(seed, frozenset(passage.id for passage in positives), row.path, row.line)

    def _name(self, row: SourceRow) -> str:
        if self._settings.columns.id:
            return SourceRow(row.path, row.line, {"id": _cell(row, self._settings.columns.id)}).name("id")
        return place_in(self._settings.path, row)


def _cell(row: SourceRow, column: str) -> Any:
    value: Any = row.value
    for part in [column] if column in row.value else column.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise row.bad(f"a column {column!r}", f"columns {sorted(row.value)}")
        value = value[part]
    return value


def _passages(row: SourceRow, column: str, role: PassageRole) -> list[Passage]:
    cell = _cell(row, column)
    found = []
    for item in cell if isinstance(cell, list) else [] if cell in (None, "") else [cell]:
        record = item if isinstance(item, Mapping) else {"text": item}
        text, title, name = record.get("text"), record.get("title") or "", record.get("id") or ""
        if not isinstance(text, str) or not text.strip() or not isinstance(title, str):
            raise row.bad(f"texts, or records with 'text', in column {column!r}", item)
        found.append(Passage(text, role, title=title, source_id=str(name)))
    return found
