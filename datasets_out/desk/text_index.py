"""The texts of a run's topics in memory, in small letters, so that a word is found without a file being opened.

    partitions -> query, instructions, passages, titles as bytes -> `find`: topics that have all words somewhere

Promise: what `find` finds is what `contains(lower(text), word)` finds in SQL. Price: as much memory as the texts take,
`most_bytes` at most, and some 2 seconds of CPU to read 100,000 topics; larger runs are not held, and SQL searches them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from datasets_out.commits.snapshot import Snapshot
from datasets_out.commits.stored_rows import TablePart
from datasets_out.diff.topic_digests import read_columns

MOST_BYTES = 1 << 30
"""Texts that are held: those of some 300,000 topics."""

Key = tuple[str, ...]
"""The sha256 of the files that a partition's texts are in."""

_TEXTS = {"topics": ("query",), "intents": ("instruction",), "passages": ("text", "title")}


@dataclass(frozen=True, slots=True)
class _ColumnTexts:
    """The texts of one column of a partition, end to end; `ends` are their ends in bytes, `topics` whose they are."""

    texts: bytes
    ends: NDArray[np.int64]
    topics: NDArray[np.int64]

    def find(self, word: bytes) -> Iterator[int]:
        """The topics, as numbers in the partition, of the texts that hold the word."""
        place = self.texts.find(word)
        while place >= 0:
            row = int(np.searchsorted(self.ends, place, side="right"))
            if place + len(word) <= self.ends[row]:
                yield int(self.topics[row])
                place = int(self.ends[row]) - 1
            place = self.texts.find(word, place + 1)


@dataclass(frozen=True, slots=True)
class _PartitionTexts:
    topic_ids: pa.Array
    columns: Sequence[_ColumnTexts]

    @property
    def size(self) -> int:
        """Bytes of its texts."""
        return sum(len(column.texts) for column in self.columns)

    def find(self, words: Sequence[bytes]) -> list[str]:
        """The ids of the topics that have all words."""
        found = set.intersection(*({topic for column in self.columns for topic in column.find(w)} for w in words))
        ids: list[str] = self.topic_ids.take(pa.array(sorted(found), pa.int64())).to_pylist()
        return ids


class TextIndex:
    """Of one run. `update` may run in a thread beside `find`."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._partitions: dict[Key, _PartitionTexts] = {}
        self._closed = False

    def update(self, snapshot: Snapshot) -> None:
        """Reads the partitions that are new; holds none where all are too large. Raises CorruptDataError."""
        size = sum(part.size for part in self._partitions.values())
        parts = zip(*(snapshot.parts(table) for table in _TEXTS), strict=True)
        for key, stored in zip(_keys(snapshot), parts, strict=True):
            if key in self._partitions:
                continue
            part = _read(dict(zip(_TEXTS, stored, strict=True)))
            size += part.size
            if self._closed or size > self._most_bytes:
                self.close()
                return
            self._partitions[key] = part

    def holds(self, snapshot: Snapshot) -> bool:
        """Whether every partition is in it."""
        return not self._closed and all(key in self._partitions for key in _keys(snapshot))

    def find(self, snapshot: Snapshot, words: Sequence[str]) -> list[str]:
        """The ids of the topics in which each word, one at least, occurs in small letters. `holds` was true."""
        encoded = [word.lower().encode(errors="replace") for word in words]
        return [topic for key in _keys(snapshot) for topic in self._partitions[key].find(encoded)]

    def close(self) -> None:
        """Holds nothing from now on."""
        self._closed = True
        self._partitions = {}


def _keys(snapshot: Snapshot) -> list[Key]:
    contents = (snapshot.contents[table] for table in _TEXTS)
    return [tuple(file.sha256 for file in files) for files in zip(*contents, strict=True)]


def _read(parts: Mapping[str, TablePart]) -> _PartitionTexts:
    tables = {table: read_columns(parts[table], ("topic_id", *names)) for table, names in _TEXTS.items()}
    topic_ids = tables["topics"]["topic_id"].combine_chunks()
    columns = [
        _column(tables[table][name], pc.index_in(tables[table]["topic_id"], topic_ids))
        for table, names in _TEXTS.items()
        for name in names
    ]
    return _PartitionTexts(topic_ids, columns)


def _column(texts: pa.ChunkedArray, topics: pa.ChunkedArray) -> _ColumnTexts:
    lowered = pc.utf8_lower(texts).cast(pa.large_binary()).combine_chunks()
    _, offsets, values = lowered.buffers()
    ends = np.frombuffer(offsets, np.int64)[lowered.offset + 1 : lowered.offset + len(lowered) + 1]
    whole = values.to_pybytes() if values else b""
    return _ColumnTexts(whole[: int(ends[-1]) if len(ends) else 0], ends, topics.to_numpy())
