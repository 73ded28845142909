"""How `foil` speaks: words to stderr, tables and data to stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table


def say(text: str) -> None:
    """One line to the user; data goes to stdout, so words go to stderr."""
    print(text, file=sys.stderr)


def show(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> None:
    """A table on the terminal."""
    table = Table(title=title, title_justify="left")
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    Console().print(table, markup=False)
