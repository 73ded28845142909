"""The shingles of the texts kept, in a file that is only appended to, and read where two texts are compared in full.

    shingles of a text -> sorted 32-bit hashes, each once -> appended -> read again for a candidate -> exact Jaccard

Promise: memory does not grow with the texts, but for 8 bytes each. The file has no name, and is gone with the process.
Two texts of 100 words have one shingle counted wrong in one of 500,000 pairs. Price: 4 bytes a word in the folder of
temporary files (`TMPDIR`); a read a comparison.
"""

import os
import tempfile
from array import array
from typing import IO

import numpy as np

from foil.engine.errors import SpoolError
from foil.validators.overlap.word_runs import Hashes

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
    """Packed shingles by number, from 0. The file is made with the first of them."""

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
