"""The journal in a bucket: nothing is read before it is durable, many wait for one object, a kill loses no reply."""

import asyncio
import multiprocessing
import signal
import time
from functools import partial

import pytest

from engine import crash_points
from engine.flow import journal as writing
from engine.flow.journal import Journal
from engine.flow.journal_reading import damage, left_open, paid_replies, possibly_paid_twice
from engine.requests import Reply
from engine.storage.opening import mirror_of
from tests.support.drills.run_drill import job, survive
from tests.support.small_parts import Numbers, topics


@pytest.fixture
def bucket(make_store):
    return make_store("localbucket")


class Counted:
    """A store that notes when it is asked to make a part of a stream durable."""

    def __init__(self, store):
        self._store, self.syncs = store, []

    def __getattr__(self, name):
        return getattr(self._store, name)

    def append(self, key):
        appender, sync, syncs = self._store.append(key), None, self.syncs
        sync = appender.sync

        def counted():
            syncs.append(time.monotonic())
            sync()

        appender.sync = counted
        return appender


def test_what_returned_can_be_read_elsewhere_and_many_wait_for_one_object(bucket):
    store = Counted(bucket)
    journal = Journal(store, "00000001")
    parts = [journal.open(number, f"seeds of {number}", again=False) for number in range(4)]

    async def put_one(number):
        part = parts[number % 4]
        await part.asked(str(number))
        assert number or possibly_paid_twice(bucket) > 0  # looked at once
        await part.put(Reply(str(number), "text"))

    async def put_many():
        await asyncio.gather(*map(put_one, range(100)))

    began = time.monotonic()
    asyncio.run(put_many())
    assert len(store.syncs) <= 1 + (time.monotonic() - began) / bucket.sync_interval_s
    assert {reply.request_id for reply in paid_replies(bucket, ())} == {str(number) for number in range(100)}
    assert possibly_paid_twice(bucket) == 0
    journal.close()
    assert [found.key for found in bucket.list_objects("journal")] == [f"journal/closed/{journal.writer}-0000.log"]
    again = Journal(bucket, "00000002").open(1, again=False)
    assert [bool(again.get(str(number))) for number in range(4)] == [False, True, False, False]
    assert list(damage(bucket)) == []


def test_a_seed_that_ends_its_worker_at_once_is_known(bucket):
    journal = Journal(bucket, "00000001")
    asyncio.run(journal.open(3).begun("suspect"))
    assert left_open(bucket, journal.writer)[3].suspects == ("suspect",)


def test_a_free_reply_is_there_once_its_partition_is_closed(bucket):
    journal = Journal(bucket)

    async def make():
        part = journal.open(0)
        await part.put(Reply("1", "one"), durable=False)
        part.close()
        await asyncio.gather(*filter(None, [journal._syncing]))

    asyncio.run(make())
    assert [reply.request_id for reply in paid_replies(bucket, ())] == ["1"]


def write_and_die(store, bill, point):
    """30 replies through streams of 4 syncs or 2 kB; each is paid once it is asked. Dies at the point."""
    crash_points.arm(point)
    writing._MOST_SYNCS = 4
    journal = Journal(store, segment_bytes=2000, group_s=0.01)

    async def pay(part, number):
        if not part.get(str(number)):
            await part.asked(str(number))
            with bill.open("a") as file:
                file.write(f"{number}\n")
            await part.put(Reply(str(number), "text " * 20))

    async def work():
        parts = [journal.open(number) for number in range(3)]
        for start in range(0, 30, 6):
            await asyncio.gather(*(pay(parts[number % 3], number) for number in range(start, start + 6)))

    asyncio.run(work())
    journal.close()


POINTS = (
    pytest.param("journal.written", marks=pytest.mark.long),
    pytest.param("journal.synced", marks=pytest.mark.long),
    "journal.rolled",
    pytest.param("journal.closed", marks=pytest.mark.long),
    "journal.gathered",
)


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_pays_for_no_durable_reply_twice(bucket, tmp_path, point):
    """What was paid for more than once was counted as possibly paid twice."""
    bill, spawn = tmp_path / "bill", multiprocessing.get_context("spawn")
    ends = {f"{point}:1": {-signal.SIGKILL}, f"{point}:2": {-signal.SIGKILL, 0}, "": {0}}  # few may be left to do
    for attempt, exit_codes in ends.items():
        process = spawn.Process(target=write_and_die, args=(bucket, bill, attempt))
        process.start()
        process.join(60)
        assert process.exitcode in exit_codes
        billed = bill.read_text().split() if bill.exists() else []
        assert len(billed) - len(set(billed)) <= possibly_paid_twice(bucket) <= 2 * 6
    assert {reply.request_id for reply in paid_replies(bucket, ())} == {str(number) for number in range(30)}
    assert list(damage(bucket)) == []


@pytest.mark.long
def test_children_of_a_run_are_killed_and_what_was_paid_twice_was_counted(bucket):
    out = mirror_of(bucket.url)
    workers = {"runtime": {"workers": 2}, "limits": {"partition_seeds": 4}}
    survive(out, 60, 2, partial(job, out, 60, **workers), every=15)


def test_a_seed_that_ends_each_worker_becomes_a_failed_row_of_its_own(bucket):
    out = mirror_of(bucket.url)
    summary = job(out, 12, reader=Numbers(12, {5: "exit"}), runtime={"workers": 1})
    assert (summary.complete, summary.counts.seeds) == (True, {"accepted": 11, "failed": 1})
    [failed] = [topic for topic in topics(out) if topic.status == "failed"]
    assert (failed.seed_id, failed.reason) == ("s000005", "crashed_worker")
    assert possibly_paid_twice(bucket) == 0
