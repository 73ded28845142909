"""Folding and compaction: the committed set, the entries and the rows stay, whoever dies and whatever fails."""

import errno
import os
import random
import shutil
import time
from pathlib import Path

import pytest

from foil.datasets_out.commits.encoding import seal
from foil.datasets_out.commits.entries import entry_name
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.schema import TABLES
from foil.datasets_out.commits.snapshot import load_snapshot, read_partitions, take_snapshot
from foil.datasets_out.commits.verify import verify
from foil.datasets_out.commits.versions import PartitionRanges, version_name
from foil.datasets_out.compaction import folding, packing
from foil.datasets_out.compaction.folding import fold
from foil.datasets_out.compaction.packing import compact
from foil.datasets_out.curation.collection import collect
from foil.engine.crash_points import arm
from foil.engine.errors import CommitError, CommitLostError, CorruptDataError
from foil.engine.flow.progress import status
from tests.support.drills.commit_drill import JOB, EntryHook, HookedFileSystem, end, fork, topics_of

SMALL = 1 << 20


class FailingFileSystem(HookedFileSystem):
    """The k-th call fails with an error."""

    def __init__(self, k: int, error: int) -> None:
        self.calls, self.k, self.error = 0, k, error

    def before(self) -> None:
        self.calls += 1
        if self.calls == self.k:
            raise OSError(self.error, os.strerror(self.error))


def commit(log: CommitLog, *partitions: int, variant: int = 0) -> None:
    for partition in partitions:
        log.commit(partition, topics_of(partition, variant), {"variant": variant, "seeds": {"seeds": "ab" * 16}})


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    log = CommitLog(tmp_path_factory.mktemp("folding") / "out")
    log.open("drill", JOB)
    commit(log, *range(6))
    log.put_plan({"seeds": 24, "partitions": 6})
    return log.out


@pytest.fixture
def log(made, tmp_path) -> CommitLog:
    """Six partitions, and nothing folded."""
    return CommitLog(Path(shutil.copytree(made, tmp_path / "out")))


def seen(out: Path) -> dict[str, object]:
    """All that a reader sees of a run."""
    log, snapshot = CommitLog(out), load_snapshot(out, None)
    return {
        "partitions": log.partitions(),
        "entries": log.entries(),
        "totals": log.totals(),
        "status": status(log, out),
        "digest": snapshot.digest,
        "contents": snapshot.contents,
        "rows": {table: snapshot.rows(table) for table in TABLES},
        "topics": list(read_partitions(snapshot)),
    }


def entry_bytes(log: CommitLog) -> dict[int, bytes]:
    return {partition: (log.out / entry_name(partition)).read_bytes() for partition in log.partitions()}


def test_a_reader_sees_the_same_unfolded_folded_and_packed(log):
    before, raw = seen(log.out), entry_bytes(log)
    version = fold(log)
    assert (version.number, version.partitions.pairs) == (1, [(0, 5)])
    assert log.files.names("commits") == []
    assert seen(log.out) == before
    assert {entry.partition: seal(entry.plain()) for entry in log.entries()} == raw
    assert compact(log, SMALL) == packing.Compaction(2, 1, 6)
    assert seen(log.out) == before
    assert len(load_snapshot(log.out, None).files("calls")) == 1
    assert verify(log.out) == []
    assert compact(log, SMALL) == packing.Compaction(2, 0, 6)


def test_what_is_committed_later_comes_after_the_version_and_small_manifests_and_packs_merge(log):
    compact(log, SMALL)
    commit(log, 9, 7, 6)
    assert log.partitions() == [0, 1, 2, 3, 4, 5, 6, 7, 9]
    assert sorted(log.committed()) == log.partitions()
    assert log.committed()[9]["facts"]["variant"] == 0
    fold(log)
    commit(log, 8)
    result = compact(log, SMALL)
    assert [(pack.first, pack.last) for pack in log.version().packs] == [(0, 9)]
    assert (result.packed, len(log.version().manifests)) == (10, 1)
    assert [topics[0].id for topics in read_partitions(load_snapshot(log.out, None))] == [
        topics_of(partition)[0].id for partition in range(10)
    ]


