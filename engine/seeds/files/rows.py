"""Rows of a corpus: jsonl, a JSON array, Parquet, CSV and TSV become mappings, one at a time.

    path -> rows(path) -> SourceRow | SeedFormatError

A record that cannot be decoded is yielded as its error, so that the reader decides whether to refuse or to skip.
Promise: memory stays at a few records, each at most `max_row_bytes` decoded; sizes that a file claims are not believed.
Price: Parquet is read in batches of 16 rows, about a tenth slower than in large ones.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import SeedFormatError, UsageError
from engine.seeds.files.streams import DAMAGE, Stream, damaged, files_under, lines, streams

BATCH_ROWS = 16
CHUNK_CHARS = 1 << 18
_DECODER = json.JSONDecoder()
_BETWEEN_ITEMS = re.compile(r"[\s,]*")
ENDINGS = (".jsonl", ".ndjson", ".json", ".parquet", ".csv", ".tsv")


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One decoded record, with the place it stands at: a line, or a 1-based row where the format has no lines."""

    path: str
    line: int
    value: Mapping[str, Any]

    def bad(self, expected: str, found: object) -> SeedFormatError:
        """The error for this row."""
        return SeedFormatError(self.path, self.line, expected, found if isinstance(found, str) else repr(found))

    def text(self, key: str) -> str:
        """The text under `key`, which must not be blank."""
        value = self.value.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.bad(f"a text under {key!r}", value if key in self.value else f"keys {sorted(self.value)}")
        return value

    def name(self, key: str) -> str:
        """The identifier under `key`: a text or a whole number, as text."""
        value = self.value.get(key)
        if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
            raise self.bad(f"an identifier under {key!r}", value if key in self.value else f"keys {sorted(self.value)}")
        return str(value).strip()

    def items(self, key: str) -> list[Any]:
        """The list under `key`; a missing key or null is an empty list."""
        value = self.value.get(key)
        if value is not None and not isinstance(value, list):
            raise self.bad(f"a list under {key!r}", value)
        return value or []


Record = SourceRow | SeedFormatError


def place_in(root: Path, row: SourceRow) -> str:
    """A name for a row without an id: its file within `root`, and its line or row there."""
    inside = PurePath(row.path).relative_to(root) if root.is_dir() else PurePath(root.name)
    return f"{inside.as_posix()}:{row.line}"


def attributes_of(values: Mapping[str, Any]) -> dict[str, str]:
    """Texts, numbers and lists of texts as attributes; anything else, and what is empty, is left out."""
    found: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            value = "\n".join(value)  # noqa: PLW2901
        if isinstance(value, str | int | float) and str(value).strip():
            found[str(key)] = str(value)
    return found


def rows(path: Path, max_row_bytes: int) -> Iterator[Record]:
    """Every record under `path`: a file, or all files of a tree whose names end as a row format does."""
    for file in files_under(path):
        if file.suffix == ".parquet":
            yield from parquet_rows(file, max_row_bytes)
        elif _ending(file.name):
            for stream in streams(file):
                yield from stream_rows(stream, max_row_bytes)
        elif path.is_file():
            raise UsageError(
                f"cannot tell the format of {path} by its name; expected one of {', '.join(ENDINGS)}, or .gz of it"
            )


def stream_rows(stream: Stream, max_row_bytes: int) -> Iterator[Record]:
    """The records of one stream, by the ending of its name."""
    match _ending(stream.inner):
        case ".csv":
            yield from delimited_rows(stream, max_row_bytes, ",")
        case ".tsv":
            yield from delimited_rows(stream, max_row_bytes, "\t")
        case ".json":
            yield from array_rows(stream, max_row_bytes)
        case _:
            yield from jsonl_rows(stream, max_row_bytes)


def _ending(name: str) -> str:
    plain = name.lower().removesuffix(".gz").removesuffix(".z")
    return next((ending for ending in ENDINGS if plain.endswith(ending)), "")


def jsonl_rows(stream: Stream, max_row_bytes: int) -> Iterator[Record]:
    """One JSON object a line; blank lines are passed over."""
    for line in lines(stream, max_row_bytes):
        if line.raw is None:
            yield SeedFormatError(
                line.name, line.number, f"a record of at most {max_row_bytes:,} bytes", "a longer line"
            )
        elif line.raw.strip():
            yield _decoded(line.name, line.number, line.raw)


def _decoded(path: str, number: int, raw: bytes) -> Record:
    try:
        value = json.loads(raw)
        _encodable(value, raw)
    except (ValueError, RecursionError) as error:
        return SeedFormatError(path, number, f"a JSON object in UTF-8 ({error})", raw.decode("utf-8", "replace"))
    return _row(path, number, value)


def _encodable(value: Any, raw: bytes | str) -> None:
    """Half of a surrogate pair can be spelt in JSON, but not stored as UTF-8."""
    if (b"\\ud" in raw.lower()) if isinstance(raw, bytes) else ("\\ud" in raw.lower()):
        json.dumps(value, ensure_ascii=False).encode()


