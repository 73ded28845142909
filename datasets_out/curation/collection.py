"""Frees what a run needs no more: unfinished files, orphans, and the journals of partitions committed long ago.

Promise: nothing that a commit entry or a snapshot names is touched, nothing of a partition that is still to be made,
and nothing while a run holds the folder: the lease is taken first. Replies that no seed asked for go once the run has
all it planned. Price: of the replies in a journal `--reuse` then has what stands in the table `calls`: one choice of
each, without logprobs.
"""

import asyncio
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.schema import TABLES
from foil.datasets_out.commits.snapshot import load_snapshot, snapshot_names
from foil.datasets_out.commits.versions import FOLDER, PACK_NAME, VERSION_NAME
from foil.engine.flow.journal_reading import undamaged_segments
from foil.engine.flow.journal_records import NO_PARTITION
from foil.engine.storage.lease import hold
from foil.engine.storage.opening import open_store
from foil.engine.storage.store import DRAFTS, inside

_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Garbage:
    """What may go: a file.

    `kind`: `staging`, `orphan`, `journal`; `packed` (its rows lie in a pack), `version` (a manifest or a pack that
    neither the newest version nor a snapshot needs): those two go a day after they were written.
    """

    kind: str
    path: Path
    bytes: int


def collect(out: Path, journal_days: float, *, dry_run: bool) -> list[Garbage]:
    """Finds what may go and, unless it is a dry run, removes it.

    Raises NoRunError, RunHeldError while a run holds the folder, CorruptDataError where an entry or snapshot does not
    read, or a link leads out of the folder: then nothing is known to be free.
    """
    CommitLog(out).run()
    return asyncio.run(_collect(out, journal_days, dry_run=dry_run))


async def _collect(out: Path, journal_days: float, *, dry_run: bool) -> list[Garbage]:
    log = CommitLog(out)
    async with hold(log.store, takeover=False) as lease:
        files = [*_loose_files(out), *_old_journals(out, journal_days)]
        for folder in {garbage.path.parent for garbage in files}:
            inside(out, folder)
        for garbage in () if dry_run else files:
            await lease.check()
            _remove(log, garbage.path)
        return files


def _loose_files(out: Path) -> Iterator[Garbage]:
    log, now = CommitLog(out), time.time()
    entries, needed = log.entries(), _needed(log)
    packed = {file.path for entry in (*entries, *log.entries_before()) for file in entry.files.values()} - needed
    for path in sorted((out / DRAFTS).glob("*")):
        if path.is_file():
            yield Garbage("staging", path, path.stat().st_size)
    for folder in ("orphans", FOLDER, *(f"data/{table}" for table in TABLES)):
        for stored in log.files.objects(folder):
            kind = _kind(stored.key, packed)
            settled = kind == "orphan" or now - stored.modified >= _DAY_S
            if stored.key not in needed and settled and not VERSION_NAME.fullmatch(stored.key):
                yield Garbage(kind, out / stored.key, stored.bytes)


def _kind(name: str, packed: Collection[str]) -> str:
    if name in packed:
        return "packed"
    return "version" if name.startswith(f"{FOLDER}/") or PACK_NAME.fullmatch(name) else "orphan"


def _needed(log: CommitLog) -> set[str]:
    """The files that hold what is committed now, what a snapshot names, or what was asked again: its replies count."""
    needed = {file.path for file in log.files_before()}
    for name in (None, *snapshot_names(log.out)):
        snapshot = load_snapshot(log.out, name)
        needed |= {span.file.path for table in TABLES for span in snapshot.spans(table)}
        needed |= {file.path for file in snapshot.version.files()} if snapshot.version else set()
    return needed


def _old_journals(out: Path, days: float) -> Iterator[Garbage]:
    log = CommitLog(out)
    committed, plan = set(log.partitions()), log.plan()
    if plan and len(committed) >= plan["partitions"]:  # until then they count in the run's budget
        committed.add(NO_PARTITION)
    for segment in undamaged_segments(open_store(out)):
        if committed.issuperset(segment.partitions) and time.time() - segment.modified >= days * _DAY_S:
            yield Garbage("journal", out / segment.key, segment.size)


def _remove(log: CommitLog, path: Path) -> None:
    if path.parent == log.out / DRAFTS:
        path.unlink(missing_ok=True)
    else:
        log.files.delete([path.relative_to(log.out).as_posix()])
