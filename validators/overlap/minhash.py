"""MinHash sketches of texts, and a compact store that finds the earlier text most like a new one.

    words -> shingles of 3 words -> 96 minima, one byte each -> 12 bands of 8 bytes -> hash tables -> candidates
          -> estimates -> the likeliest of them -> compared by all shingles (`ShingleFile`)

The share of equal bytes estimates the Jaccard similarity of the shingle sets (Broder 1997), less what one byte repeats
by chance, 1/256. Two texts are candidates when the first 5 bytes of a band are equal (banding: Leskovec, Rajaraman and
Ullman, Mining of Massive Datasets, section 3.4): a pair of similarity 0.8 is missed once in 120, of 0.9 once in 14,000.
An estimate errs by 0.04 at 0.8; one up to three such errors too low is compared all the same.

Promise: a match has the similarity that it tells. Deterministic for a given random seed and order; equal word sequences
always match. Price: about 0.1 ms for 100 words, and 112 bytes of sketch and 13 table slots of 4 bytes, at most 70 %
full, for each text kept; at most 4 texts are compared by their shingles.
"""

import os
import tempfile
from array import array
from math import sqrt
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foil.engine.errors import SpoolError
from foil.engine.ids import sha256_hex
from foil.validators.overlap.word_runs import Hashes, Positions, hash_runs, normalise, read_batch

SHINGLE_WORDS = 3
_BANDS, _ROWS = 12, 8
_COLUMNS = np.arange(_BANDS + 1)  # one a band, and the last for the exact text
_KEYS = np.array([(1 << 40) - 1] * _BANDS + [(1 << 64) - 1], np.uint64)  # the bits of each column that must be equal
_MIX = np.uint64(0x9E3779B97F4A7C15)
_BLOCK = 1 << 12  # shingles hashed at a time
_SAME_KEY = 8  # texts remembered under one key of a band; where more share it, it is boilerplate
_EMPTY = -1
_FULL = 0.7
_MARGIN_ERRORS = 3.0  # standard errors of an estimate below the least similarity
_COMPARED = 4  # texts compared by their shingles with one new text, the likeliest


class TextSketch(NamedTuple):
    """What is kept of a text. `keys` [13]: 96 bytes of minima as 12 numbers, then a hash of all the words."""

    keys: Hashes
    shingles: bytes


class Match(NamedTuple):
    """The text kept as number `number` is this similar; `exact`: it has the same words in the same order."""

    number: int
    similarity: float
    exact: bool


class Sketcher:
    """Texts to sketches; equal `random_seed`, equal sketches."""

    def __init__(self, random_seed: int) -> None:
        numbers = np.random.default_rng(random_seed).integers(0, 1 << 63, (_BANDS * _ROWS, 1), np.uint64)
        self._multipliers: Hashes = numbers * np.uint64(2) + np.uint64(1)

    def __call__(self, text: str) -> TextSketch | None:
        """The sketch; None for a text without words."""
        raw = normalise(text)
        batch = read_batch([raw])
        words = int(batch.counts[0])
        if not words:
            return None
        row = min(SHINGLE_WORDS, words)
        shingles = hash_runs(batch.hashes[:words], words - row + 1, SHINGLE_WORDS)[row - 1]
        minima = np.full(_BANDS * _ROWS, (1 << 64) - 1, np.uint64)
        for begin in range(0, len(shingles), _BLOCK):
            np.minimum(minima, (self._multipliers * shingles[begin : begin + _BLOCK]).min(axis=1), out=minima)
        keys = np.empty(_BANDS + 1, "<u8")
        keys.view(np.uint8)[: _BANDS * _ROWS] = minima >> np.uint64(24)
        keys[-1] = int(sha256_hex(b" ".join(raw.split()))[:16], 16)
        return TextSketch(keys, pack_shingles(shingles))


def estimate_similarities(keys: Hashes, candidates: Hashes) -> NDArray[np.float64]:
    """[M]: the estimated Jaccard similarity of the shingle set of `keys` to `candidates` [M, 13], in [0, 1]."""
    columns = np.ascontiguousarray(candidates[:, :_BANDS]).view(np.uint8)
    equal = np.mean(columns == keys[:_BANDS].view(np.uint8), axis=1)
    estimated: NDArray[np.float64] = np.maximum(0.0, (equal - 1 / 256) / (1 - 1 / 256))
    return estimated


