"""A digest of every topic of a partition: its id, its outcome, its instructions and its judgments as 64 bits each.

    tables of a partition -> columns of ids and labels -> hashes of rows -> their sum by topic

Two topics are taken for equal where their digests are. Intents and passages have ids that follow from their texts, so
no text is read. By chance, one pair of different topics in 10^13 is taken for equal.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_DIGESTED = {
    "topics": ("status", "reason"),
    "intents": ("intent_id", "role"),
    "judgments": ("intent_id", "passage_id", "relevance", "judge"),
}
_WORD = 8
_SHIFTS_AND_FACTORS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_FACTOR = np.uint64(0xD1342543DE82EF95)
_START = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class TopicDigests:
    """Arrays of one row a topic."""

    topics: Hashes
    outcomes: Hashes
    intents: Hashes
    judgments: Hashes

    def take(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> "TopicDigests":
        """Some of them."""
        return TopicDigests(*(getattr(self, field.name)[rows] for field in fields(self)))


def digest_topics(tables: Mapping[str, pa.Table]) -> TopicDigests:
    """The digests of a partition's topics, in their order. Of a table without rows every digest is 0."""
    hashes = {
        table: [hash_column(tables[table][name]) for name in ("topic_id", *columns)]
        for table, columns in _DIGESTED.items()
    }
    topics, *outcomes = hashes["topics"]
    order = np.argsort(topics)
    intents, judgments = (
        _sums(topics, order, owners, rest) for owners, *rest in (hashes["intents"], hashes["judgments"])
    )
    return TopicDigests(topics, _combined(outcomes), intents, judgments)


def join_digests(parts: Sequence[TopicDigests]) -> TopicDigests:
    """The digests of several partitions in a row."""
    names = [field.name for field in fields(TopicDigests)]
    none = np.empty(0, np.uint64)
    return TopicDigests(*(np.concatenate([none, *(getattr(part, name) for part in parts)]) for name in names))


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


def holds(column: pa.ChunkedArray, hashes: Hashes) -> NDArray[np.bool_]:
    """Of each value of an encoded column whether its hash is among these, which are sorted and some."""
    chunks = [np.empty(0, bool)]
    for chunk in column.chunks:
        of_texts = _hash_texts(chunk.dictionary)
        places = np.minimum(np.searchsorted(hashes, of_texts), len(hashes) - 1)
        chunks.append((hashes[places] == of_texts)[chunk.indices.to_numpy(zero_copy_only=False)])
    return np.concatenate(chunks)


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