def test_packs_and_manifests_end_where_they_are_large_enough_and_at_gaps(log, monkeypatch):
    monkeypatch.setattr(folding, "MANIFEST_PARTITIONS", 3)
    commit(log, 7, 8)
    largest = max(file.bytes for file in log.entry(0).files.values())
    compact(log, int(2.5 * largest))
    version = log.version()
    assert [(pack.first, pack.last) for pack in version.packs] == [(0, 1), (2, 3), (4, 5), (7, 8)]
    assert [manifest.partitions.pairs for manifest in version.manifests] == [[(0, 2)], [(3, 5)], [(7, 8)]]
    assert seen(log.out)["topics"] == [topics_of(partition) for partition in (0, 1, 2, 3, 4, 5, 7, 8)]


def test_a_snapshot_stays_what_it_was_whatever_is_folded_packed_and_freed_after_it(log):
    digests = {}
    for name, step in (("plain", lambda: None), ("folded", lambda: fold(log)), ("packed", lambda: compact(log, SMALL))):
        step()
        digests[name] = take_snapshot(log.out, name).digest
    commit(log, 6)
    compact(log, SMALL)
    collect(log.out, 0, dry_run=False)
    assert len(set(digests.values())) == 1
    for name, digest in digests.items():
        snapshot = load_snapshot(log.out, name, verify=True)
        assert snapshot.digest == snapshot._digest == digest
        assert list(read_partitions(snapshot)) == [topics_of(partition) for partition in range(6)]
        assert snapshot.sums().counts.topics["accepted"] == 24


@pytest.mark.parametrize("variant", [0, 1])
def test_a_zombie_that_commits_a_folded_partition_learns_that_it_lost_and_nobody_sees_its_entry(log, variant):
    """All that others do happens between its last look at the log and its put."""
    facts = {"variant": variant, "seeds": {"seeds": "ab" * 16}}

    def overtake() -> None:
        commit(CommitLog(log.out), 6)
        compact(CommitLog(log.out), SMALL)

    zombie = CommitLog(log.out, EntryHook(overtake))
    if variant:
        with pytest.raises(CommitLostError, match=r"partition 6 .* first, and differently"):
            zombie.commit(6, topics_of(6, variant), facts)
        assert log.files.names("commits") == []
    else:
        zombie.commit(6, topics_of(6), facts)
    assert seen(log.out)["topics"] == [topics_of(partition) for partition in range(7)]
    assert [finding.path for finding in verify(log.out) if not finding.harmless] == []


def test_an_entry_that_was_put_after_its_partition_was_folded_is_no_entry(log):
    before, raw = seen(log.out), entry_bytes(log)[2]
    fold(log)
    (log.out / entry_name(2)).write_bytes(raw.replace(b"ab", b"cd"))
    assert seen(log.out) == before
    assert [(finding.path, finding.harmless) for finding in verify(log.out)] == [(entry_name(2), True)]
    folding.remove_folded(log)
    assert log.files.names("commits") == []
    assert seen(log.out) == before


