"""Hypothesis looks for an order of commits, deaths, faults, races and rot that breaks a promise of the commit log."""

import errno
import itertools
import os
import shutil
import tempfile
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from foil.datasets_out.commits.encoding import seal
from foil.datasets_out.commits.entries import CommitEntry, entry_name
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.schema import TABLES
from foil.datasets_out.commits.snapshot import load_snapshot, take_snapshot
from foil.datasets_out.commits.verify import verify
from foil.datasets_out.commits.versions import version_name
from foil.datasets_out.compaction.folding import fold
from foil.datasets_out.compaction.packing import compact
from foil.engine.errors import CommitError, CommitLostError, DifferentJobError
from foil.engine.storage.mirrors import mirror_of
from foil.engine.storage.opening import open_store
from tests.support.drills.bucket_calls import HookedBucket
from tests.support.drills.commit_drill import JOB, HookedFileSystem, planned, topics_of
from tests.support.drills.history_checker import History, Violations, check

PARTITIONS = 3
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None

partitions = st.integers(0, PARTITIONS - 1)
variants = st.integers(0, 1)
calls = st.integers(1, 120)
"""A commit makes 60 to 110 calls to the disk; beyond them nothing happens."""


class Killed(BaseException):
    """The process is gone: nothing may catch this, and no later call to its file system has any effect."""


