"""Programming problems with solutions in several languages: LeetCode's, Exercism's, and others of the same shape.

    {id or slug, title, statement, difficulty, tags, solutions: [{language, code, variant}], explanation: [{name}]}

The query is the statement. Each solution is a positive whose attributes name language, tags, approach and variant, so
that an instruction can tell solutions in different languages or by different approaches apart.
A row without a statement holds more solutions of the problem with its id or slug, in the same or another file.
Mined negatives are solutions of the problems with the nearest statements by BM25.
Price: memory holds all rows without a statement and one problem at a time; the files are read twice.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from foil.engine.errors import SeedFormatError
from foil.engine.seeds.corpus import CorpusReader, CorpusSeed, CorpusSettings, NegativeCandidate
from foil.engine.seeds.files.rows import Record, SourceRow, read_rows
from foil.engine.topic import Passage

_ZERO_WIDTH = re.compile("\u200b|\\\\u200b")
"""Statements are full of blanks without a width, as characters and in writing."""


class LeetcodeSettings(CorpusSettings):
    """The files of problems and solutions."""

    kind: Literal["leetcode"] = "leetcode"
    corpus: str = Field("leetcode", min_length=1, description="Name of the corpus.")
    licence: str = Field(
        "LeetCode statements: terms of service; texts may not be passed on", description="Licence of the texts."
    )
    redistributable: bool = Field(False, description="Whether the texts may be passed on to others.")
    path: Path = Field(description="File or folder of problems: jsonl, JSON array or Parquet.")


class LeetcodeReader(CorpusReader[LeetcodeSettings]):
    """Makes seeds of programming problems."""

    def corpus_seeds(self) -> Iterator[CorpusSeed]:
        self.note_unread(self._settings.path)
        solution_rows = self._read_solution_rows()
        problems = (row for row in self._read_rows() if isinstance(row, SeedFormatError) or "statement" in row.value)
        yield from self.parse_records(problems, lambda row: self._parse_problem(row, solution_rows))
        for seed_id, rows in solution_rows.items():
            yield from self.drop_bad(row.format_error("a problem of this id with a statement", seed_id) for row in rows)

    def negative_candidates(self) -> Iterator[NegativeCandidate]:
        for corpus_seed in type(self)(self._settings).corpus_seeds():
            if corpus_seed.seed.positives:
                query = corpus_seed.seed.query
                yield NegativeCandidate(corpus_seed.seed.id, query, corpus_seed.seed.positives, query)

    def _read_rows(self) -> Iterator[Record]:
        return read_rows(self._settings.path, self._settings.max_row_bytes)

    def _read_solution_rows(self) -> dict[str, list[SourceRow]]:
        """The rows without a statement, by the id or slug of their problem."""
        solution_rows: dict[str, list[SourceRow]] = {}
        for row in self._read_rows():
            if isinstance(row, SourceRow) and "statement" not in row.value:
                solution_rows.setdefault(str(row.value.get("id", row.value.get("slug"))), []).append(row)
        return solution_rows

    def _parse_problem(self, row: SourceRow, solution_rows: dict[str, list[SourceRow]]) -> CorpusSeed:
        seed_id = row.name("id" if "id" in row.value else "slug")
        rows = [row, *solution_rows.pop(seed_id, [])]
        solutions = [solution for problem_row in rows for solution in _parse_solutions(problem_row)]
        attributes = {"title": row.text("title")}
        for problem_row in rows:
            attributes |= _problem_attributes(problem_row)
        statement = _ZERO_WIDTH.sub("", row.text("statement"))
        seed = self.make_seed(seed_id, statement, solutions, (), attributes)
        return CorpusSeed(seed, frozenset({seed_id}), row.path, row.line)


def _problem_attributes(row: SourceRow) -> dict[str, str]:
    """Difficulty and tags of a problem, and the pattern under which the NeetCode list has it."""
    tags = ", ".join(tag for tag in row.items("tags") if isinstance(tag, str))
    neetcode = row.value.get("neetcode")
    pattern = neetcode.get("pattern") if isinstance(neetcode, dict) else ""
    attributes = {"difficulty": row.value.get("difficulty"), "tags": tags, "pattern": pattern}
    return {key: value for key, value in attributes.items() if isinstance(value, str) and value}


def _parse_solutions(row: SourceRow) -> list[Passage]:
    problem_attributes, approach = _problem_attributes(row), _approach(row.items("explanation"))
    solutions = []
    for item in row.items("solutions"):
        record = row.nested(item, "a solution with 'language' and 'code'")
        attributes = {"language": record.text("language").lower(), **problem_attributes}
        attributes |= {"approach": approach} if approach else {}
        attributes |= {"variant": str(item["variant"])} if item.get("variant") else {}
        solutions.append(Passage(record.text("code"), "seed_positive", title=row.text("title"), attributes=attributes))
    return solutions


def _approach(explanations: list[Any]) -> str:
    """The name of the first explained solution, whose code the row holds: `Solution 1: Hash Table`."""
    first = explanations[0] if explanations else {}
    name = first.get("name", "") if isinstance(first, dict) else ""
    return str(name).partition(":")[2].strip()