def crash_points() -> list[str]:
    return ["fold.read", "fold.placed", "fold.entered", "fold.removed", "compact.placed", "compact.entered",
            "put.staged", "put.linked", "put.durable", "put.replaced"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("point", crash_points())
def test_a_death_at_every_passage_changes_nothing_that_a_reader_sees(log, memory_folder, point):
    before, deaths = seen(log.out), 0
    for passage in range(1, 100):
        out = Path(shutil.copytree(log.out, memory_folder / f"{passage}"))

        def die(out=out, passage=passage) -> None:
            arm(f"{point}:{passage}")
            compact(CommitLog(out), SMALL)

        died = end(fork(die)) != 0
        deaths += died
        assert seen(out) == before, passage
        assert [finding for finding in verify(out) if not finding.harmless] == [], passage
        compact(CommitLog(out), SMALL)
        assert seen(out) == before, passage
        assert CommitLog(out).files.names("commits") == []
        shutil.rmtree(out)
        if not died:
            break
    assert deaths


@pytest.mark.slow
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_whichever_call_to_the_disk_fails_nothing_that_a_reader_sees_changes(log, memory_folder, error):
    before, failures = seen(log.out), 0
    for k in range(1 + (error == errno.EIO) * 6, 1000, 12):
        out = Path(shutil.copytree(log.out, memory_folder / str(k)))
        file_system = FailingFileSystem(k, error)
        try:
            compact(CommitLog(out, file_system), SMALL)
        except CommitError:
            failures += 1
        assert seen(out) == before, k
        compact(CommitLog(out), SMALL)
        assert seen(out) == before, k
        shutil.rmtree(out)
        if file_system.calls < k:
            break
    assert failures > 10


def test_two_that_fold_and_one_that_commits_at_every_call_of_each_other_agree(log, memory_folder):
    """Between two calls of a compaction another one does all of its own, and a writer commits."""
    rng = random.Random(3)

    class Meddled(HookedFileSystem):
        def __init__(self, out: Path, k: int) -> None:
            self.out, self.left = out, k

        def before(self) -> None:
            self.left -= 1
            if self.left == 0:
                commit(CommitLog(self.out), 6)
                fold(CommitLog(self.out))
                compact(CommitLog(self.out), SMALL)
                commit(CommitLog(self.out), 7)

    for k in sorted(rng.sample(range(1, 130), 8)):
        out = Path(shutil.copytree(log.out, memory_folder / str(k)))
        compact(CommitLog(out, Meddled(out, k)), SMALL)
        found = seen(out)
        wanted = list(range(8)) if Path(out / version_name(3)).exists() else found["partitions"]
        assert found["partitions"] == wanted
        assert found["topics"] == [topics_of(partition) for partition in found["partitions"]]
        assert [finding for finding in verify(out) if not finding.harmless] == []
        shutil.rmtree(out)


@pytest.mark.slow
def test_every_flipped_bit_of_a_version_a_manifest_a_pack_and_its_ids_is_found_and_named(log):
    compact(log, SMALL)
    take_snapshot(log.out, "v1")
    rng = random.Random(5)
    paths = [*(log.out / "versions").iterdir(), *(log.out / "data").glob("*/pack-*")]
    assert len(paths) == 2 + 2 + 6 + 1
    for path in paths:
        raw = path.read_bytes()
        for place in rng.sample(range(len(raw)), 12):
            spoilt = bytearray(raw)
            spoilt[place] ^= 1 << rng.randrange(8)
            path.write_bytes(spoilt)
            damaged = {finding.path for finding in verify(log.out) if not finding.harmless}
            assert path.relative_to(log.out).as_posix() in damaged, (path, place)
        path.unlink()
        damaged = {finding.path for finding in verify(log.out) if not finding.harmless}
        assert path.relative_to(log.out).as_posix() in damaged, path
        path.write_bytes(raw)
    assert verify(log.out) == []


def test_a_small_file_that_is_damaged_is_not_packed(log):
    path = log.out / "data/passages/part-00000003.parquet"
    raw = bytearray(path.read_bytes())
    raw[40] ^= 1
    path.write_bytes(raw)
    with pytest.raises(CorruptDataError, match=r"passages/part-00000003.parquet is changed"):
        compact(log, SMALL)
    assert log.version().packs == ()


def test_no_entry_goes_before_the_files_of_its_version_are_there(log, monkeypatch):
    monkeypatch.setattr(folding, "remove_folded", lambda _: None)
    version = fold(log)
    monkeypatch.undo()
    (log.out / version.manifests[0].facts.path).unlink()
    with pytest.raises(CorruptDataError, match="no entry was removed"):
        folding.remove_folded(log)
    assert len(log.files.names("commits")) == 6


def test_small_files_go_once_packed_and_old_unless_a_snapshot_names_them(log):
    compact(log, SMALL)
    assert collect(log.out, 30, dry_run=True) == []
    for path in (log.out / "data").glob("*/part-*"):
        os.utime(path, (time.time() - 2 * 86_400,) * 2)
    found = collect(log.out, 30, dry_run=True)
    assert {each.kind for each in found} == {"packed"}
    assert len(found) == 6 * 6
    assert log.version() is not None
    before = seen(log.out)
    collect(log.out, 30, dry_run=False)
    assert list((log.out / "data").glob("*/part-*")) == []
    assert seen(log.out) == before
    assert verify(log.out) == []


def test_ranges_are_a_set():
    rng = random.Random(1)
    for _ in range(50):
        first, second = ({rng.randrange(40) for _ in range(rng.randrange(30))} for _ in range(2))
        ranges = PartitionRanges.of(first)
        assert list(ranges) == sorted(first)
        assert [n in ranges for n in range(-1, 41)] == [n in first for n in range(-1, 41)]
        assert [ranges.position(n) for n in sorted(first)] == list(range(len(first)))
        assert list(ranges.without(PartitionRanges.of(second))) == sorted(first - second)
        assert list(PartitionRanges.union([ranges, PartitionRanges.of(second)])) == sorted(first | second)
