"""Whichever request to a bucket fails, once or for good: the log stays what it is, and another writer finishes it."""

from contextlib import suppress
from pathlib import Path

import pytest

from foil.datasets_out.commits.entries import CommitEntry
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.schema import TABLES
from foil.datasets_out.commits.snapshot import load_snapshot
from foil.engine.errors import CommitError
from foil.engine.storage.mirrors import mirror_of
from foil.engine.storage.object_store import ObjectStore
from foil.engine.storage.opening import open_store
from tests.support.drills.commit_drill import copy_run, free, planned, tidy, topics_of, write
from tests.support.drills.history_checker import History, Violations, check
from tests.support.storage.fault_proxy import FaultProxy, proxied

ONCE = ("500", "503", "lose", "412", "drop", "cut", "lose_500", "409")
FOR_GOOD = ("500", "drop")
PARTITIONS = 2


def expected(entry: CommitEntry):
    return topics_of(entry.partition, entry.facts["variant"])


def prepare_tidy(whole, out, acks):
    copy_run(whole, out)
    acks.write_text("0 1")


def prepare_free(whole, out, acks):
    prepare_tidy(whole, out, acks)
    tidy(out)


def leave_lease(out):
    """As if the process that could not release it had ended; this one lives."""
    store = open_store(out)
    store.delete([found.key for found in store.list_objects("lease")])


WORKS = {
    "commits": (lambda _whole, _out, _acks: None, lambda out, acks: write(out, PARTITIONS, 0, acks)),
    "fold and pack": (prepare_tidy, lambda out, _acks: tidy(out)),
    "gc": (prepare_free, lambda out, _acks: free(out)),
}


class Drill:
    """One work after the other, each on a run of its own, of which one request fails or all from one on."""

    def __init__(self, url: str, folder: Path, proxy: FaultProxy, patch: pytest.MonkeyPatch) -> None:
        self.url, self.folder, self.proxy, self.patch = url, folder, proxy, patch
        self.whole = mirror_of(f"{url}/whole")
        write(self.whole, PARTITIONS, 0, folder / "acks")
        self.digest = load_snapshot(self.whole, None).digest
        self.tried = self.failed = 0

    def fail(self, work: str, k: int, fault: str, *, for_good: bool) -> bool:
        """Whether the work came as far as the k-th request; in the end everything must be there."""
        prepare, act = WORKS[work]
        out, acks = mirror_of(f"{self.url}/{k}"), self.folder / f"acks-{k}"
        prepare(self.whole, out, acks)
        self.proxy.fail_at(lambda number: fault if number == k or (for_good and number > k) else "")
        with self.patch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL", self.proxy.url)
            with suppress(CommitError, OSError):  # a command ends with what either says
                act(out, acks)
                self.failed -= 1
            self.failed += 1
        self.tried += 1
        acked = {int(line) for line in acks.read_text().split()} if acks.exists() else set()
        if acked:
            assert check(History(planned(PARTITIONS), acked, False, expected), out) == Violations(), (k, fault)
        write(out, PARTITIONS, 1, acks)
        tidy(out)
        leave_lease(out)
        free(out)
        assert check(History(planned(PARTITIONS), acked, True, expected), out) == Violations(), (k, fault)
        assert load_snapshot(out, None).digest == self.digest, (k, fault)
        assert len(CommitLog(out).files.names("data")) == len(TABLES), "small files are left"
        return self.proxy.requests >= k


@pytest.fixture
def drill(bucket_url, s3_server, tmp_path, monkeypatch):
    """Every store that is opened from now on gives up within half a second."""
    monkeypatch.setitem(ObjectStore.__init__.__kwdefaults__, "patience_s", 0.4)
    with proxied(FaultProxy(s3_server, 0)) as proxy:
        yield Drill(bucket_url, tmp_path, proxy, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("every", [45, pytest.param(1, marks=(pytest.mark.long, pytest.mark.timeout(3600)))])
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("work", WORKS)
def test_whichever_request_fails_nothing_is_lost_and_the_next_writer_finishes(drill, work, for_good, every):
    kinds, k = FOR_GOOD if for_good else ONCE, 1
    while drill.fail(work, k, kinds[k // every % len(kinds)], for_good=for_good):
        k += every
    told = "for good" if for_good else "once"
    print(f"{work}, {told}: {drill.tried - 1} requests met a fault, {drill.failed} ended the writer")
    assert drill.tried > 1
    assert drill.failed > 0 if for_good else drill.failed == 0
