"""MS MARCO in each form in which it is published.

    rows (`path`), known by their keys: v2.1 question answering (`passages` with `is_selected`); Tevatron's jsonl
        (`positive_passages`, `negative_passages`); Promptriever's rows (the same with `only_query`, `only_instruction`
        and `new_negatives`); rows with one `positive` and `others`
    a collection (`collection`, `queries`, `qrels`): tab-separated passages and queries, with TREC judgments

Consecutive rows of the same query become one seed, because its relevant passages belong together.
A fifth of its passages have characters that were once read in a wrong encoding (`Â°`); they are mended here.
In v2.1 the negatives of a seed are the passages that the search engine returned and no annotator selected. Nobody
judged them one by one, so some may be relevant.
Price: memory holds a few rows; for the collection see `engine.seeds.judged`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, Self

import ftfy
from pydantic import Field, model_validator

from foil.engine.errors import SeedFormatError
from foil.engine.protocols import SeedReader
from foil.engine.seeds.corpus import CorpusSeed, NegativeCandidate, parse_record
from foil.engine.seeds.files.rows import Record, SourceRow, attributes_of
from foil.engine.seeds.files.streams import Line, open_streams, read_lines
from foil.engine.seeds.judged import (
    Document,
    JudgedReader,
    JudgedSettings,
    Paths,
    Qrels,
    Query,
    mark_judged,
    read_qrels,
)
from foil.engine.seeds.parallel.rows import RowReader
from foil.engine.topic import Passage

NO_ANSWER = "No Answer Present."


class MsmarcoSettings(JudgedSettings):
    """Either `path` (rows), or `collection`, `queries` and `qrels` together."""

    kind: Literal["msmarco"] = "msmarco"
    corpus: str = Field("msmarco", min_length=1, description="Name of the corpus.")
    licence: str = Field("MS MARCO: non-commercial research purposes only", description="Licence of the texts.")
    redistributable: bool = Field(False, description="Whether the texts may be passed on to others.")
    mend_encoding: bool = Field(True, description="Mend characters that were read in a wrong encoding.")
    path: Path | None = Field(None, description="File or folder of rows: jsonl, JSON array or Parquet.")
    collection: Path | None = Field(None, description="Passages, one a line: id, tab, text.")
    queries: Path | None = Field(None, description="Queries, one a line: id, tab, text.")
    qrels: Paths = Field((), description="Files of relevance judgments.")

    @model_validator(mode="after")
    def _require_one_form(self) -> Self:
        parts = (self.collection is not None, self.queries is not None, bool(self.qrels))
        if (self.path is not None and any(parts)) or (self.path is None and not all(parts)):
            raise ValueError("give `path` alone (rows), or `collection`, `queries` and `qrels` together")
        return self


def msmarco_reader(settings: MsmarcoSettings) -> SeedReader:
    """The reader for the form that the settings name."""
    return MsmarcoRows(settings) if settings.path is not None else MsmarcoCollection(settings)


class MsmarcoCollection(JudgedReader[MsmarcoSettings]):
    """Makes seeds of a passage collection with queries and judgments."""

    def qrels(self) -> Qrels:
        return read_qrels(self._settings.qrels, self._settings.max_row_bytes, self.ledger)

    def queries(self) -> Iterator[Query | SeedFormatError]:
        assert self._settings.queries is not None
        return (parse_record(line, _parse_query) for line in self._read_lines(self._settings.queries))

    def documents(self) -> Iterator[Document | SeedFormatError]:
        assert self._settings.collection is not None
        return (parse_record(line, self._parse_document) for line in self._read_lines(self._settings.collection))

    def _parse_document(self, line: Line) -> Document:
        source_id, text = _split_fields(line)
        passage = _mended(Passage(text, "seed_positive", source_id=source_id), self._settings)
        return Document(passage, line.name, line.number)

    def _read_lines(self, path: Path) -> Iterator[Line]:
        for stream in open_streams(path):
            lines = read_lines(stream, self._settings.max_row_bytes)
            yield from (line for line in lines if line.content is None or line.content.strip())


def _parse_query(line: Line) -> Query:
    query_id, text = _split_fields(line)
    if not text:
        raise SeedFormatError(line.name, line.number, "a query that is not blank", query_id)
    return Query(query_id, text, line.name, line.number)


def _split_fields(line: Line) -> tuple[str, str]:
    expected = "an id, a tab and a text in UTF-8, no further tab"
    if line.content is None:
        raise SeedFormatError(line.name, line.number, expected, "a line that is too long")
    try:
        source_id, text = line.content.decode("utf-8").split("\t")
    except ValueError as error:
        line_text = line.content.decode("utf-8", "replace")
        raise SeedFormatError(line.name, line.number, expected, line_text) from error
    return source_id.strip(), text.strip()


class MsmarcoRows(RowReader[MsmarcoSettings]):
    """Makes seeds of rows that hold query and passages together."""

    def rows_path(self) -> Path:
        assert self._settings.path is not None
        return self._settings.path

    def may_share_seed(self, row: Record, next_row: Record) -> bool:
        """Whether both are of one query, or one of them is bad and parts nothing."""
        parsed = [parse_record(record, self._parse_row) for record in (row, next_row)]
        return len({item.seed.id for item in parsed if not isinstance(item, SeedFormatError)}) < 2

    def seeds_of(self, rows: Iterable[Record]) -> Iterator[CorpusSeed]:
        for _, seeds_of_query in groupby(
            self.parse_records(rows, self._parse_row), key=lambda row_seed: row_seed.seed.id
        ):
            yield self._merge(list(seeds_of_query))

    def negative_candidates(self) -> Iterator[NegativeCandidate]:
        for corpus_seed in self.from_the_start():
            seed = corpus_seed.seed
            for passage in (*seed.positives, *seed.negatives):
                query = seed.query if passage in seed.positives else ""
                key, text = passage.source_id or passage.id, f"{passage.title}\n{passage.text}"
                yield NegativeCandidate(key, text, (passage,), query)

    def _parse_row(self, row: SourceRow) -> CorpusSeed:
        passages = [(_mended(passage, self._settings), grade) for passage, grade in _grade_passages(row)]
        min_grade = self._settings.relevant_from
        answers = [answer for answer in row.items("answers") if isinstance(answer, str) and answer != NO_ANSWER]
        values = {key: row.value.get(key) for key in ("query_type", "source")}
        values |= {"answer": answers, "instruction": row.value.get("only_instruction")}
        positives = [
            mark_judged(replace(passage, role="seed_positive")) for passage, grade in passages if grade >= min_grade
        ]
        negatives = [passage for passage, grade in passages if grade <= 0]
        query = row.text("only_query" if "only_query" in row.value else "query")
        seed = self.make_seed(row.name("query_id"), query, positives, negatives, attributes_of(values))
        answer_keys = frozenset(passage.source_id or passage.id for passage, grade in passages if grade > 0)
        return CorpusSeed(seed, answer_keys, row.path, row.line)

    def _merge(self, row_seeds: list[CorpusSeed]) -> CorpusSeed:
        with_instruction = (row_seed for row_seed in row_seeds if row_seed.seed.attributes.get("instruction"))
        if (instructed_seed := next(with_instruction, None)) is not None:
            return instructed_seed  # the passages of the query's other rows do not fit this instruction
        first_seed = row_seeds[0].seed
        positives = [passage for row_seed in row_seeds for passage in row_seed.seed.positives]
        negatives = [passage for row_seed in row_seeds for passage in row_seed.seed.negatives]
        seed = self.make_seed(first_seed.id, first_seed.query, positives, negatives, first_seed.attributes)
        answer_keys = frozenset().union(*(row_seed.answer_keys for row_seed in row_seeds))
        return replace(row_seeds[0], seed=seed, answer_keys=answer_keys)


def _mended(passage: Passage, settings: MsmarcoSettings) -> Passage:
    """The passage with its characters as they were meant, if the settings want that."""
    return replace(passage, text=ftfy.fix_encoding(passage.text), id="") if settings.mend_encoding else passage


def _grade_passages(row: SourceRow) -> list[tuple[Passage, int]]:
    """The row's passages with their grades (1 and 0 if the form has no grades)."""
    if "passages" in row.value:
        return _question_answering_passages(row)
    if "positive_passages" in row.value:
        relevant = [(_passage(row, item, "docid"), 1) for item in row.items("positive_passages")]
        excluded = [(_instruction_negative(row, item), 0) for item in row.items("new_negatives")]
        return relevant + excluded + [(_passage(row, item, "docid"), 0) for item in row.items("negative_passages")]
    if "positive" in row.value:
        items = [(row.value["positive"], 1), *((item, 0) for item in row.items("others"))]
        return [(_passage(row, item, "pid"), _grade(row, item, default)) for item, default in items]
    raise row.format_error("'passages', 'positive_passages' or 'positive'", f"keys {sorted(row.value)}")


