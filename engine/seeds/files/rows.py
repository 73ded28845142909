"""Reads the rows of a corpus one at a time from jsonl, a JSON array, Parquet, CSV or TSV.

    path -> read_rows(path) -> SourceRow | SeedFormatError
    path -> read_raw(path), lines of JSONL as they are -> decode(line), in another process if need be -> the same

A record that cannot be decoded is yielded as its error, so that the reader decides whether to refuse or to skip it.
Promise: memory holds a few records, each at most `max_row_bytes` long. Foil does not trust a size that a file claims.
Price: Parquet is read in batches of 16 rows, about a tenth slower than in large ones.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from foil.engine.errors import SeedFormatError, UsageError
from foil.engine.seeds.files.delimited import NO_QUOTING, Fields, csv_fields, tsv_fields
from foil.engine.seeds.files.streams import (
    READ_ERRORS,
    Line,
    Stream,
    damaged_file_error,
    list_files,
    open_streams,
    read_lines,
)

BATCH_ROWS = 16
TABLE_ROW_BYTES = 8 << 20
CHUNK_CHARS = 1 << 18
_SEPARATORS = re.compile(r"[\s,]*")
ENDINGS = (".jsonl", ".ndjson", ".json", ".parquet", ".csv", ".tsv")
_PACKED = re.compile(r"\.(?:(?:jsonl|ndjson|json|csv|tsv)\.(?:zst|bz2|xz|lz4|br|zip|7z)|parquet\.\w+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One decoded record with its file and line; Parquet and JSON arrays count rows from 1 instead of lines."""

    path: str
    line: int
    value: Mapping[str, Any]

    def format_error(self, expected: str, value: object) -> SeedFormatError:
        return SeedFormatError(self.path, self.line, expected, value if isinstance(value, str) else _shown(value))

    def text(self, key: str) -> str:
        """The text under `key`, which must not be blank."""
        value = self.value.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self._field_error(f"a text under {key!r}", key)
        return value

    def name(self, key: str) -> str:
        """The identifier under `key`: a text or a whole number, as text."""
        value = self.value.get(key)
        if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
            raise self._field_error(f"an identifier under {key!r}", key)
        return str(value).strip()

    def title(self, key: str = "title") -> str:
        """The title under `key`: a text, or a number as text; "" if it is missing or null."""
        value = self.value.get(key)
        if value is None or isinstance(value, str):
            return value or ""
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole and not (isinstance(value, float | Decimal) and isfinite(value)):
            raise self._field_error(f"a text or a number under {key!r}", key)
        return str(value)

    def items(self, key: str) -> list[Any]:
        """The list under `key`; a missing key or null is an empty list."""
        value = self.value.get(key)
        if value is not None and not isinstance(value, list):
            raise self.format_error(f"a list under {key!r}", value)
        return value or []

    def nested(self, item: Any, expected: str) -> SourceRow:
        """A record within this row, as a row at the same place."""
        if not isinstance(item, dict):
            raise self.format_error(expected, item)
        return SourceRow(self.path, self.line, item)

    def _field_error(self, expected: str, key: str) -> SeedFormatError:
        return self.format_error(expected, self.value[key] if key in self.value else f"keys {sorted(self.value)}")


Record = SourceRow | SeedFormatError


class RepeatedKeyError(ValueError):
    """A JSON object has a key twice, of which one value would be lost."""


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        raise RepeatedKeyError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} stands there twice")
    return value


_DECODER, _ANY_DECODER = json.JSONDecoder(object_pairs_hook=_distinct), json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class UnreadableCell:
    """A cell of Parquet that has no value in Python, such as a text that is not UTF-8 or a date after the year 9999."""

    type: str
    problem: str


def _shown(value: object) -> str:
    try:
        return repr(value)
    except RecursionError:
        return f"a {type(value).__name__} nested too deep"


def location_id(root: Path, row: SourceRow) -> str:
    """The id of a row that has none of its own: its file within `root`, and its line or row number there."""
    file = PurePath(row.path).relative_to(root) if root.is_dir() else PurePath(root.name)
    return f"{file.as_posix()}:{row.line}"


def attributes_of(values: Mapping[str, Any], on_missing: Callable[[str], None] | None = None) -> dict[str, str]:
    """The values as attributes, which are texts: a list of texts by line, other lists and records as JSON.

    What has no value is left out and given to `on_missing`: null, NaN, an infinite number, a blank text, raw bytes.
    """
    texts = {str(key): _attribute_text(value) for key, value in values.items()}
    for key, text in texts.items():
        if on_missing and not text.strip():
            on_missing(key)
    return {key: text for key, text in texts.items() if text.strip()}


def _attribute_text(value: Any) -> str:
    value = _or_none(value)
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str) if value else ""
    return str(value)