def _row(path: str, number: int, value: Any) -> Record:
    if not isinstance(value, dict):
        return SeedFormatError(path, number, "a JSON object", json.dumps(value))
    return SourceRow(path, number, value)


def array_rows(stream: Stream, max_row_bytes: int) -> Iterator[Record]:
    """The objects of one JSON array, decoded as they arrive. Bad JSON ends the run: nothing tells where it goes on."""
    text = io.TextIOWrapper(stream.data, encoding="utf-8-sig")
    buffer, at, number = _more(stream, text, 0), 0, 0
    if not buffer.lstrip().startswith("["):
        yield SeedFormatError(stream.name, 1, "a JSON array of objects (one object a line is .jsonl)", buffer[:120])
        return
    at = buffer.index("[") + 1
    while True:
        at = _next_item(buffer, at)
        if buffer.startswith("]", at):
            return
        try:
            value, end = _DECODER.raw_decode(buffer, at)
            _encodable(value, buffer[at:end])
        except (ValueError, RecursionError) as error:
            more = _more(stream, text, number) if len(buffer) - at <= max_row_bytes else ""
            if not more:
                expected = f"a JSON object of at most {max_row_bytes:,} bytes ({error})"
                raise _hopeless(stream, number + 1, expected, buffer[at : at + 120]) from error
            buffer, at = buffer[at:] + more, 0
            continue
        number, at = number + 1, end
        yield _row(stream.name, number, value)


def _next_item(buffer: str, at: int) -> int:
    match = _BETWEEN_ITEMS.match(buffer, at)
    assert match is not None
    return match.end()


def _more(stream: Stream, text: io.TextIOWrapper, number: int) -> str:
    try:
        return text.read(CHUNK_CHARS)
    except DAMAGE as error:
        raise damaged(stream.name, f"after item {number}: {error}") from error
    except UnicodeDecodeError as error:
        raise _hopeless(stream, number + 1, "UTF-8 text", str(error)) from error


def _hopeless(stream: Stream, place: int, expected: str, found: str) -> UsageError:
    """The error after which the rest of the file cannot be read, so that skipping is no cure."""
    return UsageError(f"{stream.name}:{place}: expected {expected}, found {found!r}; mend the file")


def delimited_rows(stream: Stream, max_row_bytes: int, delimiter: str) -> Iterator[Record]:
    """Rows under a header line, quoted as CSV does; the line is the last one that the record spans."""
    csv.field_size_limit(max_row_bytes)
    reader = csv.reader(_TextLines(stream, max_row_bytes), delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
    except (csv.Error, UnicodeDecodeError) as error:
        raise _hopeless(stream, 1, "a header in CSV quoting and UTF-8", str(error)) from error
    if len(set(header)) != len(header):
        raise _hopeless(stream, 1, "a header of distinct column names", delimiter.join(header))
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except (csv.Error, UnicodeDecodeError) as error:
            yield SeedFormatError(stream.name, reader.line_num, "a record in CSV quoting and UTF-8", str(error))
            continue
        if len(fields) == len(header):
            yield SourceRow(stream.name, reader.line_num, dict(zip(header, fields, strict=True)))
        elif fields:
            yield SeedFormatError(
                stream.name, reader.line_num, f"{len(header)} fields as in the header", f"{len(fields)} fields"
            )


class _TextLines(Iterator[str]):
    """Lines as text; unlike a generator it goes on after a line that is not UTF-8."""

    def __init__(self, stream: Stream, max_bytes: int) -> None:
        self._lines, self._max_bytes = lines(stream, max_bytes), max_bytes

    def __next__(self) -> str:
        line = next(self._lines)
        if line.raw is None:
            raise csv.Error(f"a line of more than {self._max_bytes:,} bytes")
        return line.raw.decode("utf-8") + "\n"


def parquet_rows(file: Path, max_row_bytes: int) -> Iterator[Record]:
    """Rows of a Parquet file, a small batch at a time: its footer does not bound what it decodes to."""
    try:
        with pq.ParquetFile(file) as parquet:
            number = 0
            for batch in parquet.iter_batches(batch_size=BATCH_ROWS):
                for value in batch.to_pylist() if batch.nbytes <= BATCH_ROWS * max_row_bytes else [None] * len(batch):
                    number += 1
                    yield _bounded_row(str(file), number, value, max_row_bytes)
    except (pa.ArrowInvalid, OSError) as error:
        raise damaged(file, str(error)) from error


def _bounded_row(path: str, number: int, value: dict[str, Any] | None, max_row_bytes: int) -> Record:
    if value is None or _text_bytes(value) > max_row_bytes:
        return SeedFormatError(path, number, f"a record of at most {max_row_bytes:,} bytes", "a larger row")
    return SourceRow(path, number, value)


def _text_bytes(value: Any) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_text_bytes, value.values()))
    return sum(map(_text_bytes, value)) if isinstance(value, list) else 8
