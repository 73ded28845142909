"""The commit log: what it promises when nothing fails, when any one call to the disk fails, and when it is full."""

import errno
import io
import os
import random
import re
import resource
import subprocess
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from foil.datasets_out.commits.encoding import encode, seal
from foil.datasets_out.commits.entries import CommitEntry
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.schema import SCHEMA_VERSION, TABLES, to_tables
from foil.datasets_out.commits.snapshot import load_snapshot
from foil.engine.atomic_files import FileSystem
from foil.engine.errors import (
    CommitError,
    CommitLostError,
    CommitUnknownError,
    CorruptDataError,
    DifferentJobError,
    NoRunError,
    UnstorableTopicError,
)
from foil.engine.flow.progress import count_topics, total
from foil.engine.ids import sha256_hex
from foil.engine.protocols import CommitStore
from foil.engine.topic import Call
from tests.support.drills.commit_drill import JOB, EntryHook, HookedFileSystem, leave_orphans, planned, topics_of
from tests.support.drills.history_checker import History, Violations, check


def opened(out: Path, file_system: FileSystem | None = None) -> CommitLog:
    log = CommitLog(out, file_system)
    log.open("drill", JOB)
    return log


def run(log: CommitLog, partitions: int, acked: set[int]) -> None:
    """What the flow does with a store, in one process."""
    log.open("drill", JOB)
    for partition in range(partitions):
        if partition not in log.partitions():
            log.commit(partition, topics_of(partition), {"variant": 0})
        acked.add(partition)
    log.put_plan({"seeds": len(planned(partitions)), "partitions": partitions})


def expected(entry: CommitEntry):
    return topics_of(entry.partition, entry.facts["variant"])


def violations(out: Path, partitions: int, acked: set[int], *, finished: bool) -> Violations:
    return check(History(planned(partitions), acked, finished, expected), out)


def test_a_commit_log_is_a_store(tmp_path):
    store: CommitStore = opened(tmp_path)
    assert store.plan() is None
    assert store.commit(7, topics_of(7), {"index": "abc"}) is True
    assert store.commit(7, topics_of(7), {"index": "abc"}) is False
    entry = store.committed()[7]
    assert entry["facts"] == {"index": "abc"}
    assert entry["counts"]["topics"] == {"accepted": 4, "failed": 0, "rejected": 0}
    store.put_plan({"seeds": 4, "partitions": 1})
    assert store.plan() == {"seeds": 4, "partitions": 1}


def test_an_entry_names_one_file_a_table_under_its_deterministic_name(tmp_path):
    log = opened(tmp_path)
    log.commit(7, topics_of(7), {})
    (entry,) = log.entries()
    assert {table: fact.path for table, fact in entry.files.items()} == {
        table: f"data/{table}/part-00000007.parquet" for table in TABLES
    }
    for table, fact in entry.files.items():
        assert pq.read_metadata(log.files.locate(fact)).num_rows == fact.rows, table


def test_a_second_writer_with_other_content_learns_that_it_lost_and_leaves_nothing(tmp_path):
    opened(tmp_path).commit(0, topics_of(0), {})
    with pytest.raises(CommitLostError, match=r"partition 0 .* first, and differently \(.*passages"):
        opened(tmp_path).commit(0, topics_of(0, variant=1), {})
    with pytest.raises(CommitLostError, match=r"differently \(facts\)"):
        opened(tmp_path).commit(0, topics_of(0), {"index": "other"})
    assert check(History(planned(1), {0}, True, lambda _: topics_of(0)), tmp_path) == Violations()


def test_a_file_that_a_live_writer_may_still_name_is_not_touched(tmp_path):
    shared = tmp_path / "data/passages/part-00000000.parquet"

    def overtake() -> None:
        placed = shared.read_bytes()
        leave_orphans(tmp_path, 1)
        assert shared.read_bytes() == placed
        (other,) = set(shared.parent.iterdir()) - {shared}
        assert other.name == f"part-00000000-{sha256_hex(other.read_bytes())}.parquet"

    assert opened(tmp_path, EntryHook(overtake)).commit(0, topics_of(0), {"variant": 0}) is True
    with pytest.raises(CommitLostError, match="first"):
        opened(tmp_path).commit(0, topics_of(0, 1), {"variant": 1})
    assert violations(tmp_path, 1, {0}, finished=True) == Violations()
    (orphan,) = (tmp_path / "orphans").glob("passages-part-00000000-*.parquet")
    assert len(orphan.stem) == len("passages-part-00000000-") + 64


