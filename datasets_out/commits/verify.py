"""Finds every changed bit of a run: run.json, plan.json, entries, data files, snapshots.

Promise: what is committed is either as it was written or listed here. Price: each data file is read once (sha256, about
1 GB/s a core). What no entry names (left behind by a crash) is listed apart, as harmless: no reader ever sees it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from datasets_out.commits.entries import CommitEntry
from datasets_out.commits.log import CommitLog
from datasets_out.commits.schema import TABLES
from datasets_out.commits.snapshot import load_snapshot, snapshot_names
from engine.errors import CommitError, CorruptDataError


@dataclass(frozen=True, slots=True)
class Damage:
    """Something that is not as it was written. `path` is relative to the run's folder.

    `kind`: `missing`, `resized`, `changed`, `foreign` (of another run), `unbacked` (a snapshot of what is not
    committed); harmless are `orphan` (no entry names it) and `unfinished` (planned, not yet committed).
    """

    path: str
    kind: str
    detail: str
    harmless: bool = False


def verify(out: Path) -> list[Damage]:
    """Everything that is not as it was committed, damage first; an empty list is a clean and complete run."""
    log = CommitLog(out)
    found = [*_documents(log)]
    entries: list[CommitEntry] = []
    for partition in log.partitions():
        try:
            entries.append(log.entry(partition))
        except CorruptDataError as error:
            found.append(Damage(f"commits/{partition:08d}.json", "changed", str(error)))
    found += _foreign(log, entries)
    found += _files(log, entries)
    found += _snapshots(log, entries)
    found += _unfinished(log, entries)
    found += _orphans(log, entries)
    return sorted(found, key=lambda damage: damage.harmless)


def _documents(log: CommitLog) -> Iterator[Damage]:
    for name in ("run.json", "plan.json"):
        try:
            if log.sealed(name) is None and name == "run.json" and log.partitions():
                yield Damage(name, "missing", "every run has one; restore it, or run the job into this folder again")
        except CorruptDataError as error:
            yield Damage(name, "changed", str(error))


def _foreign(log: CommitLog, entries: list[CommitEntry]) -> Iterator[Damage]:
    try:
        fingerprint = log.run()["fingerprint"]
    except (CommitError, CorruptDataError):
        return  # reported as missing or changed
    for entry in entries:
        if entry.fingerprint != fingerprint:
            yield Damage(f"commits/{entry.partition:08d}.json", "foreign", f"it is of the run {entry.fingerprint}")


def _files(log: CommitLog, entries: list[CommitEntry]) -> Iterator[Damage]:
    for entry in entries:
        for fact in entry.files.values():
            try:
                fault = log.fault(fact)
            except CorruptDataError as error:
                yield Damage(fact.path, "foreign", str(error))
                continue
            if fault:
                yield Damage(fact.path, fault, f"committed with {fact.bytes} bytes and sha256 {fact.sha256}")


def _snapshots(log: CommitLog, entries: list[CommitEntry]) -> Iterator[Damage]:
    committed = {fact for entry in entries for fact in entry.files.values()}
    for name in snapshot_names(log.out):
        try:
            snapshot = load_snapshot(log.out, name)
        except CorruptDataError as error:
            yield Damage(f"snapshots/{name}.json", "changed", str(error))
            continue
        lost = [fact.path for facts in snapshot.contents.values() for fact in facts if fact not in committed]
        if lost:
            yield Damage(f"snapshots/{name}.json", "unbacked", f"no entry names {lost[0]} and {len(lost) - 1} more")


def _unfinished(log: CommitLog, entries: list[CommitEntry]) -> Iterator[Damage]:
    try:
        plan = log.plan()
    except CorruptDataError:
        return  # reported as changed
    if plan is None:
        yield Damage("plan.json", "unfinished", "the seeds have not all been read yet; run the job again", True)
        return
    absent = sorted(set(range(plan["partitions"])) - {entry.partition for entry in entries})
    if absent:
        first = ", ".join(map(str, absent[:5]))
        detail = f"{len(absent)} of {plan['partitions']} partitions are not committed ({first} ...); run the job again"
        yield Damage("commits", "unfinished", detail, True)


def _orphans(log: CommitLog, entries: list[CommitEntry]) -> Iterator[Damage]:
    known = {fact.path for entry in entries for fact in entry.files.values()}
    known |= {f"commits/{partition:08d}.json" for partition in log.partitions()}
    for folder in ("commits", "staging", "orphans", *(f"data/{table}" for table in TABLES)):
        for path in sorted((log.out / folder).glob("*")):
            name = path.relative_to(log.out).as_posix()
            if name not in known:
                yield Damage(name, "orphan", "no entry names it; no reader sees it", True)
