"""MS MARCO in the forms in which it is passed around.

    rows (`path`): v2.1 question answering (`passages` with `is_selected`), Tevatron's jsonl (`positive_passages`,
        `negative_passages`), Promptriever's published rows (the same with `only_query`, `only_instruction` and
        `new_negatives`), and rows with one `positive` and `others`; each row says by its keys which it is
    a collection (`collection`, `queries`, `qrels`): tab-separated passages and queries, with TREC judgments

Rows of the same query that follow each other are one seed: its relevant passages belong together.
In v2.1 the passages that were not selected are the seed's negatives: the search engine returned them for this query.
Some of them may be relevant; no one judged them one by one.
Price: rows stream; for the collection see `engine.seeds.judged`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from engine.errors import SeedFormatError
from engine.protocols import SeedReader
from engine.seeds.corpus import CorpusReader, NegativeCandidate, SeedDraft, make_seed
from engine.seeds.files.rows import SourceRow, attributes_of, rows
from engine.seeds.files.streams import Line, lines, streams
from engine.seeds.judged import JudgedReader, JudgedSettings, Paths, Qrels, Query, read_qrels
from engine.topic import Passage

NO_ANSWER = "No Answer Present."


class MsmarcoSettings(JudgedSettings):
    """Either `path` (rows), or `collection`, `queries` and `qrels` together."""

    kind: Literal["msmarco"] = "msmarco"
    corpus: str = Field(default="msmarco", min_length=1, description="Name of the corpus.")
    licence: str = Field(default="MS MARCO: non-commercial research purposes only", description="Licence of the texts.")
    redistributable: bool = Field(default=False, description="Whether the texts may be exported to others.")
    path: Path | None = Field(default=None, description="File or folder of rows: jsonl, JSON array or Parquet.")
    collection: Path | None = Field(default=None, description="Passages, one a line: id, tab, text.")
    queries: Path | None = Field(default=None, description="Queries, one a line: id, tab, text.")
    qrels: Paths = Field(default=(), description="Files of relevance judgments.")

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        parts = (self.collection is not None, self.queries is not None, bool(self.qrels))
        if (self.path is not None and any(parts)) or (self.path is None and not all(parts)):
            raise ValueError("give `path` alone (rows), or `collection`, `queries` and `qrels` together")
        return self


def msmarco_reader(settings: MsmarcoSettings) -> SeedReader:
    """The reader for the form that the settings name."""
    return MsmarcoRows(settings) if settings.path is not None else MsmarcoCollection(settings)


class MsmarcoCollection(JudgedReader):
    """Seeds of a passage collection with queries and judgments."""

    def __init__(self, settings: MsmarcoSettings) -> None:
        super().__init__(settings)
        self._settings = settings

    def qrels(self) -> Qrels:
        return read_qrels(self._settings.qrels, self._settings.max_row_bytes)

    def queries(self) -> Iterator[Query | SeedFormatError]:
        assert self._settings.queries is not None
        for line in self._lines(self._settings.queries):
            fields = _fields(line)
            yield fields if isinstance(fields, SeedFormatError) else Query(*fields, line.name, line.number)

    def documents(self) -> Iterator[Passage]:
        assert self._settings.collection is not None
        for line in self._lines(self._settings.collection):
            fields = _fields(line)
            if not isinstance(fields, SeedFormatError):
                yield Passage(fields[1], "seed_positive", source_id=fields[0])
            elif self._settings.on_error == "refuse":
                raise fields
            else:
                self.skipped += 1

    def _lines(self, path: Path) -> Iterator[Line]:
        for stream in streams(path):
            yield from lines(stream, self._settings.max_row_bytes)


def _fields(line: Line) -> tuple[str, str] | SeedFormatError:
    expected = "an id, a tab and a text in UTF-8, no further tab"
    if line.raw is None:
        return SeedFormatError(line.name, line.number, expected, "a line that is too long")
    try:
        name, text = line.raw.decode("utf-8").split("\t")
    except ValueError:
        return SeedFormatError(line.name, line.number, expected, line.raw.decode("utf-8", "replace"))
    return name.strip(), text.strip()


class MsmarcoRows(CorpusReader):
    """Seeds of rows that hold query and passages together."""

    def __init__(self, settings: MsmarcoSettings) -> None:
        super().__init__(settings)
        self._settings = settings

    def drafts(self) -> Iterator[SeedDraft]:
        assert self._settings.path is not None
        single = self.parsed(rows(self._settings.path, self._settings.max_row_bytes), self._draft)
        for _, same in groupby(single, key=lambda draft: draft.seed.id):
            yield self._merged(list(same))

    def candidates(self) -> Iterator[NegativeCandidate]:
        for draft in type(self)(self._settings).drafts():
            for passage in (*draft.seed.positives, *draft.seed.negatives):
                yield NegativeCandidate(passage.source_id or passage.id, f"{passage.title}\n{passage.text}", (passage,))

    def _draft(self, row: SourceRow) -> SeedDraft:
        passages, graded = _row_passages(row), self._settings.relevant_from
        attributes = attributes_of({key: row.value.get(key) for key in ("query_type", "source")})
        answers = [answer for answer in row.items("answers") if isinstance(answer, str) and answer != NO_ANSWER]
        attributes.update(attributes_of({"answer": answers}))
        positives = [replace(p, role="seed_positive") for p, grade in passages if grade >= graded]
        negatives = [p for p, grade in passages if grade <= 0]
        attributes.update(attributes_of({"instruction": row.value.get("only_instruction")}))
        query = row.text("only_query" if "only_query" in row.value else "query")
        seed = make_seed(self._settings, row.name("query_id"), query, positives, negatives, attributes=attributes)
        return SeedDraft(seed, frozenset(p.source_id or p.id for p, grade in passages if grade > 0), row.path, row.line)

    def _merged(self, same: list[SeedDraft]) -> SeedDraft:
        instructed = next((draft for draft in same if draft.seed.attributes.get("instruction")), None)
        if instructed is not None:  # another row of the query has other passages, and they do not go with it
            return instructed
        first = same[0].seed
        seed = make_seed(
            self._settings,
            first.id,
            first.query,
            (passage for draft in same for passage in draft.seed.positives),
            (passage for draft in same for passage in draft.seed.negatives),
            attributes=first.attributes,
        )
        return replace(same[0], seed=seed, answers=frozenset().union(*(draft.answers for draft in same)))


def _row_passages(row: SourceRow) -> list[tuple[Passage, int]]:
    """The row's passages with their grades (1 and 0 where the form has no grades)."""
    if "passages" in row.value:
        return _question_answering(row)
    if "positive_passages" in row.value:
        relevant = [(_passage(row, item, "docid"), 1) for item in row.items("positive_passages")]
        excluded = [(_excluded(row, item), 0) for item in row.items("new_negatives")]
        return relevant + excluded + [(_passage(row, item, "docid"), 0) for item in row.items("negative_passages")]
    if "positive" in row.value:
        graded = [(row.value["positive"], 1), *((item, 0) for item in row.items("others"))]
        return [(_passage(row, item, "pid"), _grade(row, item, default)) for item, default in graded]
    raise row.bad("'passages', 'positive_passages' or 'positive'", f"keys {sorted(row.value)}")