def _or_none(value: Any) -> Any:
    """The value; None for what has none, in lists and records too."""
    match value:
        case float() | Decimal() if not isfinite(value):
            return None
        case UnreadableCell() | bytes():
            return None
        case dict():
            return {key: _or_none(item) for key, item in value.items()}
        case list():
            return [_or_none(item) for item in value]
    return value


def read_rows(path: Path, max_row_bytes: int) -> Iterator[Record]:
    """The records of a file, or of all files of a folder whose name ends as a row format does."""
    return decode_all(read_raw(path, max_row_bytes), max_row_bytes)


def read_table(file: Path) -> Iterator[SourceRow]:
    """The rows of a table that somebody wrote by hand. Raises UsageError that names the line."""
    if not file.is_file():
        raise UsageError(f"{file} cannot be read: it is no file; give a table: {', '.join(ENDINGS)}")
    for record in read_rows(file, TABLE_ROW_BYTES):
        if isinstance(record, SeedFormatError):
            raise UsageError(f"{str(record).partition('; mend')[0]}; mend the line")
        yield record


def unread_files(path: Path) -> list[Path]:
    """The files of a folder that `read_rows` passes over: their names end as no row format does."""
    return [file for file in list_files(path) if file != path and not _ending(file.name)]


def decode_all(raw: Iterable[Line | Record], max_row_bytes: int) -> Iterator[Record]:
    """The records of what `read_raw` gave; blank lines are passed over."""
    for item in raw:
        if not isinstance(item, Line):
            yield item
        elif item.content is None:
            expected = f"a record of at most {max_row_bytes:,} bytes"
            yield SeedFormatError(item.name, item.number, expected, "a longer line")
        elif item.content.strip():
            yield _decode_line(item.name, item.number, item.content)


def read_raw(path: Path, max_row_bytes: int) -> Iterator[Line | Record]:
    """The same, with lines of JSONL not decoded yet: what is cheap to read and dear to parse."""
    for file in list_files(path):
        if _PACKED.fullmatch("".join(file.suffixes[-2:])):
            raise UsageError(f"{file} is packed in a way that is not read; unpack it, or pack lines of text with gzip")
        if file.suffix.lower() == ".parquet":
            yield from _read_parquet(file, max_row_bytes)
        elif _ending(file.name):
            for stream in open_streams(file):
                yield from _read_stream(stream, max_row_bytes)
        elif path.is_file():
            raise UsageError(
                f"cannot tell the format of {path} by its name; expected one of {', '.join(ENDINGS)}, or .gz of it"
            )


def _read_stream(stream: Stream, max_row_bytes: int) -> Iterator[Line | Record]:
    match _ending(stream.base_name):
        case ".csv":
            yield from _read_delimited(stream, csv_fields(stream, max_row_bytes), "")
        case ".tsv":
            yield from _read_delimited(stream, tsv_fields(stream, max_row_bytes), f" ({NO_QUOTING})")
        case ".json":
            yield from _read_array(stream, max_row_bytes)
        case _:
            yield from read_lines(stream, max_row_bytes)


def _ending(name: str) -> str:
    base_name = name.lower().removesuffix(".gz").removesuffix(".z")
    return next((ending for ending in ENDINGS if base_name.endswith(ending)), "")


def _decode_line(path: str, number: int, content: bytes) -> Record:
    try:
        value = json.loads(content, object_pairs_hook=_distinct)
        if b"\\ud" in content.lower():
            _require_utf8(value)
    except (ValueError, RecursionError) as error:
        return SeedFormatError(path, number, f"a JSON object in UTF-8 ({error})", content.decode("utf-8", "replace"))
    return _object_row(path, number, value)


def _require_utf8(value: Any) -> None:
    """Raises ValueError for half of a surrogate pair: JSON can spell it, UTF-8 cannot store it."""
    json.dumps(value, ensure_ascii=False).encode()


def _object_row(path: str, number: int, value: Any) -> Record:
    if not isinstance(value, dict):
        return SeedFormatError(path, number, "a JSON object", _shown(value))
    return SourceRow(path, number, value)


