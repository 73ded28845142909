"""What each view and column of `foil sql` holds, in a line each, and questions to ask of them (docs/sql.md)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from foil.datasets_out.sql.query import run_sql
from foil.datasets_out.sql.views import VIEWS

_WORDS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
VIEW_WORDS: Mapping[str, str] = _WORDS["views"]
"""What each view holds."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a view: its name, its type in DuckDB, and what it holds."""

    name: str
    type: str
    words: str


def describe_views(out: Path | Mapping[str, Path], snapshot: str | None = None) -> dict[str, list[Column]]:
    """The columns of every view, in order, as a query of the run or runs sees them."""
    sql = (
        "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE schema_name = 'main' "
        "AND NOT internal ORDER BY table_name, column_index"
    )
    columns: dict[str, list[Column]] = {view: [] for view in VIEWS}
    for view, name, kind in _rows(out, sql, snapshot):
        columns[view].append(Column(name, kind, words_of(view, name)))
    return columns


def words_of(view: str, column: str) -> str:
    """What a column holds."""
    if own := _WORDS["own"].get(f"{view}.{column}") or _WORDS["common"].get(column):
        return str(own)
    table, _, state = column.partition("_")
    return f"rows of {table}" if state == "rows" else f"{table} that are {state}" if state else ""


def _rows(out: Path | Mapping[str, Path], sql: str, snapshot: str | None) -> Iterator[tuple[str, str, str]]:
    table = run_sql(out, sql, snapshot=snapshot)
    yield from zip(*(column.to_pylist() for column in table.columns), strict=True)


@cache
def questions() -> tuple[tuple[str, str], ...]:
    """Words and SQL of the ready questions, in the order of the page."""
    _, *parts = Path(__file__).with_name("questions.sql").read_text(encoding="utf-8").split("\n\n-- ")
    pairs = (part.partition("\n") for part in parts)
    return tuple((words, sql.strip().removesuffix(";")) for words, _, sql in pairs)


def questions_of_one_run() -> tuple[tuple[str, str], ...]:
    """Those that need no second run."""
    return tuple(pair for pair in questions() if "foil sql A B" not in pair[0])