def _question_answering(row: SourceRow) -> list[tuple[Passage, int]]:
    """v2.1 holds a list of passages, or (on the hub) a mapping of parallel lists."""
    passages = row.value["passages"]
    if isinstance(passages, dict):
        try:
            columns = zip(passages["passage_text"], passages["is_selected"], passages["url"], strict=True)
            passages = [{"passage_text": text, "is_selected": chosen, "url": url} for text, chosen, url in columns]
        except (KeyError, TypeError, ValueError) as error:
            raise row.bad("equally long 'passage_text', 'is_selected' and 'url' under 'passages'", passages) from error
    if not isinstance(passages, list) or not all(isinstance(item, dict) for item in passages):
        raise row.bad("a list of passages under 'passages'", passages)
    found = []
    for item in passages:
        if item.get("is_selected") not in (0, 1) or not isinstance(item.get("passage_text"), str):
            raise row.bad("'passage_text', and 'is_selected' as 0 or 1, in each passage", item)
        if item["passage_text"].strip():
            attributes = attributes_of({"url": item.get("url")})
            found.append((Passage(item["passage_text"], "seed_negative", attributes=attributes), item["is_selected"]))
    return found


def _passage(row: SourceRow, item: Any, key: str) -> Passage:
    part = SourceRow(row.path, row.line, item) if isinstance(item, dict) else None
    if part is None:
        raise row.bad(f"a passage with {key!r} and 'text'", item)
    return Passage(part.text("text"), "seed_negative", title=item.get("title") or "", source_id=part.name(key))


def _excluded(row: SourceRow, item: Any) -> Passage:
    """An instruction negative as Promptriever publishes it: it answers the query and breaks the instruction."""
    explanation = attributes_of({"reason": item.get("explanation")}) if isinstance(item, dict) else {}
    return replace(_passage(row, item, "docid"), role="instruction_negative", attributes=explanation)


def _grade(row: SourceRow, item: dict[str, Any], default: int) -> int:
    grade = item.get("rel", default)
    if isinstance(grade, bool) or not isinstance(grade, int):
        raise row.bad("a whole number under 'rel'", grade)
    return grade
