"""Takes the rows of many small partitions together in files that an object store and a scan like: `foil compact`.

    part-00000000 ... part-00000511 of a table -> data/TABLE/pack-SHA -> versions/N+1 names it
    the ids of their records -> versions/ids-SHA, named there too

Promise: the entries, the digest of a snapshot and the rows that a reader sees stay what they are. Each file is held
against its sha256 before it is read, and each partition of a pack is read back and compared before a version names it.
The small files stay until `foil gc`. Price: every row is read twice and written once, its ids once more; a pack is
built in a file of this machine, one partition of a table in memory, and the ids of a pack.
"""

import asyncio
import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import pyarrow as pa

from foil.datasets_out.commits.encoding import RowWriter, read_rows
from foil.datasets_out.commits.entries import CommittedFile
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.schema import RECORD_IDS, TABLES, record_key
from foil.datasets_out.commits.snapshot import Snapshot
from foil.datasets_out.commits.stored_rows import StoredSpan, TablePart
from foil.datasets_out.commits.versions import Pack, PartitionRanges, Version, ids_name, pack_name
from foil.datasets_out.compaction.folding import fold
from foil.engine.crash_points import crash_point
from foil.engine.errors import CorruptDataError
from foil.engine.ids import sha256_hex
from foil.engine.storage import bloom_filter
from foil.engine.storage.lease import hold

TARGET_MB = 128
_PACKS_A_VERSION = 8

Unit = tuple[StoredSpan, ...]
"""Where some partitions that follow each other lie, a file a table: one partition, or a pack."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of the partitions from `first` to `last`, and the units in which they lie."""

    snapshot: Snapshot
    units: Sequence[Unit]
    first: int
    last: int

    def spans(self, table: str) -> tuple[StoredSpan, ...]:
        return tuple(dict(zip(TABLES, unit, strict=True))[table] for unit in self.units)

    def parts(self, table: str) -> Iterator[TablePart]:
        """Where the rows of each partition lie, in order."""
        for span in self.spans(table):
            for partition, part in enumerate(self.snapshot.parts_of(table, span), span.first):
                if self.first <= partition <= self.last:
                    yield part


@dataclass(frozen=True, slots=True)
class Compaction:
    """What came of it: the version that stands, the packs that this call made, and the partitions in all packs."""

    version: int
    packs: int
    packed: int


def compact(log: CommitLog, target_bytes: int = TARGET_MB << 20) -> Compaction:
    """Folds the log, and packs partitions that follow each other until the largest table has `target_bytes`.

    Packs of less than half of that are packed anew with their neighbours. Raises CommitError or OSError if the storage
    fails, CorruptDataError for a file that is not as it was committed.
    """
    version, count = fold(log), 0
    while version and (groups := list(islice(_groups(log, version, target_bytes), _PACKS_A_VERSION))):
        snapshot = _snapshot(log, version)
        packs = [_pack(log, _Rows(snapshot, group, group[0][0].first, group[-1][0].last)) for group in groups]
        crash_point("compact.placed")
        remaining = [old for old in version.packs if not any(new.first <= old.first <= new.last for new in packs)]
        ordered = sorted([*remaining, *packs], key=lambda pack: pack.first)
        count += len(packs) * log.put_version(replace(version, number=version.number + 1, packs=tuple(ordered)))
        crash_point("compact.entered")
        version = log.version()
    return Compaction(version.number, count, len(version.packed)) if version else Compaction(0, 0, 0)


def compact_run(out: Path, target_bytes: int) -> Compaction:
    """`compact` of a run that nobody writes. Raises NoRunError, RunHeldError while a run holds the folder."""
    log = CommitLog(out)
    log.run()  # or there is none
    return asyncio.run(_compact_held(log, target_bytes))


