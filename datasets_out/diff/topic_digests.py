"""A digest of every topic of a snapshot: its id, its outcome, its instructions and its judgments as 64 bits each.

    files of a partition -> columns of ids and labels -> hashes of rows -> their sum by topic

Two topics are taken for equal where their digests are. Intents and passages have ids that follow from their texts, so
no text is read. Price: some four seconds of CPU and 40 MB for a million topics; by chance, one pair of different topics
in 10^13 is taken for equal.
"""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from datasets_out.commits.snapshot import Snapshot
from datasets_out.commits.stored_rows import TablePart
from engine.errors import CorruptDataError

Hashes = NDArray[np.uint64]
PartitionDigests = tuple[Hashes, Hashes, Hashes, Hashes]
KnownPartitions = dict[tuple[str, ...], PartitionDigests]

_COLUMNS = {
    "topics": ("topic_id", "status", "reason"),
    "intents": ("topic_id", "intent_id", "role"),
    "judgments": ("topic_id", "intent_id", "passage_id", "relevance", "judge"),
}
_WORD = 8
_SHIFTS_AND_FACTORS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_FACTOR = np.uint64(0xD1342543DE82EF95)
_START = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class TopicDigests:
    """Arrays of one row a topic, in the order of partitions. `place` is the number of the topic's file."""

    topics: Hashes
    outcomes: Hashes
    intents: Hashes
    judgments: Hashes
    place: NDArray[np.int32]


def digest_topics(snapshot: Snapshot, known: KnownPartitions) -> TopicDigests:
    """The digests of all topics. Raises CorruptDataError for a file that is missing or damaged.

    `known` takes the digests of each partition by its files' sha256: files that an earlier run has are not read again.
    """
    stored = list(zip(*(snapshot.parts(table) for table in _COLUMNS), strict=True))
    contents = zip(*([file.sha256 for file in snapshot.committed_files(table)] for table in _COLUMNS), strict=True)
    keys = list(contents)
    new = {key: parts for key, parts in zip(keys, stored, strict=True) if key not in known}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        known.update(zip(new, pool.map(_digest_partition, new.values()), strict=True))
    parts = [known[key] for key in keys]
    topics, outcomes, intents, judgments = (
        np.concatenate([np.empty(0, np.uint64), *(part[column] for part in parts)]) for column in range(4)
    )
    place = np.repeat(np.arange(len(parts), dtype=np.int32), [len(topics) for topics, *_ in parts])
    return TopicDigests(topics, outcomes, intents, judgments, place)


def read_columns(part: TablePart, columns: Sequence[str], dictionaries: Sequence[str] = ()) -> pa.Table:
    """Columns of a partition, each page checked; those in `dictionaries` encoded. Raises CorruptDataError."""
    try:
        return part.read(columns, checked=True, dictionaries=dictionaries)
    except (pa.ArrowException, OSError) as error:
        raise CorruptDataError(f"{part.path}: {error}; `foil verify` names the damaged files") from error


def _digest_partition(parts: Sequence[TablePart]) -> PartitionDigests:
    tables = [
        read_columns(part, columns, [name for name in columns if name != "relevance"])
        for part, columns in zip(parts, _COLUMNS.values(), strict=True)
    ]
    hashes = [[hash_column(table[name]) for name in table.column_names] for table in tables]
    (topics, *outcome), *children = hashes
    order = np.argsort(topics)
    return (topics, _combined(outcome), *(_sums(topics, order, owners, rest) for owners, *rest in children))  # type: ignore[return-value]


def _sums(topics: Hashes, order: NDArray[np.int64], owners: Hashes, columns: Sequence[Hashes]) -> Hashes:
    """For each topic the sum of its rows' hashes, which does not depend on their order."""
    sums = np.zeros(len(topics), np.uint64)
    if len(owners):
        starts = np.flatnonzero(np.concatenate([[True], owners[1:] != owners[:-1]]))
        runs = np.add.reduceat(_combined(columns), starts)
        np.add.at(sums, order[np.searchsorted(topics, owners[starts], sorter=order)], runs)
    return sums


def _combined(columns: Sequence[Hashes]) -> Hashes:
    """One hash a row; which column a value stands in matters."""
    total = np.full(len(columns[0]), _START)
    for column in columns:
        total = total * _FACTOR + column
    return _mixed(total)


def hash_column(column: pa.ChunkedArray) -> Hashes:
    """A hash of each value, the same for equal values in every file."""
    chunks = [_hash_chunk(chunk) for chunk in column.chunks]
    return np.concatenate([np.empty(0, np.uint64), *chunks])


def _hash_chunk(chunk: pa.Array) -> Hashes:
    if isinstance(chunk, pa.DictionaryArray):
        hashes: Hashes = _hash_texts(chunk.dictionary)[chunk.indices.to_numpy(zero_copy_only=False)]
        return hashes
    return _mixed(chunk.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64) + _START)


def _hash_texts(texts: pa.Array) -> Hashes:
    """Ids are 24 digits: three words of memory each. Other texts are few, and hashed one by one."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    lengths = np.diff(offsets)
    if not len(texts):
        return np.empty(0, np.uint64)
    if lengths.min() == lengths.max() and lengths[0] and lengths[0] % _WORD == 0:
        size = int(lengths[0])
        data = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
        return _combined(np.ascontiguousarray(data.reshape(len(texts), size)).view("<u8").astype(np.uint64).T)  # type: ignore[arg-type]
    return np.array([_hash_text(text) for text in texts.to_pylist()], np.uint64)


def _hash_text(text: str) -> int:
    raw = text.encode()
    if raw and len(raw) % _WORD == 0:
        words = np.frombuffer(raw, "<u8").astype(np.uint64)
        return int(_combined([words[place : place + 1] for place in range(len(words))])[0])
    return int.from_bytes(hashlib.blake2b(raw, digest_size=_WORD).digest(), "little")


def _mixed(values: Hashes) -> Hashes:
    """A bijection of 64 bits in which every bit reaches every other (the finaliser of SplitMix64)."""
    for shift, factor in _SHIFTS_AND_FACTORS:
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return values ^ (values >> np.uint64(31))
