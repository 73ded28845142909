"""Frees what a run needs no more: unfinished files, orphans, and the journals of partitions committed long ago.

Promise: nothing that a commit entry or a snapshot names is touched, nothing of a partition that is still to be made,
and nothing while a run holds the folder: the lease is taken first. Price: the replies in a journal are gone for
`--reuse`; those of the topics stand in the table `calls`.
"""

import asyncio
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from datasets_out.commits.log import CommitLog
from datasets_out.commits.schema import TABLES
from datasets_out.commits.snapshot import load_snapshot, snapshot_names
from engine.flow.journal_reading import undamaged_segments
from engine.lease import hold
from engine.storage.opening import open_store

_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Garbage:
    """What may go: a file, or the folder of a journal of an earlier version. `kind`: `staging`, `orphan`, `journal`."""

    kind: str
    path: Path
    bytes: int


def collect(out: Path, journal_days: float, *, dry_run: bool) -> list[Garbage]:
    """Finds what may go and, unless it is a dry run, removes it.

    Raises NoRunError, RunHeldError while a run holds the folder, CorruptDataError where an entry or snapshot does not
    read: then nothing is known to be free.
    """
    CommitLog(out).run()
    return asyncio.run(_collect(out, journal_days, dry_run=dry_run))


async def _collect(out: Path, journal_days: float, *, dry_run: bool) -> list[Garbage]:
    async with hold(out, takeover=False) as lease:
        found = [*_loose_files(out), *_old_journals(out, journal_days)]
        for garbage in () if dry_run else found:
            await lease.check()
            _remove(out, garbage)
        return found


def _loose_files(out: Path) -> Iterator[Garbage]:
    log = CommitLog(out)
    named = {file.path for entry in log.entries() for file in entry.files.values()}
    for name in snapshot_names(out):
        contents = load_snapshot(out, name).contents
        named |= {file.path for files in contents.values() for file in files}
    for folder in ("staging", "orphans", *(f"data/{table}" for table in TABLES)):
        for path in sorted((out / folder).glob("*")):
            if path.relative_to(out).as_posix() not in named and path.is_file():
                yield Garbage("staging" if folder == "staging" else "orphan", path, path.stat().st_size)


def _old_journals(out: Path, days: float) -> Iterator[Garbage]:
    committed = set(CommitLog(out).partitions())
    for folder in sorted((out / "journal").glob("[0-9]" * 8)):
        if int(folder.name) in committed:
            stats = [path.stat() for path in folder.rglob("*") if path.is_file()]
            if time.time() - max((each.st_mtime for each in stats), default=0.0) >= days * _DAY_S:
                yield Garbage("journal", folder, sum(each.st_size for each in stats))
    for segment in undamaged_segments(open_store(out)):
        if committed.issuperset(segment.partitions) and time.time() - segment.modified >= days * _DAY_S:
            yield Garbage("journal", out / segment.key, segment.bytes)


def _remove(out: Path, garbage: Garbage) -> None:
    path = garbage.path
    if path.is_dir():
        shutil.rmtree(path)
    elif garbage.kind == "journal":
        open_store(out).delete([path.relative_to(out).as_posix()])
    else:
        path.unlink(missing_ok=True)