def test_the_later_attempt_wins_over_an_orphan_of_other_bytes_and_sweeps_it(tmp_path):
    log = opened(tmp_path)
    (tmp_path / "data/topics/part-00000000.parquet").write_bytes(b"half of a file, say")
    assert log.commit(0, topics_of(0), {"variant": 0}) is True
    assert violations(tmp_path, 1, {0}, finished=True) == Violations()
    assert (tmp_path / "orphans/topics-part-00000000.parquet").read_bytes() == b"half of a file, say"


def test_what_was_moved_aside_stays_aside_after_a_power_cut(tmp_path):
    calls: list[str] = []

    class Recorded(FileSystem):
        def replace(self, source: Path, target: Path) -> None:
            super().replace(source, target)
            calls.append(f"moved {source.parent.name}")

        def fsync(self, fd: int) -> None:
            super().fsync(fd)
            calls.append(f"synced {Path(f'/proc/self/fd/{fd}').readlink().name}")

    log = opened(tmp_path, Recorded())
    (tmp_path / "data/topics/part-00000000.parquet").write_bytes(b"half of a file, say")
    log.commit(0, topics_of(0), {"variant": 0})
    assert calls[-2:] == ["moved topics", "synced topics"]


def test_another_job_is_refused_with_the_difference_and_the_same_job_is_not(tmp_path):
    log = CommitLog(tmp_path)
    log.open("one", {"seeds": {"kind": "beir", "path": "a"}, "recipe": {"kind": "verifiable"}})
    log.open("one", {"anything": "the fingerprint decides"})
    with pytest.raises(DifferentJobError, match=r'seeds\.path: "a" -> "b"'):
        log.open("two", {"seeds": {"kind": "beir", "path": "b"}, "recipe": {"kind": "verifiable"}})
    with pytest.raises(DifferentJobError, match="same settings, other code"):
        log.open("two", {"seeds": {"kind": "beir", "path": "a"}, "recipe": {"kind": "verifiable"}})


def test_the_run_of_an_earlier_version_is_refused_with_its_version_and_the_way_on(tmp_path):
    (tmp_path / "run.json").write_bytes(
        seal({"fingerprint": "drill", "job": JOB, "schema_version": SCHEMA_VERSION, "begun_with": "0.0.1"})
    )
    with pytest.raises(
        DifferentJobError, match=rf"begun by Foil 0\.0\.1; this is .*--reuse {re.escape(str(tmp_path))}`"
    ):
        CommitLog(tmp_path).open("another", JOB)


def test_a_run_of_another_schema_version_is_not_written_to(tmp_path):
    body = {"fingerprint": "drill", "job": JOB, "schema_version": 99}
    (tmp_path / "run.json").write_bytes(seal(body))
    with pytest.raises(DifferentJobError, match=r"schema_version: 99 -> 1"):
        opened(tmp_path)


def test_nothing_is_committed_for_a_run_whose_folder_has_become_anothers(tmp_path):
    opened(tmp_path)
    writer = CommitLog(tmp_path, run="drill")
    assert writer.commit(0, topics_of(0), {}) is True
    with pytest.raises(CommitError, match="has become the folder of another run"):
        CommitLog(tmp_path, run="another").commit(1, topics_of(1), {})
    (tmp_path / "run.json").write_bytes(seal({"fingerprint": "other", "job": JOB, "schema_version": 1}))
    writer.commit(2, topics_of(2), {})  # it read run.json before: its entry is foreign there, and told apart
    with pytest.raises(CorruptDataError, match="is of another run"):
        CommitLog(tmp_path).entry(2)


def test_a_run_that_is_found_complete_is_durable(tmp_path):
    opened(tmp_path)
    synced = []

    class Noting(FileSystem):
        def fsync(self, fd):
            synced.append(Path(f"/proc/self/fd/{fd}").resolve())
            super().fsync(fd)

    assert CommitLog(tmp_path, Noting()).documents.stands_for("drill", JOB)
    assert {tmp_path.resolve(), (tmp_path / "commits").resolve()} <= set(synced)