def packs_without(log: CommitLog, version: Version, leaving: PartitionRanges) -> Iterator[Pack]:
    """The packs of a version without these partitions: of one that holds some, the others' rows are packed anew."""
    snapshot = _snapshot(log, version)
    for pack in version.packs:
        whole = PartitionRanges([(pack.first, pack.last)])
        remaining = whole.without(leaving)
        if len(remaining) == len(whole):
            yield pack
            continue
        unit = tuple(StoredSpan(pack.first, pack.last, pack.files[table]) for table in TABLES)
        yield from (_pack(log, _Rows(snapshot, [unit], first, last)) for first, last in remaining.pairs)


async def _compact_held(log: CommitLog, target_bytes: int) -> Compaction:
    async with hold(log.store, takeover=False) as lease:
        keeping = asyncio.create_task(lease.keep(_ignore))
        try:
            return await asyncio.to_thread(compact, log, target_bytes)
        finally:
            keeping.cancel()


def _ignore(_error: BaseException) -> None:
    """Another took the folder: no harm, since whoever puts a version second goes on from the first one's."""


def _groups(log: CommitLog, version: Version, target_bytes: int) -> Iterator[list[Unit]]:
    """The units of each pack that is to be made."""
    group: list[Unit] = []
    size = 0
    for unit in zip(*map(_snapshot(log, version).spans, TABLES), strict=True):
        largest = max(span.file.bytes for span in unit)
        full = unit[0].first != unit[0].last and largest >= target_bytes // 2
        if group and (full or size + largest > target_bytes or group[-1][0].last + 1 != unit[0].first):
            if len(group) > 1:
                yield group
            group, size = [], 0
        if not full:
            group.append(unit)
            size += largest
    if len(group) > 1:
        yield group


def _snapshot(log: CommitLog, version: Version) -> Snapshot:
    return Snapshot(log.out, "", dict.fromkeys(TABLES, ()), version)


def _pack(log: CommitLog, rows: _Rows) -> Pack:
    """Writes and puts a file a table."""
    files = {table: _pack_table(log, table, rows) for table in TABLES}
    return Pack(rows.first, rows.last, files, _put_ids(log, rows))


def _put_ids(log: CommitLog, rows: _Rows) -> CommittedFile:
    """Puts the filter of the ids of all records."""
    keys: set[str] = set()
    for _, table, column in RECORD_IDS:
        for part in rows.parts(table):
            ids = part.read([column], checked=True)[column].unique().to_pylist()
            keys.update(map(record_key, ids))
    blob = bloom_filter.encode(keys)
    file = CommittedFile(ids_name(sha256_hex(blob)), len(keys), len(blob), sha256_hex(blob))
    log.files.put_content(file.path, blob)
    return file


def _pack_table(log: CommitLog, table: str, rows: _Rows) -> CommittedFile:
    for span in rows.spans(table):
        if fault := log.files.find_fault(span.file):
            raise CorruptDataError(f"{log.out / span.file.path} is {fault}; `foil verify` names all that is damaged")
    with tempfile.TemporaryDirectory(prefix="pack-", dir=log.files.scratch()) as folder:
        path = Path(folder) / f"{table}.parquet"
        with RowWriter(path, TABLES[table]) as writer:
            for part in rows.parts(table):
                writer.write(_rows(table, part))
        _compare(log, table, rows.parts(table), path)
        with path.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        file = CommittedFile(pack_name(table, sha256), writer.rows, path.stat().st_size, sha256)
        log.files.put_file(file.path, path)
    return file


def _rows(table: str, part: TablePart) -> pa.Table:
    return part.read(checked=True).select(TABLES[table].names).cast(TABLES[table])


def _compare(log: CommitLog, table: str, parts: Iterator[TablePart], pack: Path) -> None:
    """Reads each partition from the pack, and from where it lay."""
    start = 0
    for part in parts:
        rows = _rows(table, part)
        if not read_rows(pack, start, rows.num_rows, checked=True).equals(rows):
            raise CorruptDataError(
                f"{part.locate()} does not read from its pack as it was written; no row of {log.out} changed"
            )
        start += rows.num_rows
