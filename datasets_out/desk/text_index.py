"""The texts of a run's topics in memory, in small letters, so that a word is found without a file being opened.

    partitions -> query, instructions, passages, titles as bytes -> `find`: topics that have all words somewhere

Promise: what `find` finds is what `contains(lower(text), word)` finds in SQL. Price: as much memory as the texts take,
`most_bytes` at most, and some 2 seconds of CPU to read 100,000 topics; larger runs are not held, and SQL searches them.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foil.datasets_out.commits.snapshot import Snapshot
from foil.datasets_out.commits.stored_rows import TablePart, read_columns

MOST_BYTES = 1 << 30
"""Texts that are held: those of some 300,000 topics."""

Key = tuple[str, ...]
"""The sha256 of the files that a partition's texts are in."""

_TEXTS = {"topics": ("query",), "intents": ("instruction",), "passages": ("text", "title")}


@dataclass(frozen=True, slots=True)
class _PartitionTexts:
    """The texts of one topic after the other, each closed by a newline; `ends` are the topics' ends in bytes."""

    topic_ids: Sequence[str]
    texts: bytes
    ends: Sequence[int]

    def find(self, words: Sequence[bytes]) -> list[str]:
        """The ids of the topics that have all words."""
        first, *rest = sorted(words, key=len, reverse=True)
        return [self.topic_ids[n] for n in self._having(first) if all(self._has(n, word) for word in rest)]

    def _having(self, word: bytes) -> Iterator[int]:
        place = self.texts.find(word)
        while place >= 0:
            number = bisect_right(self.ends, place)
            yield number
            place = self.texts.find(word, self.ends[number])

    def _has(self, number: int, word: bytes) -> bool:
        start = self.ends[number - 1] if number else 0
        return self.texts.find(word, start, self.ends[number]) >= 0


class TextIndex:
    """Of one run. `update` may run in a thread during `find`."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._partitions: dict[Key, _PartitionTexts] = {}
        self._closed = False

    def update(self, snapshot: Snapshot) -> None:
        """Reads the partitions that are new; holds none where all are too large. Raises CorruptDataError."""
        size = sum(len(part.texts) for part in self._partitions.values())
        parts = zip(*(snapshot.parts(table) for table in _TEXTS), strict=True)
        for key, stored in zip(_keys(snapshot), parts, strict=True):
            if key in self._partitions:
                continue
            part = _read(dict(zip(_TEXTS, stored, strict=True)))
            size += len(part.texts)
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
    pairs = [(table, name) for table, names in _TEXTS.items() for name in names]
    topics = np.concatenate([pc.index_in(tables[table]["topic_id"], topic_ids).to_numpy() for table, _ in pairs])
    texts = pa.chunked_array([chunk for table, name in pairs for chunk in tables[table][name].chunks], pa.string())
    order = np.argsort(topics, kind="stable")
    lines = _closed(pc.utf8_lower(texts.cast(pa.large_string()))).take(order)
    ends = np.cumsum(pc.binary_length(lines).to_numpy())
    last = np.searchsorted(topics[order], np.arange(len(topic_ids)), side="right") - 1
    return _PartitionTexts(topic_ids.to_pylist(), _bytes_of(lines), ends[last].tolist())


def _closed(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """The texts, each with a newline behind."""
    kind = pa.large_string()
    return pc.binary_join_element_wise(texts, pa.scalar("", kind), pa.scalar("\n", kind))


def _bytes_of(texts: pa.ChunkedArray) -> bytes:
    """All of them end to end."""
    if not len(texts):
        return b""
    array = texts.combine_chunks()
    _, offsets, values = array.buffers()
    first, *_, last = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1].tolist()
    return bytes(memoryview(values)[first:last])