def test_a_plan_stands_once(tmp_path):
    log = opened(tmp_path)
    log.put_plan({"seeds": 4, "partitions": 1})
    log.put_plan({"seeds": 4, "partitions": 1})
    with pytest.raises(DifferentJobError, match="the seeds changed between runs"):
        log.put_plan({"seeds": 5, "partitions": 2})


def test_a_commit_needs_an_opened_run(tmp_path):
    with pytest.raises(NoRunError, match="holds no run"):
        CommitLog(tmp_path / "none").commit(0, topics_of(0), {})
    assert CommitLog(tmp_path / "none").committed() == {}


def test_a_partition_beyond_the_names_is_refused(tmp_path):
    with pytest.raises(CommitError, match="partition 100000000 is outside 0 to 99999999"):
        opened(tmp_path).commit(100_000_000, topics_of(0), {})


def test_a_topic_that_no_shard_can_hold_is_named_and_nothing_is_written(tmp_path):
    log = opened(tmp_path)
    topics = topics_of(0)
    topics[2] = replace(topics[2], query="half a \ud83d pair")
    with pytest.raises(
        UnstorableTopicError, match=r"topic t-s000002 cannot be stored: .*surrogates not allowed"
    ) as error:
        log.commit(0, topics, {})
    assert error.value.topic_id == "t-s000002"
    with pytest.raises(UnstorableTopicError, match="its id occurs 2 times"):
        log.commit(0, [*topics_of(0), topics_of(0)[0]], {})
    assert log.entries() == []
    assert list((tmp_path / "data").glob("*/*")) == []


def test_counts_tell_seeds_from_topics_and_pay_for_a_shared_call_once():
    call = Call("r1", "t", "m", "p@1", 100, 20, 0.5, "stop", "{}")
    paid_by_another_run = replace(call, request_id="r2", reused=True)
    first, second, third, fourth = topics_of(0)
    topics = [
        replace(first, calls=(paid_by_another_run, call)),
        replace(second, seed_id=first.seed_id, status="rejected", reason="leak", calls=(call,)),
        replace(third, status="rejected", reason="leak"),
        replace(fourth, status="failed", reason="timeout"),
    ]
    counts = count_topics(topics)
    assert counts.seeds == {"accepted": 1, "failed": 1, "rejected": 1}
    assert counts.topics == {"accepted": 1, "failed": 1, "rejected": 2}
    assert counts.reasons == {"leak": 2, "timeout": 1}
    assert (counts.calls, counts.prompt_tokens, counts.completion_tokens, counts.cost_usd) == (1, 100, 20, 0.5)
    both = total([counts, counts])
    assert both.reasons == {"leak": 4, "timeout": 2}
    assert both.cost_usd == 1.0
    assert total([]).plain()["seeds"] == {"accepted": 0, "failed": 0, "rejected": 0}


def test_equal_tables_give_equal_bytes_with_a_checksum_in_every_page(tmp_path):
    tables = to_tables(topics_of(3), 3)
    blobs = {table: encode(rows) for table, rows in tables.items()}
    assert blobs == {table: encode(rows) for table, rows in to_tables(topics_of(3), 3).items()}
    path = tmp_path / "passages.parquet"
    path.write_bytes(blobs["passages"])
    assert pq.read_table(path, page_checksum_verification=True).equals(tables["passages"])
    text = pq.read_metadata(path).row_group(0).column(5)
    assert text.path_in_schema == "text"
    last = text.data_page_offset + text.total_compressed_size - 1
    path.write_bytes(blobs["passages"][:last] + b"\x01" + blobs["passages"][last + 1 :])
    with pytest.raises(OSError, match="CRC"):
        pq.read_table(path, page_checksum_verification=True)


def test_row_groups_are_bounded_in_bytes():
    topics = [replace(topic, detail="x" * 3_000_000) for partition in range(2) for topic in topics_of(partition)]
    blob = encode(to_tables(topics, 0)["topics"])
    assert pq.ParquetFile(io.BytesIO(blob)).num_row_groups == 4


