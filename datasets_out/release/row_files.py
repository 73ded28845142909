"""The files of a release, row by row: Parquet in shards, JSON lines, tab-separated values.

    rows --> their file, or, where a text of theirs is withheld, withheld/FILE.jsonl with their place in that file

A row keeps its place: once the texts are there, `restored` puts it between its neighbours, and the file has the bytes
that it would have had. Price: up to GROUP_ROWS rows of each Parquet file are in memory.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from foil.datasets_out.release.withheld_texts import holds_token
from foil.engine.errors import UsageError

GROUP_ROWS = 5_000
SHARD_ROWS = 200_000
WITHHELD = "withheld"

Row = Mapping[str, Any]


class OutputRow(NamedTuple):
    """One row and its file: `TABLE/SPLIT.parquet`, `FILE.jsonl` or `FILE.tsv`.

    `once`: an id; of the rows of a file with the same id only the first is written.
    """

    file: str
    values: Row
    once: str = ""


@dataclass(slots=True)
class WrittenFile:
    """A file of a release: its rows, those that are withheld, and the columns (of JSON lines, as the first row has)."""

    name: str
    schema: pa.Schema
    rows: int = 0
    withheld: int = 0


class Sink(Protocol):
    """What takes the rows of one file."""

    def write(self, row: Row) -> None: ...
    def close(self) -> None: ...


class RowFiles:
    """Takes rows and writes their files under a folder; use it as a context."""

    def __init__(self, folder: Path, schemas: Mapping[str, pa.Schema]) -> None:
        self._folder, self._schemas = folder, schemas
        self._files: dict[str, _NumberedFile] = {}
        self._seen: set[tuple[str, str]] = set()

    def __enter__(self) -> "RowFiles":
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    def add(self, row: OutputRow) -> None:
        """Writes a row, or puts it aside where it holds the token of a withheld text."""
        if row.once:
            if (row.file, row.once) in self._seen:
                return
            self._seen.add((row.file, row.once))
        if row.file not in self._files:
            self._files[row.file] = _NumberedFile(self._folder, row.file, self._schema_of(row))
        self._files[row.file].add(row.values)

    def written(self) -> list[WrittenFile]:
        """Every file so far, by name."""
        return sorted((shard for file in self._files.values() for shard in file.shards), key=lambda file: file.name)

    def _schema_of(self, row: OutputRow) -> pa.Schema:
        """The schema by the table's name: the last folder of the file, or its stem."""
        path = Path(row.file)
        for name in (path.parent.name, path.stem):
            if name in self._schemas:
                return self._schemas[name]
        return pa.schema([(name, _kind_of(value)) for name, value in row.values.items()])


@dataclass(slots=True)
class _NumberedFile:
    """One file and its shards. Rows that are put aside count, so that they come back to their places."""

    folder: Path
    file: str
    schema: pa.Schema
    shards: list[WrittenFile] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)
    _sink: Sink | None = None
    _aside: IO[str] | None = None

    def add(self, row: Row) -> None:
        parted = self.file.endswith(".parquet")
        if not self.shards or (parted and self.shards[-1].rows + self.shards[-1].withheld >= SHARD_ROWS):
            self._open(shard_name(self.file, len(self.shards)))
        shard = self.shards[-1]
        if holds_token(row):
            self._put_aside(shard, row)
            shard.withheld += 1
        else:
            assert self._sink is not None
            self._sink.write(row)
            shard.rows += 1

    def close(self) -> None:
        self._stack.close()

    def _open(self, name: str) -> None:
        self._stack.close()
        self._stack, self._aside = ExitStack(), None
        self._sink = open_sink(self.folder / name, self.schema)
        self._stack.callback(self._sink.close)
        self.shards.append(WrittenFile(name, self.schema))

    def _put_aside(self, shard: WrittenFile, row: Row) -> None:
        if self._aside is None:
            path = self.folder / WITHHELD / f"{shard.name}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            self._aside = self._stack.enter_context(path.open("w", encoding="utf-8"))
        self._aside.write(_line({"row": shard.rows + shard.withheld, "values": row}))


def shard_name(file: str, number: int) -> str:
    """The name of a shard; files other than Parquet have one.

    >>> shard_name("triplets/train.parquet", 2), shard_name("corpus.jsonl", 0)
    ('triplets/train-00002.parquet', 'corpus.jsonl')
    """
    return f"{file.removesuffix('.parquet')}-{number:05d}.parquet" if file.endswith(".parquet") else file


def open_sink(path: Path, schema: pa.Schema) -> Sink:
    """What writes rows to a new file, by the ending of its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        return _ParquetSink(path, schema)
    if path.suffix == ".csv":
        return _CsvSink(path, schema)
    return _TsvSink(path, schema) if path.suffix == ".tsv" else _JsonSink(path)


def read_rows_of(path: Path) -> Iterator[Row]:
    """The rows of a file that a sink wrote."""
    if path.suffix == ".parquet":
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(GROUP_ROWS):
                yield from batch.to_pylist()
        return
    with path.open(encoding="utf-8", newline="\n") as lines:
        if path.suffix == ".tsv":
            names = next(lines, "\n").rstrip("\n").split("\t")
            yield from (dict(zip(names, line.rstrip("\n").split("\t"), strict=True)) for line in lines)
        else:
            yield from map(json.loads, lines)


def merged(rows: Iterable[Row], aside: Iterable[tuple[int, Row]]) -> Iterator[Row]:
    """Rows with those that were put aside back at their places, which ascend."""
    place = 0
    waiting = iter(aside)
    due = next(waiting, None)
    for row in rows:
        while due is not None and due[0] == place:
            yield due[1]
            place, due = place + 1, next(waiting, None)
        yield row
        place += 1
    while due is not None:
        yield due[1]
        due = next(waiting, None)


class _ParquetSink:
    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema, self._rows = schema, list[dict[str, Any]]()
        self._writer = pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True)

    def write(self, row: Row) -> None:
        self._rows.append(dict(row))
        if len(self._rows) == GROUP_ROWS:
            self._flush()

    def close(self) -> None:
        if self._rows:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_pylist(self._rows, self._schema))
        self._rows.clear()


class _JsonSink:
    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", newline="\n")

    def write(self, row: Row) -> None:
        self._file.write(_line(row))

    def close(self) -> None:
        self._file.close()


class _TsvSink(_JsonSink):
    """No quoting, as the readers of qrels expect; a field with a tab or a line break is refused."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        super().__init__(path)
        self._file.write("\t".join(schema.names) + "\n")

    def write(self, row: Row) -> None:
        fields = [str(value) for value in row.values()]
        if any(sign in value for value in fields for sign in "\t\n\r"):
            raise UsageError(f"{fields} cannot stand in {self._file.name}: a field has a tab or a line break")
        self._file.write("\t".join(fields) + "\n")


class _CsvSink(_JsonSink):
    """CSV's own quoting."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        super().__init__(path)
        self._writer = csv.DictWriter(self._file, schema.names, lineterminator="\n")
        self._writer.writeheader()

    def write(self, row: Row) -> None:
        self._writer.writerow(row)


def _kind_of(value: Any) -> pa.DataType:
    """The type of a value in JSON lines; what is nested counts as text."""
    kinds = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
    for kind in (str, float) if isinstance(value, list) else ():
        if all(isinstance(part, kind) for part in value):
            return pa.list_(kinds.get(kind, pa.string()))
    return kinds.get(type(value), pa.string())


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"
