"""The rows of a query on a terminal: a table where it has the room, else a block of `column | value` for each row.

Ids and long texts are cut, and say so; `--full` shows them whole. No text steers the terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from foil.engine.visible_text import visible

if TYPE_CHECKING:
    from foil.datasets_out.sql.schema_words import Column

Row = Sequence[str | None]

_ID = re.compile("[0-9a-f]{24,64}")
_LEAST_DIGITS = 8
_CELL_CHARS = 200
_BLOCK_CHARS = 600
_FOLDED = 24
_BORDER = 3


@dataclass(frozen=True, slots=True)
class RowsPage:
    """Rows to be shown, and whether whole."""

    columns: Sequence[str]
    rows: Sequence[Row]
    full: bool = False

    def draw(self, console: Console) -> Iterator[RenderableType]:
        """A table, or blocks where a column would be narrower than 24 characters and its cells."""
        cells = self.rows if self.full else _with_short_ids(self.rows)
        limit = None if self.full else _CELL_CHARS
        texts = [[_cell(cell, limit) for cell in row] for row in cells]
        if _fits(self.columns, texts, console.width):
            yield _table(self.columns, texts)
            return
        limit = None if self.full else _BLOCK_CHARS
        for number, row in enumerate(cells, 1):
            yield Text(f"── row {number} ".ljust(min(console.width, 40), "─"))
            yield _block(self.columns, [_cell(cell, limit) for cell in row])


def schema_page(view: str, words: str, columns: Sequence[Column]) -> Iterator[RenderableType]:
    """A view, what its rows are, and its columns with their types and what they hold."""
    yield Text.assemble((view, "bold"), f": {words}")
    grid = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(2):
        grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for column in columns:
        grid.add_row(Text(f"  {column.name}"), Text(column.type, style="dim"), Text(column.words))
    yield grid
    yield Text()


def _with_short_ids(rows: Sequence[Row]) -> list[Row]:
    """The rows, of each id its first digits: as many as tell the ids of the column apart, at least 8."""
    return list(zip(*map(_short_column, zip(*rows, strict=True)), strict=True))


def _short_column(cells: Row) -> list[str | None]:
    ids = {cell for cell in cells if cell and _ID.fullmatch(cell)}
    digits = _LEAST_DIGITS
    while len({each[:digits] for each in ids}) < len(ids):
        digits += 1
    return [cell[:digits] if cell and cell in ids else cell for cell in cells]


def _cell(cell: str | None, limit: int | None) -> str:
    text = "" if cell is None else cell
    if limit is not None and len(text) > limit:
        text = f"{text[:limit]} … {len(text):,} characters"
    return visible(text)


def _fits(columns: Sequence[str], texts: Sequence[Sequence[str]], width: int) -> bool:
    """Whether every column can have the width of its cells, or 24 characters where they are longer."""
    needed = _BORDER * len(columns) + 1
    for place, name in enumerate(columns):
        longest = max((len(line) for row in texts for line in row[place].split("\n")), default=0)
        needed += max(len(visible(name)), min(longest, _FOLDED))
    return needed <= width


def _table(columns: Sequence[str], texts: Sequence[Sequence[str]]) -> Table:
    table = Table(header_style="")
    for name in columns:
        table.add_column(Text(visible(name)), overflow="fold")
    for row in texts:
        table.add_row(*map(Text, row))
    return table


def _block(columns: Sequence[str], texts: Sequence[str]) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(overflow="fold", max_width=_FOLDED)
    table.add_column()
    table.add_column(overflow="fold")
    for name, text in zip(columns, texts, strict=True):
        table.add_row(Text(visible(name)), "|", Text(text))
    return table
