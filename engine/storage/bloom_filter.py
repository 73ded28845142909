"""Whether a text may be among many, from 64 bytes of a file: a Bloom filter in blocks (Putze, Sanders, Singler 2007).

    texts -> blocks of 480 bits and their CRC-32; a text sets 7 bits of the block that its hash names

Promise: a text of the set is always found, and a changed block is not taken for one that excludes a text. Price:
16 bits a text; of other texts about one in a thousand is found too.
"""

import hashlib
import math
import zlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

BLOCK_BYTES = 64
_CRC_BYTES = 4
_BITS = 8 * (BLOCK_BYTES - _CRC_BYTES)
_BITS_A_TEXT = 16
_SHIFTS = np.arange(0, 63, 9, dtype=np.uint64)
"""Of a hash of 64 bits, to the 9 bits that name each of the bits that a text sets."""


def encode(texts: Iterable[str]) -> bytes:
    """The filter of these texts; equal sets give equal bytes."""
    chosen = set(texts)
    hashes = np.array([_hashes(text) for text in chosen], np.uint64).reshape(-1, 2)
    blocks = max(1, math.ceil(len(chosen) * _BITS_A_TEXT / _BITS))
    bits = np.zeros((blocks, _BITS), np.uint8)
    bits[hashes[:, :1] % blocks, _places(hashes[:, 1:])] = 1
    bodies = np.packbits(bits, axis=1, bitorder="little")
    return b"".join(body + _crc(body) for body in map(bytes, bodies))


def offset(text: str, nbytes: int) -> int:
    """Where the text's block begins in a filter of so many bytes."""
    return _hashes(text)[0] % (nbytes // BLOCK_BYTES) * BLOCK_BYTES


def may_hold(block: bytes, text: str) -> bool:
    """Whether the text may be in the set, by its block. Raises ValueError where the block is not as it was written."""
    body, crc = block[:-_CRC_BYTES], block[-_CRC_BYTES:]
    if len(block) != BLOCK_BYTES or crc != _crc(body):
        raise ValueError(f"its {len(block)} bytes do not have their CRC")
    bits = np.unpackbits(np.frombuffer(body, np.uint8), bitorder="little")
    return bool(bits[_places(np.array(_hashes(text)[1], np.uint64))].all())


def _places(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The bits that texts set in their blocks, from the second half of their hashes: (N, 1) -> (N, 7)."""
    return (hashes >> _SHIFTS) % 512 % _BITS


def _hashes(text: str) -> tuple[int, int]:
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


def _crc(body: bytes) -> bytes:
    return zlib.crc32(body).to_bytes(_CRC_BYTES, "little")
