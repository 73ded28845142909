"""Somebody's training set as seeds for `recipe: {kind: stored}`: its labels, which no judge has seen yet.

    anchor, positive, negative or negative_1, negative_2, ...      sentence-transformers
    query, pos, neg (+ prompt)                                     FlagEmbedding
    query, positive_passages, negative_passages                    Tevatron (+ only_query, only_instruction)
    columns: {query: q, positives: [good], negatives: [bad]}       any other

A cell of passages is a text, a list of texts, or records with `text` and perhaps `title`. Rows that follow each other
and have the same query and instruction are one seed, so that their common passages are judged once. A text that is both
a positive and a negative of its query counts as a positive. Memory holds the rows of one query.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from foil.engine.errors import SeedFormatError
from foil.engine.seeds.corpus import CorpusSeed, CorpusSettings, NegativeCandidate
from foil.engine.seeds.files.rows import Record, SourceRow, location_id
from foil.engine.seeds.parallel.rows import RowReader
from foil.engine.settings import Settings
from foil.engine.topic import Passage, PassageRole, Seed, Topic
from foil.prompts.passages.topic_builder import TopicBuilder
from foil.prompts.recipes.stored import pack_topics


class TrainingColumns(Settings):
    """The columns of a training set; several ones of passages count together."""

    query: str = Field(description="column of the query")
    positives: tuple[str, ...] = Field(min_length=1, description="columns of the relevant passages")
    negatives: tuple[str, ...] = Field(default=(), description="columns of the other passages")
    instruction: str = Field(default="", description="column of the instruction; empty if there is none")


class TrainingSetSettings(CorpusSettings):
    """The file, and its columns where its layout is none of those that are known."""

    kind: Literal["training_set"] = "training_set"
    corpus: str = Field(default="training_set", min_length=1, description="name of the set")
    licence: str = Field(default="unknown", description="licence of the texts")
    redistributable: bool = Field(default=False, description="whether the texts may be passed on to others")
    on_error: Literal["refuse", "skip"] = Field(
        default="skip", description="what happens at a row without a query or a positive: counted, or the run ends"
    )
    negatives: int = Field(default=0, ge=0, le=0, description="none are added")
    path: Path = Field(description="file or folder of rows: jsonl, JSON array, Parquet, CSV, or TSV without quoting")
    columns: TrainingColumns | None = Field(default=None, description="the columns; without, found by their names")


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """A row with its columns, and what it asks."""

    row: SourceRow
    columns: TrainingColumns
    query: str
    instruction: str

    def passages(self, columns: Iterable[str], role: PassageRole) -> list[Passage]:
        """The passages of these columns."""
        return [passage for name in columns for passage in passages_of(self.row, name, role)]


class TrainingSetReader(RowReader[TrainingSetSettings]):
    """One seed for each query with its rows, which carries its topic."""

    def rows_path(self) -> Path:
        return self._settings.path

    def may_share_seed(self, row: Record, next_row: Record) -> bool:
        return bool(self._search_of(row) == self._search_of(next_row))

    def seeds_of(self, rows: Iterable[Record]) -> Iterator[CorpusSeed]:
        for seed, own in self.groups(rows):
            yield CorpusSeed(seed, frozenset(), own[-1].row.path, own[-1].row.line)

    def groups(self, rows: Iterable[Record]) -> Iterator[tuple[Seed, list[TrainingRow]]]:
        """Each seed with the rows that it was made of."""
        for _, records in groupby(rows, key=self._search_of):
            if own := list(self.parse_records(records, self._parse_row)):
                yield self._seed(own), own

    def _search_of(self, record: Record) -> Any:
        """What the rows of one seed have in common; a row that cannot be read has nothing in common with others."""
        try:
            if isinstance(record, SourceRow):
                columns = self._settings.columns or _layout_of(record)
                return record.path, record.value.get(columns.query), record.value.get(columns.instruction)
        except SeedFormatError:
            pass
        return object()

    def negative_candidates(self) -> Iterator[NegativeCandidate]:
        return iter(())

    def _parse_row(self, row: SourceRow) -> TrainingRow:
        columns = self._settings.columns or _layout_of(row)
        instruction = row.value.get(columns.instruction) if columns.instruction else ""
        parsed = TrainingRow(row, columns, row.text(columns.query), instruction if isinstance(instruction, str) else "")
        if not parsed.passages(columns.positives, "seed_positive"):
            raise row.format_error(f"a relevant passage in {', '.join(columns.positives)}", "none")
        parsed.passages(columns.negatives, "seed_negative")
        return parsed

    def _seed(self, rows: list[TrainingRow]) -> Seed:
        first = rows[0]
        positives = [each for row in rows for each in row.passages(row.columns.positives, "seed_positive")]
        negatives = [each for row in rows for each in row.passages(row.columns.negatives, "seed_negative")]
        seed = self.make_seed(location_id(self._settings.path, first.row), first.query, positives, negatives, {})
        return replace(seed, attributes=pack_topics([_topic(seed, first.instruction)]))


def passages_of(row: SourceRow, column: str, role: PassageRole) -> list[Passage]:
    """The passages of one cell, as many as it has entries with a text."""
    return [passage for entry in entries_of(row.value.get(column)) if (passage := _passage(row, column, entry, role))]


def entries_of(cell: Any) -> list[Any]:
    """The entries of a cell of passages."""
    return cell if isinstance(cell, list) else [] if cell in (None, "") else [cell]


def text_of(entry: Any) -> str:
    """The text of an entry."""
    return str(entry["text"] if isinstance(entry, dict) else entry)


def _passage(row: SourceRow, column: str, entry: Any, role: PassageRole) -> Passage:
    record = row.nested(entry if isinstance(entry, dict) else {"text": entry}, "a record")
    text = record.value.get("text")
    if not isinstance(text, str) or not text.strip():
        raise row.format_error(f"texts, or records with 'text', in column {column!r}", entry)
    return Passage(text, role, title=record.title())


def _topic(seed: Seed, instruction: str) -> Topic:
    """The topic of a seed: its labels as the set has them (`mined`: no judge has seen them)."""
    builder = TopicBuilder("training_set", seed)
    positives, negatives = (builder.add_new(own, len(own)) for own in (seed.positives, seed.negatives))
    intent = builder.add_intent("instructed" if instruction else "original", instruction)
    builder.judge(intent, "mined", *((each, 1) for each in positives), *((each, -1) for each in negatives))
    return builder.build(**({} if instruction else {"rows": "plain"}))


def _layout_of(row: SourceRow) -> TrainingColumns:
    """The columns of a known layout. Raises SeedFormatError for any other."""
    names = row.value.keys()
    if {"query", "positive_passages"} <= names:
        return _tevatron(names)
    if {"query", "pos"} <= names:
        columns = {"query": "query", "positives": ["pos"], "negatives": ["neg"], "instruction": "prompt"}
        return TrainingColumns.model_validate(columns)
    query = next((name for name in ("anchor", "query") if name in names), "")
    if query and "positive" in names:
        negatives = [name for name in names if name == "negative" or name.startswith("negative_")]
        return TrainingColumns.model_validate({"query": query, "positives": ["positive"], "negatives": negatives})
    raise row.format_error(
        "the columns of sentence-transformers, FlagEmbedding or Tevatron (name others with --columns)", sorted(names)
    )


def _tevatron(names: Collection[str]) -> TrainingColumns:
    own: Mapping[str, Any] = {
        "query": "only_query" if "only_query" in names else "query",
        "positives": ["positive_passages"],
        "negatives": [name for name in ("negative_passages", "new_negatives") if name in names],
        "instruction": "only_instruction" if "only_instruction" in names else "",
    }
    return TrainingColumns.model_validate(own)
