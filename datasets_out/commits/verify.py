"""Finds every changed bit of a run: run.json, plan.json, entries, versions, data files, packs, snapshots, journal.

Promise: every file that an entry, a version or a snapshot names is as it was written or listed here, and so is every
record that stands in the journal. A journal that was removed, or cut at the end of a record, is not noticed on a disk:
so a kill leaves it too. Price: each file is read once, several at a time (sha256, about 1 GB/s a core). What a crash
left behind is listed apart, as harmless: no entry names it, so no reader sees it.

A large run may be sampled: documents and entries are all read, and of the files with rows a share, by their names. Of a
large run the files found whole are noted in OUT/desk/verified.txt, so that a verification that was stopped goes on.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from foil.datasets_out.commits.entries import CommitEntry, CommittedFile, entry_name
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.schema import TABLES
from foil.datasets_out.commits.snapshot import load_snapshot, snapshot_names
from foil.datasets_out.commits.versions import FOLDER, Version, version_name
from foil.engine.errors import CommitError, CorruptDataError, NoRunError
from foil.engine.flow.journal_reading import damage
from foil.engine.ids import sha256_hex
from foil.engine.storage.opening import open_store
from foil.engine.storage.store import DRAFTS, inside

_READERS = 8
_NOTED_AT_ONCE = 256


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


def verify(out: Path, *, share: float = 1.0, resume: bool = False) -> list[Damage]:
    """Everything that is not as it was committed, damage first; an empty list is a clean and complete run.

    `share` of the files with rows are read, always the same ones. With `resume` those that an earlier verification
    found whole are not read again.
    """
    log = CommitLog(out)
    files = _Files(log, share, resume=resume)
    findings = [*_check_versions(log, files)]
    try:
        version, tail = log.extent()
    except (CommitError, CorruptDataError):  # reported: without its newest version a log cannot be read
        return findings
    findings += _check_documents(log)
    entries: list[CommitEntry] = []
    broken = {finding.path for finding in findings}
    for partition in log.partitions():
        if version and partition in version.partitions and not broken.isdisjoint(_files_of(version, partition)):
            continue
        try:
            entries.append(log.read_entry(partition))
        except (CommitError, CorruptDataError) as error:
            findings.append(Damage(entry_name(partition), "changed", str(error)))
    unpacked = [entry for entry in entries if version is None or entry.partition not in version.packed]
    findings += files.check([file for entry in unpacked for file in entry.files.values()], "committed")
    findings += files.check(_files_before(log), "committed before its failed rows were asked again")
    findings += _check_fingerprints(log, entries)
    findings += _check_snapshots(log, entries, files)
    findings += _check_superseded(log, entries, files)
    findings += _check_growths(log, entries)
    findings += _check_plan(log, entries)
    findings += _list_orphans(log, entries, tail)
    findings += _check_journal(log)
    return sorted(findings, key=lambda finding: finding.harmless)


def _entries_before(log: CommitLog) -> list[CommitEntry]:
    """Entries from before failed rows were asked again, as far as they read: what does not is reported elsewhere."""
    with suppress(CommitError, CorruptDataError):
        return log.entries_before()
    return []


def _files_before(log: CommitLog) -> list[CommittedFile]:
    """The files that hold those entries and their rows, as far as they read."""
    with suppress(CommitError, CorruptDataError):
        return list(log.files_before())
    return []


def named_versions(log: CommitLog) -> set[int]:
    """The versions that snapshots name. A snapshot that does not read names none here."""
    numbers = set()
    for name in snapshot_names(log.out):
        with suppress(CommitError, CorruptDataError):
            numbers.update((log.files.read_sealed(f"snapshots/{name}.json") or {}).get("version", ())[:1])
    return numbers


class _Files:
    """Reads files several at a time, each once, and notes those that are whole."""

    def __init__(self, log: CommitLog, share: float, *, resume: bool) -> None:
        self._log, self._share, self._path = log, share, inside(log.out, log.out / "desk" / "verified.txt")
        self._whole = set(self._path.read_text().splitlines()) if resume and self._path.exists() else set[str]()
        if not resume:
            self._path.unlink(missing_ok=True)

    def check(self, files: Sequence[CommittedFile], claim: str, *, may_be_gone: bool = False) -> Iterator[Damage]:
        """What is not as it was written of those in the sample; `claim`: who names them."""
        sample = {_line(file): file for file in files if self._is_drawn(file.path)}
        unread = [file for line, file in sample.items() if line not in self._whole]
        self._whole |= sample.keys()  # those that are not are reported here, once
        with ThreadPoolExecutor(_READERS) as readers:
            for some in (unread[start : start + _NOTED_AT_ONCE] for start in range(0, len(unread), _NOTED_AT_ONCE)):
                faults = list(readers.map(self._fault, some))
                if len(unread) > _NOTED_AT_ONCE:
                    self._note([_line(file) for file, (fault, _) in zip(some, faults, strict=True) if not fault])
                for file, (fault, detail) in zip(some, faults, strict=True):
                    if fault and not (may_be_gone and fault == "missing"):
                        text = detail or f"{claim} with {file.bytes} bytes and sha256 {file.sha256}"
                        yield Damage(file.path, fault, text)

    def _is_drawn(self, path: str) -> bool:
        return self._share >= 1 or int(sha256_hex(path)[:8], 16) < self._share * 2**32

    def _fault(self, file: CommittedFile) -> tuple[str, str]:
        try:
            return self._log.files.find_fault(file), ""
        except CorruptDataError as error:
            return "foreign", str(error)

    def _note(self, lines: Sequence[str]) -> None:
        with suppress(OSError):  # it only saves reading them again
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.writelines(f"{line}\n" for line in lines)


def _line(file: CommittedFile) -> str:
    return f"{file.sha256} {file.path}"


def _check_versions(log: CommitLog, reader: _Files) -> Iterator[Damage]:
    """Every document from the first to the newest, and the files of the newest and of those that snapshots name."""
    pinned = named_versions(log)
    newest = max(log.version_numbers() + sorted(pinned), default=0)
    files: dict[str, CommittedFile] = {}
    for number in range(1, newest + 1):
        try:
            version = log.read_version(number)
        except (CommitError, CorruptDataError) as error:
            there = number in log.version_numbers()
            yield Damage(version_name(number), "changed" if there else "missing", str(error))
            continue
        if number == newest or number in pinned:
            files |= {file.path: file for file in version.files()}
    yield from reader.check(list(files.values()), "a version names it")


def _files_of(version: Version, partition: int) -> set[str]:
    """The files of the manifest with the entry of a partition."""
    manifest = version.manifest_of(partition)
    return {manifest.entries.path, manifest.facts.path}


def _check_documents(log: CommitLog) -> Iterator[Damage]:
    fingerprint = None
    with suppress(NoRunError, CommitError, CorruptDataError):  # reported below
        fingerprint = log.fingerprint()
    for name in ("run.json", "plan.json", "sources.json", "job.json", *log.documents.growth_names()):
        try:
            body = log.files.read_sealed(name)
            if body is None and name == "run.json" and log.partitions():
                yield Damage(name, "missing", "every run has one; restore it, or run the job into this folder again")
            elif body is None and name.startswith("growth-"):
                yield Damage(name, "missing", "the limits of this run grew by it; restore it from a copy")
            elif body and fingerprint and body.get("fingerprint", fingerprint) != fingerprint:
                yield Damage(name, "foreign", f"it is of the run {body['fingerprint']}; restore this run's from a copy")
        except (CommitError, CorruptDataError) as error:
            yield Damage(name, "changed", str(error))


def _check_fingerprints(log: CommitLog, entries: list[CommitEntry]) -> Iterator[Damage]:
    try:
        fingerprint = log.fingerprint()
    except (NoRunError, CommitError, CorruptDataError):
        return  # reported as missing or changed
    for entry in entries:
        if entry.fingerprint != fingerprint:
            yield Damage(entry_name(entry.partition), "foreign", f"it is of the run {entry.fingerprint}")


def _check_snapshots(log: CommitLog, entries: list[CommitEntry], reader: _Files) -> Iterator[Damage]:
    """The documents of snapshots, and the files from which their rows are read."""
    committed = {file for entry in (*entries, *_entries_before(log)) for file in entry.files.values()}
    for name in snapshot_names(log.out):
        try:
            snapshot = load_snapshot(log.out, name)
            files = [file for table in TABLES for file in snapshot.committed_files(table)]
            read = [span.file for table in TABLES for span in snapshot.spans(table)]
        except CorruptDataError as error:
            yield Damage(f"snapshots/{name}.json", "changed", str(error))
            continue
        except (NoRunError, CommitError):
            return  # run.json is reported as missing
        lost = [file.path for file in files if file not in committed]
        if lost:
            yield Damage(f"snapshots/{name}.json", "unbacked", f"no entry names {lost[0]} and {len(lost) - 1} more")
        elif snapshot.stated and snapshot.stated != replace(snapshot, stated="").digest:
            yield Damage(f"snapshots/{name}.json", "changed", "what it names does not have the digest that it states")
        yield from reader.check(read, f"the snapshot {name!r} names it")


def _check_superseded(log: CommitLog, entries: list[CommitEntry], reader: _Files) -> Iterator[Damage]:
    """Files that lie in packs or newer versions by now, as far as `foil gc` has left them."""
    read_from = (*entries, *_entries_before(log))
    older: list[CommittedFile] = [file for entry in read_from for file in entry.files.values()]
    for number in log.version_numbers():
        with suppress(CommitError, CorruptDataError):  # reported
            older += log.read_version(number).files()
    yield from reader.check(older, "an entry or an older version names it", may_be_gone=True)


def _check_growths(log: CommitLog, entries: list[CommitEntry]) -> Iterator[Damage]:
    """Whether the limits that stand here allow what is committed, and each that another followed is there."""
    try:
        most = log.documents.limits().get("seeds")
    except (NoRunError, CommitError, CorruptDataError):
        return  # reported as missing, changed or foreign
    seeds = sum(entry.counts.seeds.total() for entry in entries)
    if most is not None and seeds > most:
        name = f"growth-{log.documents.last_growth() + 1:08d}.json"
        detail = f"{seeds} seeds are committed, and the limits that stand here allow {most}; restore it from a copy"
        yield Damage(name, "missing", detail)


def _check_plan(log: CommitLog, entries: list[CommitEntry]) -> Iterator[Damage]:
    try:
        plan = log.plan()
    except (NoRunError, CommitError, CorruptDataError):
        return  # reported as missing, changed or foreign
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


def _list_orphans(log: CommitLog, entries: list[CommitEntry], tail: list[int]) -> Iterator[Damage]:
    live = {file.path for entry in (*entries, *_entries_before(log)) for file in entry.files.values()}
    live |= {file.path for file in _files_before(log)} | {entry_name(partition) for partition in tail}
    for number in {*log.version_numbers()[-1:], *named_versions(log)}:
        with suppress(CommitError, CorruptDataError):
            live |= {file.path for file in log.read_version(number).files()}
    live |= {version_name(number) for number in log.version_numbers()}
    staged = sorted(path.relative_to(log.out).as_posix() for path in (log.out / DRAFTS).glob("*"))
    folders = ("commits", "orphans", FOLDER, *(f"data/{table}" for table in TABLES))
    for name in chain(staged, chain.from_iterable(map(log.files.names, folders))):
        if name not in live:
            yield Damage(name, "orphan", "no entry names it; no reader sees it", True)


def _check_journal(log: CommitLog) -> Iterator[Damage]:
    for key, problem, harmless in damage(open_store(log.out)):
        yield Damage(key, "torn" if harmless else "changed", problem, harmless)
