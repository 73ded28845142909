"""Programming problems with solutions in several languages: LeetCode's, Exercism's, and others of that shape.

    {id or slug, title, statement, difficulty, tags, solutions: [{language, code, variant}], explanation: [{name}]}

The query is the statement; each solution is a positive whose attributes name language, tags, approach and variant, so
the same problem in another language or by another approach is the passage that an instruction can tell apart.
`more_solutions` joins a second file of solutions by id or slug (walkccc's solutions have no statements).
Mined negatives are solutions of problems whose statements BM25 puts nearest.
Price: problems stream; `more_solutions` is held in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from engine.errors import SeedFormatError
from engine.seeds.corpus import Candidate, CorpusReader, CorpusSettings, Draft, make_seed
from engine.seeds.rows import Row, rows
from engine.topic import Passage


class LeetcodeSettings(CorpusSettings):
    """Where problems and solutions lie."""

    kind: Literal["leetcode"]
    corpus: str = Field("leetcode", min_length=1, description="Name of the corpus.")
    licence: str = Field("LeetCode statements: terms of service; texts may not be passed on", description="Licence of the texts.")
    redistributable: bool = Field(False, description="Whether the texts may be exported to others.")
    path: Path = Field(description="File or folder of problems: jsonl, JSON array or Parquet.")
    more_solutions: Path | None = Field(None, description="File of further solutions, joined by id or slug.")


class LeetcodeReader(CorpusReader):
    """Seeds of programming problems."""

    def __init__(self, settings: LeetcodeSettings) -> None:
        super().__init__(settings)
        self._settings = settings

    def drafts(self) -> Iterator[Draft]:
        more = self._more_solutions()
        records = rows(self._settings.path, self._settings.max_row_bytes)
        return self.parsed(records, lambda row: self._draft(row, more))

    def candidates(self) -> Iterator[Candidate]:
        for draft in type(self)(self._settings).drafts():
            if draft.seed.positives:
                yield Candidate(draft.seed.id, draft.seed.query, draft.seed.positives)

    def _more_solutions(self) -> dict[str, Row]:
        if self._settings.more_solutions is None:
            return {}
        found: dict[str, Row] = {}
        for row in rows(self._settings.more_solutions, self._settings.max_row_bytes):
            if isinstance(row, SeedFormatError):
                raise row
            found[_name(row)] = row
        return found

    def _draft(self, row: Row, more: dict[str, Row]) -> Draft:
        name = _name(row)
        solutions = _solutions(row) + (_solutions(more[name]) if name in more else [])
        query = row.text("statement")
        attributes = {"title": row.text("title"), **_facts(row), **(_facts(more[name]) if name in more else {})}
        seed = make_seed(self._settings, name, query, solutions, (), attributes)
        return Draft(seed, frozenset({name}), row.path, row.line)


def _name(row: Row) -> str:
    return row.name("id" if "id" in row.value else "slug")


def _facts(row: Row) -> dict[str, str]:
    """What is known of a problem: difficulty, tags, and the pattern under which a curated list files it."""
    tags = ", ".join(tag for tag in row.items("tags") if isinstance(tag, str))
    listed = row.value.get("neetcode")
    pattern = listed.get("pattern") if isinstance(listed, dict) else ""
    facts = {"difficulty": row.value.get("difficulty"), "tags": tags, "pattern": pattern}
    return {key: value for key, value in facts.items() if isinstance(value, str) and value}


def _solutions(row: Row) -> list[Passage]:
    facts, approach = _facts(row), _approach(row.items("explanation"))
    found = []
    for item in row.items("solutions"):
        part = Row(row.path, row.line, item) if isinstance(item, dict) else None
        if part is None:
            raise row.bad("a solution with 'language' and 'code'", item)
        attributes = {"language": part.text("language").lower(), **facts}
        attributes |= {"approach": approach} if approach else {}
        attributes |= {"variant": item["variant"]} if item.get("variant") else {}
        found.append(Passage(part.text("code"), "seed_positive", title=row.text("title"), attributes=attributes))
    return found


def _approach(explanations: list[Any]) -> str:
    """The name of the first explained solution, which is the one whose code is given: `Solution 1: Hash Table`."""
    first = explanations[0] if explanations else {}
    name = first.get("name", "") if isinstance(first, dict) else ""
    return str(name).partition(":")[2].strip()
