"""A map of a run's topics, dropped ones too: like queries lie near each other, and each knows its neighbours.

    topics -> a sample by hash -> vectors of the queries -> two dimensions, areas, nearest
           -> OUT/desk/map-topics-*.parquet

Vectors come from an embedder where one is given, else from hashed words. Two dimensions come from `project` where it is
given (cluster passes t-SNE), else they are the first two principal components.

Promise: the same committed data and the same vectors give the same map; it is computed once and kept with the run,
under the digest of the data. Price: in memory are the sampled texts and their vectors.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from numpy.typing import NDArray

from foil.datasets_out.desk.map_groups import area_names
from foil.datasets_out.desk.sections import Ask
from foil.engine.atomic_files import put_bytes
from foil.engine.storage.store import inside
from foil.engine.visible_text import visible

NEIGHBOURS = 5
_WORD = re.compile(r"\w+")
_WORD_DIMENSIONS = 512
_BLOCK = 1024
_EXCERPT = 160
_CHARACTERS = 1000
_SPREAD = (0.02, 0.98)

Vectors = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Vectors]
Project = Callable[[Vectors], Vectors]

POINTS = """
SELECT topic_id, status = 'accepted' AS accepted, reason, query[:CHARACTERS] AS text
FROM topics ORDER BY md5(topic_id), topic_id LIMIT MOST
"""
SCHEMA = pa.schema(
    [
        ("topic_id", pa.string()),
        ("accepted", pa.bool_()),
        *((name, pa.string()) for name in ("reason", "text", "area")),
        *((name, pa.float32()) for name in ("x", "y")),
        ("neighbours", pa.list_(pa.int32())),
    ]
)


@dataclass(frozen=True, slots=True)
class MapMethod:
    """How texts become points. `name` goes into the file's name; `words` says it to a reader."""

    name: str
    words: str
    embed: Embed | None = None
    project: Project | None = None


WORDS_ONLY = MapMethod("words", "placed by the first two principal components of their queries' words")


def load_map(out: Path, digest: str, ask: Ask, method: MapMethod = WORDS_ONLY, most: int = 1000) -> pa.Table:
    """The points of a run: `x` and `y` from 0 to 1, `neighbours` as row numbers. Computed where it is not kept yet."""
    path = inside(Path(out), Path(out) / "desk" / f"map-topics-{digest[:16]}-{method.name}-{most}.parquet")
    if path.exists():
        return pq.read_table(path, schema=SCHEMA)
    rows = ask(POINTS.replace("MOST", str(most)).replace("CHARACTERS", str(_CHARACTERS)))
    table = map_texts(rows, method)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    put_bytes(path, sink.getvalue().to_pybytes())
    return table


def map_texts(rows: Sequence[Mapping[str, Any]], method: MapMethod = WORDS_ONLY) -> pa.Table:
    """The points of these rows (`topic_id`, `accepted`, `reason`, `text`)."""
    texts = [row["text"] for row in rows]
    if not texts:
        return SCHEMA.empty_table()
    vectors = method.embed(texts) if method.embed else word_vectors(texts)
    flat = method.project(vectors) if method.project and len(texts) > NEIGHBOURS else principal_components(vectors)
    low, high = np.quantile(flat, _SPREAD, axis=0)  # a few odd texts would press all others into a corner
    placed = ((flat - low) / np.where(high > low, high - low, 1)).clip(0, 1)
    columns = {
        **{name: [row[name] for row in rows] for name in ("topic_id", "accepted", "reason")},
        "text": [visible(" ".join(text.split())[:_EXCERPT]) for text in texts],
        "area": area_names(placed, texts),
        "x": placed[:, 0].astype(np.float32),
        "y": placed[:, 1].astype(np.float32),
        "neighbours": list(nearest(vectors)),
    }
    return pa.table(columns, schema=SCHEMA)


def word_vectors(texts: Sequence[str]) -> Vectors:
    """[texts, 512]: unit vectors of words, rare ones heavier, each word at one hashed place with a hashed sign."""
    bags = [set(_WORD.findall(text.lower())) for text in texts]
    counts: dict[str, int] = {}
    for bag in bags:
        for word in bag:
            counts[word] = counts.get(word, 0) + 1
    hashes = {word: xxhash.xxh3_64_intdigest(word.encode(errors="replace")) for word in counts}
    vectors = np.zeros((len(texts), _WORD_DIMENSIONS), np.float32)
    for row, bag in enumerate(bags):
        for word in bag:
            weight = np.log1p(len(texts) / counts[word])
            vectors[row, hashes[word] % _WORD_DIMENSIONS] += weight if hashes[word] >> 63 else -weight
    unit: Vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-9))
    return unit


def principal_components(vectors: Vectors, count: int = 2) -> Vectors:
    """[texts, count]: the first principal components; of each, the largest loading is positive."""
    centred = vectors - vectors.mean(0)
    _, loadings = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    loadings = loadings[:, ::-1][:, :count]
    signs = np.sign(loadings[np.abs(loadings).argmax(0), range(loadings.shape[1])])
    flat: Vectors = (centred @ (loadings * signs)).astype(np.float32)
    return flat


def nearest(vectors: Vectors) -> NDArray[np.int32]:
    """[texts, up to 5]: the rows with the largest cosine to each row, itself left out."""
    count = min(NEIGHBOURS, len(vectors) - 1)
    neighbours = np.empty((len(vectors), count), np.int32)
    for begin in range(0, len(vectors), _BLOCK):
        block = vectors[begin : begin + _BLOCK] @ vectors.T
        block[np.arange(len(block)), np.arange(begin, begin + len(block))] = -np.inf
        neighbours[begin : begin + len(block)] = np.argsort(-block, axis=1, kind="stable")[:, :count]
    return neighbours
