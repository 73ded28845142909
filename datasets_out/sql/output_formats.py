"""A query's result as other programs take it: JSON, CSV and Parquet. docs/sql.md says how each type is written.

Promise: every value reads back as it was, nothing in a CSV runs as a spreadsheet formula, no file is ever replaced, and
a file that could not be written whole is not there.
"""

import errno
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from foil.datasets_out.sql.query import FORMULA_NOTE
from foil.engine.atomic_files import link_if_absent, write_new
from foil.engine.errors import UsageError

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NEEDS_QUOTES = re.compile(r'[",\r\n]|^$|^\s|\s$')
_STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|(?P<sign>-?)(?:(?P<nan>nan)|inf(?:inity)?)\b', re.IGNORECASE)
_STORAGE_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)


def to_json(table: pa.Table) -> str:
    """A JSON list with one object a row, of a table in the form `json`. NaN and Infinity are texts: JSON has none."""
    keys = [json.dumps(name, ensure_ascii=False) for name in table.column_names]
    rows = (
        ", ".join(f"{key}: {_json_cell(cell)}" for key, cell in zip(keys, row, strict=True)) for row in _rows(table)
    )
    return "[" + ", ".join(f"{{{row}}}" for row in rows) + "]"


def to_csv(table: pa.Table) -> str:
    """RFC 4180 text, with plain newlines, of a table in the form `text`. NULL is an empty cell, an empty text is "".

    Text that a spreadsheet would run as a formula (=, +, -, @ first) gets a quote in front; numbers and times never do.
    In a table of one column NULL is "" too, since most readers skip an empty line.
    """
    empty = '""' if table.num_columns == 1 else ""
    guarded = [(field.metadata or {}).get(FORMULA_NOTE.encode()) != b"0" for field in table.schema]
    head = ",".join(_csv_cell(name, empty, formulas=True) for name in table.column_names)
    rows = (
        ",".join(_csv_cell(cell, empty, formulas=guard) for cell, guard in zip(row, guarded, strict=True))
        for row in _rows(table)
    )
    return "".join(f"{line}\n" for line in (head, *rows))


def write_parquet(table: pa.Table, path: Path) -> None:
    """The table as a new Parquet file, there whole or not at all. Price: the file is built in memory.

    Raises UsageError rather than replace a file, and OSError if the storage fails.
    """
    sink = pa.BufferOutputStream()
    try:
        pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    except pa.ArrowException as error:
        raise UsageError(f"Parquet cannot hold this result: {error}; CAST that column to VARCHAR") from error
    try:
        if path.exists():
            raise FileExistsError(errno.EEXIST, "File exists")
        linked = link_if_absent(write_new(path.parent, f".{path.name}", memoryview(sink.getvalue())), path)
    except OSError as error:
        if error.errno in _STORAGE_FAULTS:
            raise
        raise UsageError(f"cannot write {path}: {error.strerror or error}; give the path of a new file") from error
    if not linked:
        raise UsageError(f"cannot write {path}: File exists; give the path of a new file")


def _rows(table: pa.Table) -> Iterator[tuple[str | None, ...]]:
    """The cells of each row; one batch is in memory as Python texts."""
    for batch in table.to_batches():
        columns: Iterable[list[str | None]] = [column.to_pylist() for column in batch.columns]
        yield from zip(*columns, strict=True)


def _json_cell(cell: str | None) -> str:
    return "null" if cell is None else _STRING_OR_CONSTANT.sub(_quote_constant, cell)


def _quote_constant(match: re.Match[str]) -> str:
    if match[0].startswith('"'):
        return match[0]
    return '"NaN"' if match["nan"] else f'"{match["sign"]}Infinity"'


def _csv_cell(cell: str | None, empty: str, *, formulas: bool) -> str:
    if cell is None:
        return empty
    text = "'" + cell if formulas and cell.startswith(_FORMULA) else cell
    return '"' + text.replace('"', '""') + '"' if _NEEDS_QUOTES.search(text) else text