def _read_array(stream: Stream, max_row_bytes: int) -> Iterator[Record]:
    """Decodes the objects of one JSON array as they arrive. Bad JSON ends the run: the next object cannot be found."""
    reader = io.TextIOWrapper(stream.data, encoding="utf-8-sig")
    buffer, number = _read_text(stream, reader, 0), 0
    if not buffer.lstrip().startswith("["):
        yield SeedFormatError(stream.name, 1, "a JSON array of objects (one object a line is .jsonl)", buffer[:120])
        return
    start = buffer.index("[") + 1
    while True:
        start = _skip_separators(buffer, start)
        if buffer.startswith("]", start):
            _require_end(stream, reader, buffer[start + 1 :], number)
            return
        try:
            value, end = _DECODER.raw_decode(buffer, start)
            if "\\ud" in buffer[start:end].lower():
                _require_utf8(value)
        except RepeatedKeyError as error:
            number, (_, end) = number + 1, _ANY_DECODER.raw_decode(buffer, start)
            yield SeedFormatError(stream.name, number, f"a JSON object ({error})", buffer[start : start + 120])
            start = end
            continue
        except (ValueError, RecursionError) as error:
            more_text = _read_text(stream, reader, number) if len(buffer) - start <= max_row_bytes else ""
            if not more_text:
                expected = f"a JSON object of at most {max_row_bytes:,} bytes ({error})"
                raise _unreadable_error(stream, number + 1, expected, buffer[start : start + 120]) from error
            buffer, start = buffer[start:] + more_text, 0
            continue
        number, start = number + 1, end
        yield _object_row(stream.name, number, value)


def _require_end(stream: Stream, reader: io.TextIOWrapper, rest: str, number: int) -> None:
    """Raises UsageError where more than blanks stand behind the array: rows there would be lost."""
    while not (rest := rest.strip()):
        if not (rest := _read_text(stream, reader, number)):
            return
    raise _unreadable_error(stream, number + 1, "nothing behind the array (one object a line is .jsonl)", rest[:120])


def _skip_separators(buffer: str, start: int) -> int:
    match = _SEPARATORS.match(buffer, start)
    assert match is not None
    return match.end()


def _read_text(stream: Stream, reader: io.TextIOWrapper, number: int) -> str:
    try:
        return reader.read(CHUNK_CHARS)
    except READ_ERRORS as error:
        raise damaged_file_error(stream.name, f"after item {number}: {error}") from error
    except UnicodeDecodeError as error:
        raise _unreadable_error(stream, number + 1, "UTF-8 text", str(error)) from error


def _unreadable_error(stream: Stream, number: int, expected: str, text: str) -> UsageError:
    """The error after which the rest of the file cannot be read, so that skipping the record does not help."""
    return UsageError(f"{stream.name}:{number}: expected {expected}, found {text!r}; mend the file")


def _read_delimited(stream: Stream, rows: Iterator[Fields | SeedFormatError], quoting: str) -> Iterator[Record]:
    """The rows below a header line; a row has the number of its last line."""
    first = next(rows, (1, []))
    if isinstance(first, SeedFormatError):
        raise _unreadable_error(stream, 1, "a header in UTF-8, in CSV quoting if it is a .csv", first.found)
    header = first[1]
    _require_distinct(f"{stream.name}:1", header)
    for row in rows:
        if isinstance(row, SeedFormatError):
            yield row
        elif len(row[1]) == len(header):
            yield SourceRow(stream.name, row[0], dict(zip(header, row[1], strict=True)))
        elif row[1]:
            expected = f"{len(header)} fields as in the header{quoting}"
            yield SeedFormatError(stream.name, row[0], expected, f"{len(row[1])} fields")


def _require_distinct(place: object, names: list[str]) -> None:
    if len(set(names)) != len(names):
        raise UsageError(
            f"{place}: expected a header of distinct column names, found {', '.join(names)!r}; mend the file"
        )


def _read_parquet(file: Path, max_row_bytes: int) -> Iterator[Record]:
    """The rows of a Parquet file, read in small batches: its footer does not limit the size of the decoded rows."""
    try:
        with pq.ParquetFile(file) as parquet:
            _require_distinct(file, parquet.schema_arrow.names)
            number = 0
            for batch in parquet.iter_batches(batch_size=BATCH_ROWS):
                fits = batch.nbytes <= BATCH_ROWS * max_row_bytes
                for value in _values(batch) if fits else [None] * len(batch):
                    number += 1
                    yield _limit_row(str(file), number, value, max_row_bytes)
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise damaged_file_error(file, str(error)) from error


def _values(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows as Python values; a cell that has none is an UnreadableCell, of which only a reader of it complains."""
    try:
        return list(batch.to_pylist())
    except (ValueError, OverflowError, TypeError, pa.ArrowException):
        names = batch.schema.names
        return [{name: _cell(column[i]) for name, column in zip(names, batch, strict=True)} for i in range(len(batch))]


def _cell(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError, TypeError, pa.ArrowException) as error:
        return UnreadableCell(str(scalar.type), str(error)[:80])


def _limit_row(path: str, number: int, value: dict[str, Any] | None, max_row_bytes: int) -> Record:
    if value is None or _decoded_size(value) > max_row_bytes:
        return SeedFormatError(path, number, f"a record of at most {max_row_bytes:,} bytes", "a larger row")
    return SourceRow(path, number, value)


def _decoded_size(value: Any) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_decoded_size, value.values()))
    return sum(map(_decoded_size, value)) if isinstance(value, list) else 8