class SketchStore:
    """The sketches of the texts kept so far, numbered from 0, under open addressing with one table a column."""

    def __init__(self) -> None:
        self._size = 0
        self._keys = np.empty((1 << 10, len(_COLUMNS)), "<u8")
        self._tables = np.full((len(_COLUMNS), 1 << 11), _EMPTY, np.int32)
        self._shingles = ShingleFile()

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self._keys.nbytes + self._tables.nbytes + self._shingles.nbytes

    def match_or_add(self, sketch: TextSketch, least: float) -> Match | None:
        """The kept text most like this one, if their similarity is at least `least`; else keeps this one.

        Raises SpoolError.
        """
        match = self.match(sketch, least)
        if match is None:
            self.add(sketch)
        return match

    def match(self, sketch: TextSketch, least: float) -> Match | None:
        """The kept text most like this one, if their similarity is at least `least`. Raises SpoolError."""
        candidates, _, _ = self._probe(sketch.keys)
        matches = self._compare(sorted(set(candidates)), sketch, least) if candidates else []
        return max(matches, key=lambda match: (match.similarity, -match.number), default=None)

    def add(self, sketch: TextSketch) -> None:
        """Keeps this text. Raises SpoolError."""
        _, slots, same_key = self._probe(sketch.keys)
        self._shingles.append(sketch.shingles)
        self._add(sketch.keys, slots, same_key < _SAME_KEY)

    def _compare(self, numbers: list[int], sketch: TextSketch, least: float) -> list[Match]:
        """The likeliest of them that are as similar by their shingles; the exact repeat alone if there is one."""
        candidates = self._keys[numbers]
        exact = candidates[:, -1] == sketch.keys[-1]
        likely = estimate_similarities(sketch.keys, candidates) + exact
        rows = np.argsort(-likely, kind="stable")[: 1 if exact.any() else _COMPARED]
        enough = least - _MARGIN_ERRORS * sqrt(least * (1 - least) / (_BANDS * _ROWS))
        matches = [
            Match(numbers[row], jaccard(sketch.shingles, self._shingles.read(numbers[row])), bool(exact[row]))
            for row in rows
            if likely[row] >= enough
        ]
        return [match for match in matches if match.similarity >= least]

    def _probe(self, keys: Hashes) -> tuple[list[int], Positions, Positions]:
        """The texts that share a key with these; a column's empty slot after them, and how many they are there."""
        keys = keys & _KEYS
        slots = self._slots(keys)
        same_key = np.zeros(len(_COLUMNS), np.int64)
        candidates: list[int] = []
        columns = _COLUMNS
        while True:
            numbers = self._tables[columns, slots[columns]]
            full = numbers != _EMPTY
            columns, numbers = columns[full], numbers[full]
            if not columns.size:
                return candidates, slots, same_key
            same = (self._keys[numbers, columns] & _KEYS[columns]) == keys[columns]
            same_key[columns] += same
            candidates += numbers[same].tolist()
            slots[columns] = (slots[columns] + 1) % self._tables.shape[1]

    def _slots(self, keys: Hashes) -> Positions:
        return ((keys * _MIX) >> np.uint64(65 - self._tables.shape[1].bit_length())).astype(np.int64)

    def _add(self, keys: Hashes, slots: Positions, remembered: NDArray[np.bool_]) -> None:
        if self._size == len(self._keys):
            self._keys.resize((self._size + self._size // 4, len(_COLUMNS)), refcheck=False)
        self._keys[self._size] = keys
        self._tables[_COLUMNS[remembered], slots[remembered]] = self._size
        self._size += 1
        if self._size > _FULL * self._tables.shape[1]:
            self._grow()

    def _grow(self) -> None:
        """Doubles the slots, a column at a time. Texts that were not remembered stay so."""
        old = self._tables
        self._tables = np.full((old.shape[0], 2 * old.shape[1]), _EMPTY, np.int32)
        for column in _COLUMNS:
            table = self._tables[column]
            numbers = np.sort(old[column][old[column] != _EMPTY])
            slots = self._slots(self._keys[numbers, column] & _KEYS[column])
            while numbers.size:
                free = table[slots] == _EMPTY
                table[slots[free]] = numbers[free]
                waiting = table[slots] != numbers
                numbers, slots = numbers[waiting], (slots[waiting] + 1) % len(table)


_BUFFER_BYTES = 1 << 18


def pack_shingles(hashes: Hashes) -> bytes:
    """The upper halves of 64-bit hashes, sorted, each once."""
    ordered = np.sort((hashes >> np.uint64(32)).astype("<u4"))
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    packed: bytes = ordered[first].tobytes()
    return packed


def jaccard(first: bytes, second: bytes) -> float:
    """The Jaccard similarity of two sets of packed shingles, neither of them empty."""
    both = np.sort(np.frombuffer(first + second, "<u4"))
    shared = int(np.count_nonzero(both[1:] == both[:-1]))
    return shared / (len(both) - shared)


class ShingleFile:
    """Packed shingles by number, from 0, in a file that is only appended to, for an exact comparison of two texts.

    The shingles of a text are sorted 32-bit hashes, each once. The file is made with the first of them, has no name,
    and is gone with the process.

    Promise: memory does not grow with the texts, but for 8 bytes each. Two texts of 100 words have one shingle counted
    wrong in one of 500,000 pairs. Price: 4 bytes a word in the folder of temporary files (`TMPDIR`); a read a
    comparison.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._ends = array("Q", [0])

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._ends.itemsize * len(self._ends)

    def append(self, shingles: bytes) -> None:
        """Keeps them under the next number. Raises SpoolError."""
        try:
            self._opened().write(shingles)
        except OSError as error:
            raise _error(error) from None
        self._ends.append(self._ends[-1] + len(shingles))

    def read(self, number: int) -> bytes:
        """Those of this number. Raises SpoolError."""
        begin, end = self._ends[number], self._ends[number + 1]
        try:
            file = self._opened()
            file.flush()
            shingles = os.pread(file.fileno(), end - begin, begin)
        except OSError as error:
            raise _error(error) from None
        if len(shingles) < end - begin:
            raise _error(f"{len(shingles)} of {end - begin} bytes at {begin} are there")
        return shingles

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=_BUFFER_BYTES)  # noqa: SIM115 - open as long as the screen is
        return self._file


def _error(cause: OSError | str) -> SpoolError:
    return SpoolError(
        f"what near-duplicates are compared by cannot be kept among the temporary files ({cause}); nothing is lost: "
        "make room there, or set TMPDIR to a folder with 4 bytes for each word of the corpus, and run again"
    )
