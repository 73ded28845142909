"""Programming problems with solutions in several languages: LeetCode's, Exercism's, and others of that shape.

    {id or slug, title, statement, difficulty, tags, solutions: [{language, code, variant}], explanation: [{name}]}

The query is the statement; each solution is a positive whose attributes name language, tags, approach and variant, so
the same problem in another language or by another approach is the passage that an instruction can tell apart.
A row without a statement holds further solutions of the problem with its id or slug, in the same or another file.
Mined negatives are solutions of problems whose statements BM25 puts nearest.
Price: problems stream; rows without a statement are held in memory, and the files are read twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from engine.errors import SeedFormatError
from engine.seeds.corpus import CorpusReader, CorpusSettings, NegativeCandidate, SeedDraft, make_seed
from engine.seeds.files.rows import Record, SourceRow, rows
from engine.topic import Passage


class LeetcodeSettings(CorpusSettings):
    """Where problems and solutions lie."""

    kind: Literal["leetcode"] = "leetcode"
    corpus: str = Field(default="leetcode", min_length=1, description="Name of the corpus.")
    licence: str = Field(
        default="LeetCode statements: terms of service; texts may not be passed on", description="Licence of the texts."
    )
    redistributable: bool = Field(default=False, description="Whether the texts may be exported to others.")
    path: Path = Field(description="File or folder of problems: jsonl, JSON array or Parquet.")


class LeetcodeReader(CorpusReader):
    """Seeds of programming problems."""

    def __init__(self, settings: LeetcodeSettings) -> None:
        super().__init__(settings)
        self._settings = settings

    def drafts(self) -> Iterator[SeedDraft]:
        further = self._further_solutions()
        problems = (row for row in self._rows() if isinstance(row, SeedFormatError) or "statement" in row.value)
        yield from self.parsed(problems, lambda row: self._draft(row, further.pop(_name(row), [])))
        orphans = [row.bad("a problem of this id with a statement", name) for name, row in _each(further)]
        yield from self.parsed(orphans, lambda row: self._draft(row, []))

    def candidates(self) -> Iterator[NegativeCandidate]:
        for draft in type(self)(self._settings).drafts():
            if draft.seed.positives:
                yield NegativeCandidate(draft.seed.id, draft.seed.query, draft.seed.positives)

    def _rows(self) -> Iterator[Record]:
        return rows(self._settings.path, self._settings.max_row_bytes)

    def _further_solutions(self) -> dict[str, list[SourceRow]]:
        found: dict[str, list[SourceRow]] = {}
        for row in self._rows():
            if isinstance(row, SourceRow) and "statement" not in row.value:
                found.setdefault(str(row.value.get("id", row.value.get("slug"))), []).append(row)
        return found

    def _draft(self, row: SourceRow, further: list[SourceRow]) -> SeedDraft:
        sources = [row, *further]
        solutions = [solution for source in sources for solution in _solutions(source)]
        facts = {key: value for source in sources for key, value in _facts(source).items()}
        attributes = {"title": row.text("title"), **facts}
        seed = make_seed(self._settings, _name(row), row.text("statement"), solutions, (), attributes=attributes)
        return SeedDraft(seed, frozenset({seed.id}), row.path, row.line)


def _each(further: dict[str, list[SourceRow]]) -> Iterator[tuple[str, SourceRow]]:
    return ((name, row) for name, found in further.items() for row in found)


def _name(row: SourceRow) -> str:
    return row.name("id" if "id" in row.value else "slug")


def _facts(row: SourceRow) -> dict[str, str]:
    """What is known of a problem: difficulty, tags, and the pattern under which a curated list files it."""
    tags = ", ".join(tag for tag in row.items("tags") if isinstance(tag, str))
    listed = row.value.get("neetcode")
    pattern = listed.get("pattern") if isinstance(listed, dict) else ""
    facts = {"difficulty": row.value.get("difficulty"), "tags": tags, "pattern": pattern}
    return {key: value for key, value in facts.items() if isinstance(value, str) and value}


def _solutions(row: SourceRow) -> list[Passage]:
    facts, approach = _facts(row), _approach(row.items("explanation"))
    found = []
    for item in row.items("solutions"):
        part = SourceRow(row.path, row.line, item) if isinstance(item, dict) else None
        if part is None:
            raise row.bad("a solution with 'language' and 'code'", item)
        attributes = {"language": part.text("language").lower(), **facts}
        attributes |= {"approach": approach} if approach else {}
        attributes |= {"variant": str(item["variant"])} if item.get("variant") else {}
        found.append(Passage(part.text("code"), "seed_positive", title=row.text("title"), attributes=attributes))
    return found


def _approach(explanations: list[Any]) -> str:
    """The name of the first explained solution, which is the one whose code is given: `Solution 1: Hash Table`."""
    first = explanations[0] if explanations else {}
    name = first.get("name", "") if isinstance(first, dict) else ""
    return str(name).partition(":")[2].strip()
