"""Vectors on disk, a file a block of texts, so that an evaluation that was stopped or repeated encodes nothing again.

    FOLDER/<digest of the encoder>/<digest of the block's texts>.npy    float32, [texts, D] or [texts, T, D]

The digest of an encoder covers its weights, template and lengths. A block's vectors follow from the block alone, so
a resumed evaluation has the numbers of an undisturbed one. Price: 4 D bytes a text (1.5 kB for 384 numbers); of token
vectors as much for every token of the block's longest text.
"""

import io
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foil.engine.atomic_files import put_bytes
from foil.engine.errors import TrainingDivergedError
from foil.engine.ids import canonical_json, sha256_hex

LOG = logging.getLogger(__name__)
Floats = NDArray[np.float32]


class VectorCache:
    """The blocks of one encoder; `encoded` counts the texts that it did not hold. Without a folder it holds none."""

    def __init__(self, folder: Path | None, encoder_digest: str) -> None:
        self._folder = folder / encoder_digest[:32] if folder else None
        self.encoded = 0

    def vectors(self, texts: Sequence[Sequence[str]], encode: Callable[[], Floats]) -> Floats:
        """The vectors of these texts, [texts, ...], from the disk or by `encode()`; mapped into memory."""
        path = self._folder / f"{sha256_hex(canonical_json(texts))[:32]}.npy" if self._folder else None
        cached = _read(path, len(texts)) if path else None
        if cached is not None:
            return cached
        vectors = np.ascontiguousarray(encode(), dtype=np.float32)
        if not np.isfinite(vectors).all():
            raise TrainingDivergedError("the model has vectors that are not finite numbers; take another model")
        if path:
            buffer = io.BytesIO()
            np.save(buffer, vectors)
            put_bytes(path, buffer.getvalue(), durable=False)
        self.encoded += len(texts)
        return vectors


def _read(path: Path, count: int) -> Floats | None:
    """A block that was saved; None where there is none, or a damaged one, which is then written anew."""
    try:
        vectors: Floats = np.load(path, mmap_mode="r")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, EOFError) as error:
        LOG.warning("%s does not read (%s) and is encoded again", path, error)
        return None
    return vectors if vectors.ndim >= 2 and len(vectors) == count else None
