"""BEIR's layout: `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv` in one folder, each plain, .gz or Parquet.

Foil compares ids as text, because some data sets write them as numbers in one file and as strings in another.
The `metadata` of a query become attributes of its seed. Price: see `engine.seeds.judged`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from foil.engine.errors import SeedFormatError, UsageError
from foil.engine.seeds.corpus import SPLIT, parse_record
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.seeds.files.rows import ENDINGS, SourceRow, attributes_of, read_rows
from foil.engine.seeds.judged import GRADE, Document, JudgedReader, JudgedSettings, Qrels, Query, judge, read_qrels
from foil.engine.topic import Passage


class BeirSettings(JudgedSettings):
    """Where a BEIR data set lies, and which split is read."""

    kind: Literal["beir"] = "beir"
    corpus: str = Field("beir", min_length=1, description="Name of the corpus.")
    licence: str = Field("unknown", description="Licence of the texts.")
    redistributable: bool = Field(False, description="Whether the texts may be passed on to others.")
    path: Path = Field(description="Folder with corpus, queries and qrels.")
    split: str = Field("train", min_length=1, description="The qrels file that is read: qrels/SPLIT.tsv.")


class BeirReader(JudgedReader[BeirSettings]):
    """Seeds of a BEIR data set."""

    def qrels(self) -> Qrels:
        path = self._find_file(f"qrels/{self._settings.split}")
        return read_judgments(path, self._settings.max_row_bytes, self.ledger)

    def queries(self) -> Iterator[Query | SeedFormatError]:
        rows = read_rows(self._find_file("queries"), self._settings.max_row_bytes)
        return (parse_record(row, _parse_query) for row in rows)

    def documents(self) -> Iterator[Document | SeedFormatError]:
        rows = read_rows(self._find_file("corpus"), self._settings.max_row_bytes)
        return (parse_record(row, _parse_document) for row in rows)

    def _find_file(self, name: str) -> Path:
        path = find_table(self._settings.path, name)
        if path is None:
            raise UsageError(
                f"no {name}.jsonl, .tsv or .parquet in {self._settings.path}; a BEIR folder holds corpus, queries, "
                "qrels"
            )
        return path


def find_table(folder: Path, name: str) -> Path | None:
    """The file of rows of that name, with any ending of `read_rows` and perhaps .gz, or else the folder; None without.

    A subfolder is written `qrels/test`.
    """
    stem = folder / name
    paths = (stem.with_name(stem.name + ending + gz) for ending in (*ENDINGS, "") for gz in ("", ".gz"))
    return next((path for path in paths if path.exists()), None)


def read_judgments(path: Path, max_row_bytes: int, ledger: Ledger) -> Qrels:
    """The judgments of a TSV file of three or four columns, or of rows of query-id, corpus-id and score."""
    if path.name.removesuffix(".gz").endswith(".tsv"):
        return read_qrels([path], max_row_bytes, ledger)
    qrels: Qrels = {}
    for row in read_rows(path, max_row_bytes):
        if isinstance(row, SeedFormatError):
            raise row
        judgment = row.name("query-id"), row.name("corpus-id"), grade_of(row)
        judge(qrels, ledger, judgment, f"{row.path}:{row.line}")
    return qrels


def grade_of(row: SourceRow) -> int:
    """The grade under `score`: a whole number, which may be written as 1.0, or as text as in a .csv."""
    grade = row.value.get("score")
    if isinstance(grade, str) and (whole := GRADE.fullmatch(grade.strip())):
        return int(whole[1])
    if isinstance(grade, int) or (isinstance(grade, float) and grade.is_integer()):
        return int(grade)
    raise row.format_error("a whole number under 'score'", grade)


def row_id(row: SourceRow) -> str:
    """The id of a query or document: under `_id` (BEIR) or `id` (mteb)."""
    return row.name("_id" if "_id" in row.value else "id")


def _parse_query(row: SourceRow) -> Query:
    metadata = row.nested(row.value.get("metadata") or {}, "a mapping under 'metadata'").value
    attributes = attributes_of(metadata)
    if split := attributes.pop(SPLIT, ""):
        attributes["split_of_corpus"] = split
    return Query(row_id(row), row.text("text"), row.path, row.line, attributes)


def _parse_document(row: SourceRow) -> Document:
    text = row.value.get("text")
    if not isinstance(text, str):
        raise row.format_error("a text under 'text'", text)
    passage = Passage(text.strip(), "seed_positive", title=row.title().strip(), source_id=row_id(row))
    return Document(passage, row.path, row.line)
