"""The log of a run in a bucket: the same rows and digests as on a disk, folded, packed, freed and raced."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import load_snapshot, read_partitions, take_snapshot
from foil.datasets_out.commits.verify import verify
from foil.datasets_out.compaction.folding import fold
from foil.datasets_out.compaction.packing import compact
from foil.engine.errors import CommitLostError
from foil.engine.storage.object_store import ObjectStore
from tests.support.drills.commit_drill import JOB, topics_of


@pytest.fixture
def store(bucket_url) -> ObjectStore:
    return ObjectStore(bucket_url, patience_s=30)


def write(log: CommitLog, partitions: int) -> None:
    log.open("drill", JOB)
    for partition in range(partitions):
        log.commit(partition, topics_of(partition), {"variant": 0})


def test_a_run_in_a_bucket_is_folded_packed_and_read_as_on_a_disk(store, tmp_path):
    local, log = CommitLog(tmp_path / "local"), CommitLog(store)
    for each in (local, log):
        write(each, 6)
    wanted = load_snapshot(local.out, None)
    for step in (lambda: None, lambda: fold(log), lambda: compact(log, 1 << 20)):
        step()
        found = load_snapshot(log.out, None)
        assert found.digest == wanted.digest
        assert list(read_partitions(found)) == list(read_partitions(wanted))
        assert CommitLog(log.out).entries() == local.entries()
        assert CommitLog(log.out).totals() == local.totals()
    assert log.files.names("commits") == []
    assert take_snapshot(log.out, "v1").digest == wanted.digest
    log.put_plan({"seeds": 24, "partitions": 6})
    assert [finding for finding in verify(log.out) if not finding.harmless] == []
    store.delete([log.version().packs[0].files["topics"].path])
    assert [finding.kind for finding in verify(log.out) if not finding.harmless] == ["missing"]


def test_of_writers_and_folders_in_a_bucket_each_partition_has_one_winner(store):
    CommitLog(store).open("drill", JOB)

    def work(number: int) -> int:
        log, won = CommitLog(store), 0
        for partition in range(6):
            try:
                won += log.commit(partition, topics_of(partition, number % 2), {"variant": number % 2})
            except CommitLostError:
                continue
            fold(log)
        return won

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    entries = CommitLog(store).entries()
    assert [entry.partition for entry in entries] == list(range(6))
    found = list(read_partitions(load_snapshot(store.folder, None)))
    assert found == [topics_of(entry.partition, entry.facts["variant"]) for entry in entries]
    assert [finding.kind for finding in verify(store.folder) if finding.kind != "orphan"] == ["incomplete"]
