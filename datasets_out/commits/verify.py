"""Finds every changed bit of a run: run.json, plan.json, entries, data files, snapshots, journal.

Promise: what is committed is either as it was written or listed here, and so is every journalled reply. Price: each
file is read once (sha256, about 1 GB/s a core). What a crash left behind is listed apart, as harmless: no entry names
it, so no reader sees it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from datasets_out.commits.entries import CommitEntry, entry_name
from datasets_out.commits.log import CommitLog
from datasets_out.commits.schema import TABLES
from datasets_out.commits.snapshot import load_snapshot, snapshot_names
from engine.errors import CommitError, CorruptDataError, NoRunError
from engine.flow.journal_reading import damage
from engine.storage.opening import open_store


@dataclass(frozen=True, slots=True)
class Damage:
    """A file or document that is not as it was written. `path` is relative to the run's folder.

    `kind`: `missing`, `resized`, `changed`, `foreign` (of another run), `unbacked` (a snapshot of what is not
    committed). Not damage, and so `harmless`: `orphan` (no entry names it), `torn` (a journal record that a kill cut),
    `incomplete` (not all that was planned is committed: the run is to go on).
    """

    path: str
    kind: str
    detail: str
    harmless: bool = False


def verify(out: Path) -> list[Damage]:
    """Everything that is not as it was committed, damage first; an empty list is a clean and complete run."""
    log = CommitLog(out)
    findings = [*_check_documents(log)]
    entries: list[CommitEntry] = []
    for partition in log.partitions():
        try:
            entries.append(log.read_entry(partition))
        except (CommitError, CorruptDataError) as error:
            findings.append(Damage(entry_name(partition), "changed", str(error)))
    for check in (_check_fingerprints, _check_files, _check_snapshots, _check_plan, _list_orphans):
        findings += check(log, entries)
    findings += _check_journal(log)
    return sorted(findings, key=lambda finding: finding.harmless)


def _check_documents(log: CommitLog) -> Iterator[Damage]:
    for name in _document_names(log):
        try:
            if log.read_sealed(name) is None and name == "run.json" and log.partitions():
                yield Damage(name, "missing", "every run has one; restore it, or run the job into this folder again")
        except (CommitError, CorruptDataError) as error:
            yield Damage(name, "changed", str(error))


def _document_names(log: CommitLog) -> list[str]:
    names = {path.name for pattern in ("growth-*.json", "plan-*.json") for path in log.out.glob(pattern)}
    return ["run.json", "plan.json", "sources.json", *sorted(names)]


def _check_fingerprints(log: CommitLog, entries: list[CommitEntry]) -> Iterator[Damage]:
    try:
        fingerprint = log.fingerprint()
    except (NoRunError, CommitError, CorruptDataError):
        return  # reported as missing or changed
    for entry in entries:
        if entry.fingerprint != fingerprint:
            yield Damage(entry_name(entry.partition), "foreign", f"it is of the run {entry.fingerprint}")


def _check_files(log: CommitLog, entries: list[CommitEntry]) -> Iterator[Damage]:
    for entry in entries:
        for file in entry.files.values():
            try:
                fault = log.find_fault(file)
            except CorruptDataError as error:
                yield Damage(file.path, "foreign", str(error))
                continue
            if fault:
                yield Damage(file.path, fault, f"committed with {file.bytes} bytes and sha256 {file.sha256}")


def _check_snapshots(log: CommitLog, entries: list[CommitEntry]) -> Iterator[Damage]:
    committed = {file for entry in entries for file in entry.files.values()}
    for name in snapshot_names(log.out):
        try:
            snapshot = load_snapshot(log.out, name)
        except CorruptDataError as error:
            yield Damage(f"snapshots/{name}.json", "changed", str(error))
            continue
        except (NoRunError, CommitError):
            return  # run.json is reported as missing
        lost = [file.path for files in snapshot.contents.values() for file in files if file not in committed]
        if lost:
            yield Damage(f"snapshots/{name}.json", "unbacked", f"no entry names {lost[0]} and {len(lost) - 1} more")


def _check_plan(log: CommitLog, entries: list[CommitEntry]) -> Iterator[Damage]:
    try:
        plan = log.plan()
    except (CommitError, CorruptDataError):
        return  # reported as changed
    if plan is None:
        detail = f"{len(entries)} partitions are committed, and the seeds have not all been read yet; run the job again"
        yield Damage("plan.json", "incomplete", detail, True)
        return
    absent = sorted(set(range(plan["partitions"])) - {entry.partition for entry in entries})
    if absent:
        first = ", ".join(map(str, absent[:5])) + (", ..." if len(absent) > 5 else "")
        there = plan["partitions"] - len(absent)
        detail = f"{there} of {plan['partitions']} partitions are committed, not {first}; run the job again"
        yield Damage("commits", "incomplete", detail, True)


def _list_orphans(log: CommitLog, entries: list[CommitEntry]) -> Iterator[Damage]:
    named = {file.path for entry in entries for file in entry.files.values()}
    named |= {entry_name(partition) for partition in log.partitions()}
    for folder in ("commits", "staging", "orphans", *(f"data/{table}" for table in TABLES)):
        for path in sorted((log.out / folder).glob("*")):
            name = path.relative_to(log.out).as_posix()
            if name not in named:
                yield Damage(name, "orphan", "no entry names it; no reader sees it", True)


def _check_journal(log: CommitLog) -> Iterator[Damage]:
    for key, problem, harmless in damage(open_store(log.out)):
        yield Damage(key, "torn" if harmless else "changed", problem, harmless)