def test_the_status_of_a_million_topics_reads_a_thousand_entries_in_a_blink(tmp_path):
    log = opened(tmp_path)
    log.commit(0, topics_of(0), {"contamination": "0" * 64})
    (entry,) = log.committed().values()
    for partition in range(1, 1000):
        files = {t: f | {"path": f"data/{t}/part-{partition:08d}.parquet"} for t, f in entry["files"].items()}
        body = entry | {"partition": partition, "files": files}
        (tmp_path / f"commits/{partition:08d}.json").write_bytes(seal(body))
    start = time.process_time()
    counts = total(entry.counts for entry in log.entries())
    assert time.process_time() - start < 1, "0.1 s where nothing else runs"
    assert counts.topics["accepted"] == 4000


class FailingFileSystem(HookedFileSystem):
    """The k-th call fails with an error, or, for a write, writes one byte of what it was given."""

    def __init__(self, k: int, error: int | None, *, for_good: bool = False) -> None:
        self.calls, self.k, self.error, self.for_good, self.failing = 0, k, error, for_good, False

    def before(self) -> None:
        self.calls += 1
        self.failing = self.calls == self.k or (self.for_good and self.calls > self.k)
        if self.failing and self.error is not None:
            raise OSError(self.error, os.strerror(self.error))

    def write(self, fd, data):
        self.before()
        return FileSystem.write(self, fd, data[:1] if self.failing else data)


FAULTS = [
    pytest.param((errno.EIO, False, False, 0), id="EIO"),
    pytest.param((errno.ENOSPC, False, False, 0), id="ENOSPC", marks=pytest.mark.long),
    pytest.param((errno.ENOSPC, True, False, 1), id="ENOSPC-from-then-on"),
    pytest.param((errno.EMFILE, False, True, 2), id="EMFILE-with-orphans-in-the-way"),
    pytest.param((None, False, False, 3), id="short-write"),
]


@pytest.mark.slow
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("fault", FAULTS)
def test_whichever_call_to_the_disk_fails_the_run_fails_cleanly_and_resumes(memory_folder, fault, every):
    """Every fourth call, each kind of fault from another one on, so that every call meets one kind; all when long."""
    error, for_good, rival, offset = fault
    reference = memory_folder / "whole"
    if rival:
        leave_orphans(reference, 1)
    run(CommitLog(reference), 1, set())
    whole = load_snapshot(reference, None).digest
    failures = 0
    for k in range(1 + offset % every, 1000, every):
        out, acked, file_system = memory_folder / str(k), set(), FailingFileSystem(k, error, for_good=for_good)
        if rival:
            leave_orphans(out, 1)
        try:
            run(CommitLog(out, file_system), 1, acked)
        except CommitError:
            failures += 1
        assert violations(out, 1, acked, finished=False) == Violations(), k
        run(CommitLog(out), 1, acked)
        assert violations(out, 1, acked, finished=True) == Violations(), k
        assert load_snapshot(out, None).digest == whole, k
        if file_system.calls < k:
            break
    assert k > 100
    assert failures > 50 / every if error else failures == 0


def test_a_full_disk_is_named_with_the_bytes_that_it_lacks(tmp_path):
    opened(tmp_path)
    file_system = FailingFileSystem(2, errno.ENOSPC)
    file_system.calls = -2
    with pytest.raises(
        CommitError, match=r"data/topics/part-00000000.parquet: No space left .*; [\d,]+ bytes are needed"
    ):
        CommitLog(tmp_path, file_system).commit(0, topics_of(0), {})


def test_a_doubtful_entry_says_so_and_the_same_call_settles_it(tmp_path):
    opened(tmp_path)

    class NoFolderSync(FileSystem):
        def fsync(self, fd):
            if Path(f"/proc/self/fd/{fd}").resolve() == (tmp_path / "commits").resolve():
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            super().fsync(fd)

    with pytest.raises(CommitUnknownError, match=r"commits/00000000.json: .* the entry may or may not stand"):
        CommitLog(tmp_path, NoFolderSync()).commit(0, topics_of(0), {"variant": 0})
    assert CommitLog(tmp_path).commit(0, topics_of(0), {"variant": 0}) is False
    assert violations(tmp_path, 1, {0}, finished=True) == Violations()


