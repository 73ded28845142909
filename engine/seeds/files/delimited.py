"""The fields of CSV and TSV files, row by row.

A .csv is read in CSV's quoting. A .tsv has none, as tables of retrieval have: each line is a row, each tab parts two
fields, and a double quote is a character like any other.
"""

import csv
import re
from collections.abc import Iterator
from logging import getLogger

from foil.engine.errors import SeedFormatError
from foil.engine.seeds.files.streams import Stream, read_lines

LOG = getLogger(__name__)
Fields = tuple[int, list[str]]
"""The number of a row's last line, and its fields; none for a blank line."""
NO_QUOTING = "a .tsv has no quoting: a text with tabs or line breaks belongs in .jsonl or .csv"
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


def csv_fields(stream: Stream, max_row_bytes: int) -> Iterator[Fields | SeedFormatError]:
    """The rows of a .csv."""
    csv.field_size_limit(max_row_bytes)
    reader = csv.reader(_TextLines(stream, max_row_bytes), strict=True)
    while True:
        begun = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except (csv.Error, UnicodeDecodeError) as error:
            lines = f"{error} (lines {begun} to {reader.line_num})" if reader.line_num > begun else str(error)
            yield SeedFormatError(stream.name, reader.line_num, "a record in CSV quoting and UTF-8", lines)
            continue
        yield reader.line_num, fields


def tsv_fields(stream: Stream, max_row_bytes: int) -> Iterator[Fields | SeedFormatError]:
    """The rows of a .tsv; a warning tells of the first field in double quotes, which are kept."""
    has_warned = False
    for line in read_lines(stream, max_row_bytes):
        if line.content is None:
            yield SeedFormatError(
                stream.name, line.number, f"a row of at most {max_row_bytes:,} bytes", "a longer line"
            )
            continue
        try:
            fields = line.content.decode("utf-8").split("\t") if line.content else []
        except UnicodeDecodeError as error:
            yield SeedFormatError(stream.name, line.number, "a row in UTF-8", str(error))
            continue
        if not has_warned and any(map(_QUOTED.fullmatch, fields)):
            has_warned = True
            LOG.warning("%s:%d: a field stands in double quotes, which are kept; %s", *line[:2], NO_QUOTING)
        yield line.number, fields


class _TextLines(Iterator[str]):
    """The lines as text. Unlike a generator, it goes on after a line that is not UTF-8."""

    def __init__(self, stream: Stream, max_bytes: int) -> None:
        self._lines, self._max_bytes = read_lines(stream, max_bytes), max_bytes

    def __next__(self) -> str:
        line = next(self._lines)
        if line.content is None:
            raise csv.Error(f"a line of more than {self._max_bytes:,} bytes")
        return line.content.decode("utf-8") + "\n"
