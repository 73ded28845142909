"""The bytes of a run's files: tables as Parquet, and JSON documents that carry the sha256 of their own content.

Promise: equal tables give equal bytes. Price: a file is built in memory (one partition's compressed table, a few MB).
"""

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from foil.engine.errors import CorruptDataError
from foil.engine.ids import canonical_json, sha256_hex

ROW_GROUP_BYTES = 8 << 20
"""Decoded bytes of a row group, roughly: what a trainer reads at once."""

_SEAL = ',"sha256":"'
_SEAL_LENGTH = len(_SEAL) + 64 + len('"}\n')
_DICTIONARY = [
    "topic_id", "corpus", "recipe", "status", "reason", "licence", "role", "intent_id", "passage_id", "judge",
    "validator", "outcome", "task", "model", "template", "finish_reason",
]  # fmt: skip


def encode(table: pa.Table) -> bytes:
    """The table as Parquet, zstd, a CRC in every page; equal tables give equal bytes under one pyarrow version."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=_group_rows(table), **_options(table.schema))
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def read_rows(
    path: Path,
    start: int = 0,
    rows: int | None = None,
    columns: Sequence[str] | None = None,
    *,
    checked: bool = False,
    dictionaries: Sequence[str] = (),
) -> pa.Table:
    """`rows` of a file on this machine from `start` on, or all of it (None).

    `checked`: each page against its checksum; `dictionaries`: columns that stay encoded. No other row group is read.
    """
    names, options = list(columns) if columns is not None else None, {"page_checksum_verification": checked}
    with pq.ParquetFile(path, read_dictionary=list(dictionaries), **options) as file:
        if rows is None:
            return file.read(columns=names, use_threads=False)
        ends = accumulate(file.metadata.row_group(i).num_rows for i in range(file.num_row_groups))
        groups = [i for i, end in enumerate(ends) if start < end <= start + rows]
        return file.read_row_groups(groups, columns=names, use_threads=False)


class RowWriter:
    """Writes a Parquet file of many tables as `encode` writes one; no row group holds rows of two of them."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._writer, self.rows = pq.ParquetWriter(path, schema, **_options(schema)), 0

    def write(self, table: pa.Table) -> None:
        if table.num_rows:
            self._writer.write_table(table, row_group_size=_group_rows(table))
            self.rows += table.num_rows

    def __enter__(self) -> "RowWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()


def _group_rows(table: pa.Table) -> int:
    row_bytes: int = max(1, table.nbytes // max(1, table.num_rows))
    return max(1, ROW_GROUP_BYTES // row_bytes)


def _options(schema: pa.Schema) -> dict[str, Any]:
    dictionary = [name for name in _DICTIONARY if name in schema.names]
    return {"compression": "zstd", "use_dictionary": dictionary, "write_page_checksum": True}


def seal(body: Mapping[str, Any]) -> bytes:
    """Canonical JSON of the body, closed by the sha256 of that JSON as its last key."""
    text = canonical_json(body)
    return f'{text[:-1]}{_SEAL}{sha256_hex(text)}"}}\n'.encode()


def unseal(path: Path, raw: bytes) -> dict[str, Any]:
    """The body that `seal` closed. Raises CorruptDataError naming `path` if any bit of it differs."""
    text = raw[:-_SEAL_LENGTH] + b"}"
    if raw[-_SEAL_LENGTH:] != f'{_SEAL}{sha256_hex(text)}"}}\n'.encode():
        raise CorruptDataError(
            f"{path} ({len(raw)} bytes) does not carry the sha256 of its own content: it was changed or cut; "
            "restore it from a copy, or delete it and run the job again to make it anew from the journal"
        )
    body: dict[str, Any] = json.loads(text)
    return body
