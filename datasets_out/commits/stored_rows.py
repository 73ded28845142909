"""Where the rows of a table lie: a file of one partition, or a pack of many, in a folder or in a bucket."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from foil.datasets_out.commits.encoding import read_rows
from foil.datasets_out.commits.entries import CommittedFile
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.run_files import FETCHES
from foil.engine.errors import CorruptDataError

_AHEAD = 8
"""Partitions whose files are fetched while one is read."""


@dataclass(frozen=True, slots=True)
class StoredSpan:
    """The file with the rows of the partitions from `first` to `last`."""

    first: int
    last: int
    file: CommittedFile


@dataclass(frozen=True, slots=True)
class TablePart:
    """The rows of one partition and table of the run `out`: `rows` of a file from `start` on, or all of it (None)."""

    out: Path
    file: CommittedFile
    start: int = 0
    rows: int | None = None

    def locate(self) -> Path:
        """Where the file lies on this machine; of a bucket's, its copy, fetched if there is none. Raises as the log."""
        return _log_of(self.out).files.locate(self.file)

    def read(
        self, columns: Sequence[str] | None = None, *, checked: bool = False, dictionaries: Sequence[str] = ()
    ) -> pa.Table:
        """Its rows. `checked`: each page against its checksum; `dictionaries`: columns that stay encoded.

        No other row group of a pack is read: one begins with each partition. Raises what pyarrow and the log raise.
        """
        return read_rows(self.locate(), self.start, self.rows, columns, checked=checked, dictionaries=dictionaries)


def fetched_ahead(partitions: Iterable[tuple[TablePart, ...]]) -> Iterator[tuple[TablePart, ...]]:
    """The same partitions; while one is read, the files of the next ones are fetched from their bucket."""
    waiting: deque[tuple[tuple[TablePart, ...], list[Future[Path]]]] = deque()
    with ThreadPoolExecutor(FETCHES) as threads:
        for parts in partitions:
            waiting.append((parts, [threads.submit(part.locate) for part in parts]))
            if len(waiting) > _AHEAD:
                yield _fetched(*waiting.popleft())
        while waiting:
            yield _fetched(*waiting.popleft())


def _fetched(parts: tuple[TablePart, ...], files: Iterable[Future[Path]]) -> tuple[TablePart, ...]:
    for file in files:
        file.result()
    return parts


@lru_cache(maxsize=16)
def _log_of(out: Path) -> CommitLog:
    """One log a run, for what it remembers of folders."""
    return CommitLog(out)


def read_columns(part: TablePart, columns: Sequence[str], dictionaries: Sequence[str] = ()) -> pa.Table:
    """Columns of a partition, each page checked; those in `dictionaries` encoded. Raises CorruptDataError."""
    try:
        return part.read(columns, checked=True, dictionaries=dictionaries)
    except (pa.ArrowException, OSError) as error:
        raise CorruptDataError(
            f"{part.out / part.file.path}: {error}; `foil verify` names the damaged files"
        ) from error
