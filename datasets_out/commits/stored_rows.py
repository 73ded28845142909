"""Where the rows of a table lie: a file of one partition, or a pack of many."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from datasets_out.commits.entries import CommittedFile
from datasets_out.commits.versions import StoredFile


@dataclass(frozen=True, slots=True)
class StoredSpan:
    """The file with the rows of the partitions from `first` to `last`."""

    first: int
    last: int
    file: CommittedFile | StoredFile


@dataclass(frozen=True, slots=True)
class TablePart:
    """The rows of one partition and table: `rows` of a file from the row `start` on, or all of it (None)."""

    path: Path
    start: int = 0
    rows: int | None = None

    def read(
        self, columns: Sequence[str] | None = None, *, checked: bool = False, dictionaries: Sequence[str] = ()
    ) -> pa.Table:
        """Its rows. `checked`: each page against its checksum; `dictionaries`: columns that stay encoded.

        No other row group of a pack is read: one begins with each partition. Raises what pyarrow raises.
        """
        wanted, options = list(columns) if columns is not None else None, {"page_checksum_verification": checked}
        with pq.ParquetFile(self.path, read_dictionary=list(dictionaries), **options) as file:
            if self.rows is None:
                return file.read(columns=wanted, use_threads=False)
            ends = accumulate(file.metadata.row_group(i).num_rows for i in range(file.num_row_groups))
            last = self.start + self.rows
            groups = [i for i, end in enumerate(ends) if self.start < end <= last]
            return file.read_row_groups(groups, columns=wanted, use_threads=False)
