"""Any table: jsonl, JSON array, Parquet, CSV or TSV, with settings that name the column of each part of a seed.

    columns: {query: question, positives: context, id: qid, negatives: distractors, attributes: {year: meta.year}}

A .csv has CSV's quoting, a .tsv has none: a double quote in it is part of the text. An attribute without a value (null,
NaN, an empty cell) is left out of its seed, and counted.

A dotted name selects a field of a nested record. A cell of passages is a text, a list of texts, or records with `text`
and optionally `title` and `id` (Tevatron's `docid`). Without an `id` column a seed is named by file and line, so its id
holds for one version of the files. Memory holds one row at a time.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from foil.engine.seeds.corpus import CorpusSeed, CorpusSettings, NegativeCandidate
from foil.engine.seeds.files.rows import Record, SourceRow, attributes_of, location_id
from foil.engine.seeds.parallel.rows import RowReader
from foil.engine.settings import Settings
from foil.engine.topic import Passage, PassageRole


class Columns(Settings):
    """The column of each part of a seed."""

    query: str = Field(description="Column of the query.")
    positives: str = Field(description="Column of the relevant passages.")
    id: str = Field("", description="Column of the query's id; if empty, rows are named by file and line.")
    negatives: str = Field("", description="Column of the non-relevant passages; empty if there is none.")
    attributes: dict[str, str] = Field(default_factory=dict, description="Attributes of the seed: name -> column.")


class TableSettings(CorpusSettings):
    """The files of the table, and what its columns mean."""

    kind: Literal["table"] = "table"
    licence: str = Field("unknown", description="Licence of the texts.")
    redistributable: bool = Field(False, description="Whether the texts may be passed on to others.")
    path: Path = Field(description="File or folder of rows: jsonl, JSON array, Parquet, CSV, or TSV without quoting.")
    columns: Columns = Field(description="The column of each part of a seed.")


class TableReader(RowReader[TableSettings]):
    """Makes one seed of each row of a table."""

    def rows_path(self) -> Path:
        return self._settings.path

    def seeds_of(self, rows: Iterable[Record]) -> Iterator[CorpusSeed]:
        return self.parse_records(rows, self._parse_row)

    def negative_candidates(self) -> Iterator[NegativeCandidate]:
        for corpus_seed in self.from_the_start():
            seed = corpus_seed.seed
            for passage in seed.positives:
                yield NegativeCandidate(passage.id, f"{passage.title}\n{passage.text}", (passage,), seed.query)

    def _parse_row(self, row: SourceRow) -> CorpusSeed:
        columns = self._settings.columns
        query = _cell(row, columns.query)
        if not isinstance(query, str) or not query.strip():
            raise row.format_error(f"a text in column {columns.query!r}", query)
        positives = _passages(row, columns.positives, "seed_positive")
        negatives = _passages(row, columns.negatives, "seed_negative") if columns.negatives else []
        values = {name: _cell(row, column) for name, column in columns.attributes.items()}
        attributes = attributes_of(values, partial(self._note_missing, row))
        seed = self.make_seed(self._seed_id(row), query, positives, negatives, attributes)
        return CorpusSeed(seed, frozenset(passage.id for passage in positives), row.path, row.line)

    def _note_missing(self, row: SourceRow, name: str) -> None:
        column = self._settings.columns.attributes[name]
        self.ledger.note("missing_values", f"{row.path}:{row.line}, column {column!r}")

    def _seed_id(self, row: SourceRow) -> str:
        if self._settings.columns.id:
            return row.nested({"id": _cell(row, self._settings.columns.id)}, "an id").name("id")
        return location_id(self._settings.path, row)


def _cell(row: SourceRow, column: str) -> Any:
    value: Any = row.value
    for key in [column] if column in row.value else column.split("."):
        if not isinstance(value, Mapping) or key not in value:
            raise row.format_error(f"a column {column!r}", f"columns {sorted(row.value)}")
        value = value[key]
    return value


def _passages(row: SourceRow, column: str, role: PassageRole) -> list[Passage]:
    cell = _cell(row, column)
    passages = []
    for item in cell if isinstance(cell, list) else [] if cell in (None, "") else [cell]:
        record = row.nested(item if isinstance(item, dict) else {"text": item}, "a record")
        text, ids = record.value.get("text"), (record.value.get("id"), record.value.get("docid"))
        source_id = next((each for each in ids if each not in (None, "")), "")
        if not isinstance(text, str) or not text.strip():
            raise row.format_error(f"texts, or records with 'text', in column {column!r}", item)
        passages.append(Passage(text, role, title=record.title(), source_id=str(source_id)))
    return passages
