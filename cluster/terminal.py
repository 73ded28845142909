"""How `foil` prints: notes to stderr, tables and data to stdout."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any


def say(text: str) -> None:
    """One line to the user; data goes to stdout, so words go to stderr."""
    print(text, file=sys.stderr)


def show(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None, *, numbers: bool = False
) -> None:
    """A table on stdout. `numbers`: all columns but the first are aligned to the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", show_header=any(columns))
    for place, name in enumerate(columns):
        table.add_column(name, overflow="fold", justify="right" if numbers and place else "left")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    Console().print(table, markup=False)