class MeddlingFileSystem(HookedFileSystem):
    """Does something of its own before the k-th call."""

    def __init__(self, k: int, action: Callable[[], None], *, dies: bool = False) -> None:
        self.left, self.action, self.dies = k, action, dies

    def before(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.action()
        if self.dies and self.left <= 0:
            raise Killed


class MeddlingBucket(HookedBucket):
    """The same before the k-th call to a bucket; several threads of a writer make them."""

    def __init__(self, url: str, k: int, action: Callable[[], None], *, dies: bool = False) -> None:
        super().__init__(url, patience_s=0.2)
        self.left, self.action, self.dies, self.turn = k, action, dies, threading.Lock()

    def before(self) -> None:
        with self.turn:
            self.left -= 1
            left = self.left
        if left == 0:
            self.action()
        if self.dies and left <= 0:
            raise Killed


def fail(error: int) -> Callable[[], None]:
    def raise_it() -> None:
        raise OSError(error, os.strerror(error))

    return raise_it


def expected(entry: CommitEntry) -> list:
    return topics_of(entry.partition, entry.facts["variant"])


class Writers(RuleBasedStateMachine):
    """The model: the bytes of each entry since it was first seen, the acknowledged partitions, the snapshots."""

    def __init__(self) -> None:
        super().__init__()
        self.out = self.new_place()
        self.entries: dict[int, bytes] = {}
        self.variants: dict[int, int] = {}
        self.acked: set[int] = set()
        self.snapshots: dict[str, str] = {}
        self.open_again()

    def new_place(self) -> Path:
        return Path(tempfile.mkdtemp(dir=MEMORY)) / "out"

    def remove_place(self) -> None:
        shutil.rmtree(self.out.parent)

    def meddled(self, k: int, action: Callable[[], None], *, dies: bool = False) -> CommitLog:
        """The log of a process in which something happens before its k-th call to the storage."""
        return CommitLog(self.out, MeddlingFileSystem(k, action, dies=dies))

    def commit(self, partition: int, variant: int, log: CommitLog | None = None) -> None:
        """What a writer sees must agree with what stands, whether it won, came second, or lost."""
        before = self.variants.get(partition)
        try:
            log = log or CommitLog(self.out)
            ours = log.commit(partition, topics_of(partition, variant), {"variant": variant})
        except CommitLostError:
            assert self.standing(partition) == 1 - variant
            return
        self.acked.add(partition)
        assert self.standing(partition) == variant
        assert not (ours and before is not None)
        self.look()

    def standing(self, partition: int) -> int:
        return CommitLog(self.out).entry(partition).facts["variant"]

    def look(self) -> None:
        for partition in CommitLog(self.out).partitions():
            self.entries.setdefault(partition, self.entry_bytes(partition))
            self.variants.setdefault(partition, self.standing(partition))

    def entry_bytes(self, partition: int) -> bytes:
        return seal(CommitLog(self.out).entry(partition).plain())

    @rule(partition=partitions, variant=variants)
    def commits(self, partition: int, variant: int) -> None:
        self.commit(partition, variant)

    @rule(partition=partitions, variant=variants, k=calls)
    def is_killed(self, partition: int, variant: int, k: int) -> None:
        try:
            self.commit(partition, variant, self.meddled(k, lambda: None, dies=True))
        except Killed:
            return

    @rule(partition=partitions, variant=variants, k=calls, error=st.sampled_from([errno.EIO, errno.ENOSPC]))
    def meets_a_fault(self, partition: int, variant: int, k: int, error: int) -> None:
        try:
            self.commit(partition, variant, self.meddled(k, fail(error)))
        except CommitError:
            return

    @rule(partition=partitions, mine=variants, theirs=variants, k=calls, dies=st.booleans())
    def is_overtaken(self, partition: int, mine: int, theirs: int, k: int, dies: bool) -> None:
        """Another writer does its whole commit between two calls of this one, which may die of it."""
        try:
            self.commit(partition, mine, self.meddled(k, lambda: self.commit(partition, theirs), dies=dies))
        except Killed:
            return

    @rule(packs=st.booleans())
    def entries_are_folded(self, packs: bool) -> None:
        self.take_together(CommitLog(self.out), packs)

    @rule(packs=st.booleans(), k=calls)
    def a_fold_is_killed(self, packs: bool, k: int) -> None:
        try:
            self.take_together(self.meddled(k, lambda: None, dies=True), packs)
        except Killed:
            return

    @rule(packs=st.booleans(), partition=partitions, variant=variants, k=calls)
    def a_fold_is_overtaken(self, packs: bool, partition: int, variant: int, k: int) -> None:
        """Another one folds all, and a writer commits, between two calls of a fold."""

        def overtake() -> None:
            self.commit(partition, variant)
            self.take_together(CommitLog(self.out), True)

        self.take_together(self.meddled(k, overtake), packs)

    @rule(partition=partitions, mine=variants, theirs=variants, k=calls)
    def is_overtaken_and_folded(self, partition: int, mine: int, theirs: int, k: int) -> None:
        """Another writer's whole commit is folded between two calls of this one."""

        def overtake() -> None:
            self.commit(partition, theirs)
            self.take_together(CommitLog(self.out), True)

        self.commit(partition, mine, self.meddled(k, overtake))

    def take_together(self, log: CommitLog, packs: bool) -> None:
        if packs:
            compact(log, 1 << 20)
        else:
            fold(log)

    @rule()
    def open_again(self) -> None:
        CommitLog(self.out).open("drill", JOB)

    @rule()
    def another_job_comes(self) -> None:
        with pytest.raises(DifferentJobError, match="another job"):
            CommitLog(self.out).open("other", JOB)

    @rule(table=st.sampled_from(list(TABLES)), partition=partitions)
    def an_orphan_rots(self, table: str, partition: int) -> None:
        store, key = open_store(self.out), f"data/{table}/part-{partition:08d}.parquet"
        if partition not in self.variants and (raw := store.get(key)) is not None:
            store.put(key, raw[:-1])

    @precondition(lambda self: self.variants)
    @rule(data=st.data(), cut=st.booleans())
    def what_counts_rots_and_is_named(self, data: st.DataObject, cut: bool) -> None:
        store, key = open_store(self.out), data.draw(st.sampled_from(self.what_counts()))
        raw = store.get(key)
        place = data.draw(st.integers(0, len(raw) - 1))
        store.put(key, raw[:place] if cut else raw[:place] + bytes([raw[place] ^ 4]) + raw[place + 1 :])
        assert key in {finding.path for finding in verify(self.out) if not finding.harmless}
        store.put(key, raw)

    def what_counts(self) -> list[str]:
        """The keys of documents, entries, and the files that readers open."""
        log = CommitLog(self.out)
        version, tail = log.extent()
        files = [file.path for file in version.files()] if version else []
        unpacked = [entry for entry in log.entries() if version is None or entry.partition not in version.packed]
        files += [file.path for entry in unpacked for file in entry.files.values()]
        named = [f"snapshots/{name}.json" for name in self.snapshots]
        versions = [version_name(number) for number in log.version_numbers()]
        return ["run.json", *map(entry_name, tail), *versions, *named, *files]

    @precondition(lambda self: self.variants)
    @rule()
    def a_snapshot_is_taken(self) -> None:
        name = f"v{len(self.snapshots)}"
        self.snapshots[name] = take_snapshot(self.out, name).digest

    @invariant()
    def what_stood_stands(self) -> None:
        self.look()
        for partition, raw in self.entries.items():
            assert self.entry_bytes(partition) == raw
        assert self.acked <= set(self.entries)

    def teardown(self) -> None:
        try:
            self.end_well()
        finally:
            self.remove_place()

    def end_well(self) -> None:
        assert self.judged(finished=False) == Violations()
        for partition in range(PARTITIONS):
            if partition not in self.variants:
                self.commit(partition, 0)
        self.open_again()
        assert self.judged(finished=True) == Violations()
        for name, digest in self.snapshots.items():
            assert load_snapshot(self.out, name, verify=True).digest == digest

    def judged(self, *, finished: bool) -> Violations:
        return check(History(planned(PARTITIONS), self.acked, finished, expected), self.out)


class BucketWriters(Writers):
    """The same writers over a bucket. `where` is its URL; a subclass gives it."""

    where: str

    def new_place(self) -> Path:
        return mirror_of(f"{self.where}/{uuid.uuid4().hex}")

    def remove_place(self) -> None:
        store = open_store(self.out)
        store.delete([found.key for found in store.list_objects("")])

    def meddled(self, k: int, action: Callable[[], None], *, dies: bool = False) -> CommitLog:
        """A call to a bucket stands for three of a disk."""
        return CommitLog(MeddlingBucket(open_store(self.out).url, -(-k // 3), action, dies=dies))

    @rule(partition=partitions, variant=variants, k=calls)
    def loses_its_bucket(self, partition: int, variant: int, k: int) -> None:
        """From one call on all fail; where it is one alone, it is repeated and nobody learns of it."""
        log = self.meddled(k, lambda: None)
        log.store.before = failing_from(-(-k // 3))  # type: ignore[attr-defined]
        try:
            self.commit(partition, variant, log)
        except CommitError:
            return


def failing_from(k: int) -> Callable[[], None]:
    calls = itertools.count(1)

    def before() -> None:
        if next(calls) >= k:
            raise OSError(errno.EIO, "the bucket is away")

    return before


def play(machine: type[Writers], examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )


@pytest.fixture(params=["folder", "bucket"])
def machine(request):
    """The writers over a folder or a bucket, and how many examples take as long over either."""
    if request.param == "folder":
        return Writers, 1.0

    class Machine(BucketWriters):
        where = request.getfixturevalue("bucket_url")

    return Machine, 0.08


@pytest.mark.slow
def test_no_order_of_events_breaks_a_promise(machine):
    writers, share = machine
    play(writers, int(40 * share), 15)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_no_order_of_many_events_breaks_a_promise(machine):
    writers, share = machine
    play(writers, int(1000 * share), 40)
