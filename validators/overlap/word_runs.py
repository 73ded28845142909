"""Text as hashes of its words and of its runs of words, many texts at a time: the arithmetic under `ngram_index`.

    texts -> normalised bytes, fenced -> [W] one 64-bit hash a word -> [N, W] one a run of 1..N words

Promise: equal runs of words have equal hashes, in any batch, on any machine. Price: about 4 ns a byte; no loop runs
over words, only over the eight-byte pieces of a word (at most eight) and the N lengths of a run.

What counts as a word: text in NFKC, case-folded; a word is a run of letters and digits, and everything else
(punctuation, marks, space, `_`) only separates. So `Janet's` and `JANET’S` are the same two words. Scripts written
without spaces form one word between two marks of punctuation: there, equality is seen and overlap is not.
"""

import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Positions = NDArray[np.int64]

VERSION = 1
"""Changes when words are cut or hashed otherwise, so that a stored index is never read by other rules."""

_LOWER = bytes(ord(chr(i).lower()) if chr(i).isalnum() else 32 for i in range(128)) + bytes(range(128, 256))
_BREAK = re.compile(r"[^\x00-\x7f\w]+")
_FENCE = b" \x01 "  # no text holds this byte after normalising, so no run of a text crosses it
_MASK = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
_MIX, _STEP, _SALT = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93), np.uint64(0xA0761D6478BD642F)
_HASHED_BYTES = 64  # of a longer word only the start and the length are hashed; who needs to be sure compares
_BATCH_BYTES = 1 << 18  # keeps the per-word arrays in a core's cache


def normalise(text: str) -> bytes:
    """The words of a text in lower case as UTF-8, apart by one or more spaces."""
    if text.isascii():
        return text.encode("ascii").translate(_LOWER)
    folded = unicodedata.normalize("NFKC", text).casefold()
    return _BREAK.sub(" ", folded).encode("utf-8", "surrogatepass").translate(_LOWER)


class WordBatch(NamedTuple):
    """Texts as word hashes, with a fence word after each text."""

    hashes: Hashes  # [W]
    first: Positions  # [T] index of each text's first word
    counts: Positions  # [T] words of each text


def batches(raws: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Normalised texts in lists of about 256 KiB."""
    batch: list[bytes] = []
    size = 0
    for raw in raws:
        batch.append(raw)
        size += len(raw)
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def read_batch(raws: Sequence[bytes]) -> WordBatch:
    """The word hashes of normalised texts, and where each text begins."""
    buffer = b" " + _FENCE.join(raws) + _FENCE + b" " * 8
    inside = np.frombuffer(buffer, np.uint8) != 32
    edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1
    starts = edges[::2]
    offsets = np.cumsum([1, *(len(raw) + len(_FENCE) for raw in raws)])
    first = np.searchsorted(starts, offsets)
    return WordBatch(_hash_words(buffer, starts, edges[1::2] - starts), first[:-1], first[1:] - first[:-1] - 1)


def _hash_words(buffer: bytes, starts: Positions, lengths: Positions) -> Hashes:
    """[W] from each word's length and its first 64 bytes, eight at a time; `buffer` ends with eight spare bytes."""
    eights: Hashes = np.ndarray((len(buffer) - 7,), "<u8", buffer, strides=(1,))
    hashes = _mixed((eights[starts] & _MASK[np.minimum(lengths, 8)]) ^ (lengths.astype(np.uint64) * _SALT))
    longer = np.flatnonzero(lengths > 8)
    for offset in range(8, _HASHED_BYTES, 8):
        if not longer.size:
            break
        rest = lengths[longer] - offset
        hashes[longer] = _mixed(hashes[longer] ^ (eights[starts[longer] + offset] & _MASK[np.minimum(rest, 8)]))
        longer = longer[rest > 8]
    return hashes


def _mixed(values: Hashes) -> Hashes:
    values = values * _MIX
    values ^= values >> np.uint64(32)
    values *= _STEP
    return values


def hash_runs(words: Hashes, width: int, longest: int) -> Hashes:
    """[longest, width]: row n-1 holds the hash of the n words from each of the first `width` words on.

    A run's hash is the sum of its words' hashes, each times the odd number of its place in the run, salted by length.
    `words` beyond `width` are looked ahead at; past their end a run goes on in zeros, and equals no run of a text.
    """
    odds, salts = _constants(longest)
    padded = np.zeros(width + longest, np.uint64)
    ahead = words[: len(padded)]
    padded[: len(ahead)] = ahead
    shifted: Hashes = np.ndarray((longest, width), np.uint64, padded, strides=(8, 8))
    runs = shifted * odds
    for n in range(1, longest):
        np.add(runs[n], runs[n - 1], out=runs[n])
    runs ^= salts
    return runs


@functools.cache
def _constants(longest: int) -> tuple[Hashes, Hashes]:
    """[longest, 1] an odd multiplier for each place in a run, and a salt for each length."""
    lengths = np.arange(1, longest + 1, dtype=np.uint64)[:, None]
    return _STEP**lengths, lengths * _SALT


def ranges(counts: Positions) -> Positions:
    """0..c-1 for each count c, one after the other."""
    ends = counts.cumsum()
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