@contextmanager
def small_disk(folder: Path):
    """A file system of 2 MB on `folder`; skips where this user may not mount one."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_fills_at_twenty_levels_leaves_nothing_half_and_the_run_resumes(tmp_path):
    refused = 0
    with small_disk(tmp_path / "disk"):
        for level in range(20):
            out, filler, acked, problem = tmp_path / "disk" / str(level), tmp_path / "disk/filler", set(), ""
            opened(out)
            used = os.statvfs(tmp_path / "disk")
            filler.write_bytes(bytes(max(0, used.f_bavail * used.f_frsize - (level + 1) * 6 * 4096)))
            try:
                run(CommitLog(out), 4, acked)
            except CommitError as error:
                problem = str(error)
            refused += bool(problem)
            assert not problem or ("No space left on device" in problem and str(out) in problem)
            assert violations(out, 4, acked, finished=False) == Violations(), level
            filler.unlink()
            run(CommitLog(out), 4, acked)
            assert violations(out, 4, acked, finished=True) == Violations(), level
            subprocess.run(["rm", "-r", str(out)], check=True)
    assert 3 < refused < 20


@contextmanager
def file_size_limit(limit: int):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_quota_leaves_nothing_half_and_the_run_resumes_once_it_is_raised(memory_folder):
    rng, refused = random.Random(5), 0
    for level in range(20):
        out, acked, problem = memory_folder / str(level), set(), ""
        opened(out)
        with file_size_limit(rng.randrange(200, 6000)):
            try:
                run(CommitLog(out), 2, acked)
            except CommitError as error:
                problem = str(error)
        refused += bool(problem)
        assert not problem or "raise the file size limit" in problem
        assert violations(out, 2, acked, finished=False) == Violations(), level
        run(CommitLog(out), 2, acked)
        assert violations(out, 2, acked, finished=True) == Violations(), level
    assert 3 < refused < 20


GOOD = "data/topics/part-00000000.parquet"
BAD_PATHS = [
    "/etc/passwd", "../../etc/passwd", "data/topics/../../../etc/passwd", "data/topics/../topics/part-00000000.parquet",
    f"./{GOOD}", f"/{GOOD}", f"~/{GOOD}", f"C:/{GOOD}", f"file:///{GOOD}", "https://example.org/part-00000000.parquet",
    "data//topics/part-00000000.parquet", f"{GOOD}/", f"{GOOD}\n", f"{GOOD}\x00.json", GOOD.replace("/", "\\"),
    "data/topics/part-00000000.json", f"{GOOD}.pkl", "data/topics/part-00000001.parquet", "data/topics/*.parquet",
    "data/passages/part-00000000.parquet", "data/topics/part-0.parquet", "data/topics/.hidden.parquet", "",
    "data/topics/part-\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0660.parquet", "data/Topics/part-00000000.parquet",
    "journal/part-00000000.parquet", f"{GOOD}#../../x",
]  # fmt: skip


@pytest.mark.parametrize("path", BAD_PATHS)
def test_an_entry_that_names_a_path_no_commit_writes_is_refused(tmp_path, path):
    log = opened(tmp_path)
    log.commit(0, topics_of(0), {})
    entry = tmp_path / "commits/00000000.json"
    (body,) = log.committed().values()
    body["files"]["topics"]["path"] = path
    entry.write_bytes(seal(body))
    with pytest.raises(CorruptDataError, match="as a file of topics, which no commit does"):
        log.entries()


def test_a_link_that_leaves_the_run_is_refused(tmp_path):
    log = opened(tmp_path / "out")
    log.commit(0, topics_of(0), {})
    fact = log.entry(0).files["topics"]
    path = tmp_path / "out" / fact.path
    path.rename(tmp_path / "elsewhere.parquet")
    path.symlink_to(tmp_path / "elsewhere.parquet")
    with pytest.raises(CorruptDataError, match="leads out of"):
        log.files.locate(fact)
    with pytest.raises(CorruptDataError, match="leads out of"):
        load_snapshot(tmp_path / "out", None).files("topics")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"schema_version": 99}, "schema version 99"),
        ({"partition": 5}, "is the entry of partition 5"),
        ({"files": {}}, "with the tables"),
        ({"counts": None}, "is not a commit entry"),
        ({"surprise": 1}, "is not a commit entry"),
    ],
)
def test_an_entry_of_another_shape_is_refused(tmp_path, change, match):
    log = opened(tmp_path)
    log.commit(0, topics_of(0), {})
    (body,) = log.committed().values()
    (tmp_path / "commits/00000000.json").write_bytes(seal({**body, **change}))
    with pytest.raises(CorruptDataError, match=match):
        log.entries()