def _question_answering_passages(row: SourceRow) -> list[tuple[Passage, int]]:
    graded_passages = []
    for item in _question_answering_items(row):
        text, grade = item.get("passage_text"), item.get("is_selected")
        if grade not in (0, 1) or not isinstance(text, str):
            raise row.format_error("'passage_text', and 'is_selected' as 0 or 1, in each passage", item)
        if text.strip():
            attributes = attributes_of({"url": item.get("url")})
            graded_passages.append((Passage(text, "seed_negative", attributes=attributes), grade))
    return graded_passages


def _question_answering_items(row: SourceRow) -> list[dict[str, Any]]:
    """v2.1 holds a list of passages, or (on the Hugging Face hub) a mapping of parallel lists."""
    passages = row.value["passages"]
    if isinstance(passages, dict):
        keys = ("passage_text", "is_selected", "url")
        try:
            return [dict(zip(keys, fields, strict=True)) for fields in zip(*map(passages.get, keys), strict=True)]
        except (TypeError, ValueError) as error:
            expected = "equally long 'passage_text', 'is_selected' and 'url' under 'passages'"
            raise row.format_error(expected, passages) from error
    if not isinstance(passages, list) or not all(isinstance(item, dict) for item in passages):
        raise row.format_error("a list of passages under 'passages'", passages)
    return passages


def _passage(row: SourceRow, item: Any, id_key: str) -> Passage:
    record = row.nested(item, f"a passage with {id_key!r} and 'text'")
    return Passage(record.text("text"), "seed_negative", title=record.title(), source_id=record.name(id_key))


def _instruction_negative(row: SourceRow, item: Any) -> Passage:
    """An instruction negative as Promptriever publishes it: it answers the query and breaks the instruction."""
    explanation = attributes_of({"reason": item.get("explanation")}) if isinstance(item, dict) else {}
    return replace(_passage(row, item, "docid"), role="instruction_negative", attributes=explanation)


def _grade(row: SourceRow, item: dict[str, Any], default: int) -> int:
    grade = item.get("rel", default)
    if isinstance(grade, bool) or not isinstance(grade, int):
        raise row.format_error("a whole number under 'rel'", grade)
    return grade
