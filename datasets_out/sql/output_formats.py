"""A query's result as other programs take it: JSON, CSV and Parquet.

Promise: nothing in a CSV runs as a spreadsheet formula, and no file is ever replaced.
"""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import UsageError

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def to_json(table: pa.Table) -> str:
    """A JSON list with one object a row. What JSON lacks (times, bytes, decimals) is written as text."""
    return json.dumps(_to_rows(table), ensure_ascii=False, default=_to_text)


def to_csv(table: pa.Table) -> str:
    """RFC 4180 text, with plain newlines.

    A text cell that a spreadsheet would run as a formula (=, +, -, @ first) gets a quote in front.
    """
    sink = io.StringIO(newline="")
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(map(_escape_formula, table.column_names))
    writer.writerows([_escape_formula(value) for value in row.values()] for row in _to_rows(table))
    return sink.getvalue()


def write_parquet(table: pa.Table, path: Path) -> None:
    """The table as a new Parquet file. Raises UsageError rather than replace a file."""
    try:
        with Path(path).open("xb") as sink:
            pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}; give the path of a new file") from error


def _to_rows(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist(maps_as_pydicts="lossy")
    return rows


def _escape_formula(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=_to_text)
    return "'" + text if text.startswith(_FORMULA) else text


def _to_text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
