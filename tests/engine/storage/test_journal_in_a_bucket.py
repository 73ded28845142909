"""The journal in a bucket: nothing is read before it is durable, many wait for one object, a kill loses no reply."""

import asyncio
import contextlib
import multiprocessing
import signal
import time
from functools import partial

import obstore
import pytest

from foil.engine.errors import CorruptDataError, JournalError
from foil.engine.flow import journal as writing
from foil.engine.flow.journal import Journal
from foil.engine.flow.journal_reading import damage, left_open, paid_replies, possibly_paid_twice
from foil.engine.requests import Reply
from foil.engine.storage.object_store import ObjectStore
from foil.engine.storage.opening import mirror_of
from tests.support.drills.commit_drill import CALLS, die_at, end, fork, passages
from tests.support.drills.run_drill import job, survive
from tests.support.small_parts import Numbers, topics
from tests.support.storage.fault_proxy import FaultProxy, proxied


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


def write_and_die(store, bill, point):
    """30 replies through streams of 4 syncs or 2 kB. Each is billed once it is asked, and acknowledged once it is put.

    Dies at the point, which may be a call to the bucket.
    """
    die_at(point, write_all, store, bill)


def write_all(store, bill):
    writing._MOST_SYNCS = 4
    journal = Journal(store, segment_bytes=2000, group_s=0.01)

    async def pay(part, number):
        if not part.get(str(number)):
            await part.asked(str(number))
            note(bill, number)
            await part.put(Reply(str(number), "text " * 20))
            note(acks_of(bill), number)

    async def work():
        parts = [journal.open(number) for number in range(3)]
        for start in range(0, 30, 6):
            await asyncio.gather(*(pay(parts[number % 3], number) for number in range(start, start + 6)))

    asyncio.run(work())
    journal.close()


def note(path, number):
    with path.open("a") as file:
        file.write(f"{number}\n")


def acks_of(bill):
    return bill.with_suffix(".acks")


def noted(path):
    return path.read_text().split() if path.exists() else []


def judge(store, bill):
    """What was acknowledged is there, nothing of it was paid again, and what was paid twice was counted."""
    billed, acked = noted(bill), noted(acks_of(bill))
    assert len(acked) == len(set(acked))
    assert {reply.request_id for reply in paid_replies(store, ())} >= set(acked)
    assert len(billed) - len(set(billed)) <= possibly_paid_twice(store) <= 2 * 6
    assert [problem for _, problem, harmless in damage(store) if not harmless] == []


def is_whole(store):
    return {reply.request_id for reply in paid_replies(store, ())} == {str(number) for number in range(30)}


POINTS = (
    pytest.param("journal.written", marks=pytest.mark.long),
    pytest.param("journal.synced", marks=pytest.mark.long),
    "journal.rolled",
    pytest.param("journal.carried", marks=pytest.mark.long),
    pytest.param("journal.begun", marks=pytest.mark.long),
    pytest.param("journal.closed", marks=pytest.mark.long),
    "journal.gathered",
)


@pytest.mark.slow
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
        judge(bucket, bill)
    assert is_whole(bucket)
    assert list(damage(bucket)) == []


def die_at_calls(url, folder, every):
    """Writers that die at calls to the bucket, and one that ends; in a process that uses no bucket itself."""
    for point in CALLS:
        for k in passages(point, every):
            place, bill = f"{url}/{point}-{k}", folder / f"{point}-{k}.bill"
            if end(fork(write_and_die, ObjectStore(place), bill, f"{point}:{k}")) == 0:
                break
            note(folder / "dead", f"{point}-{k}")


@pytest.mark.slow
@pytest.mark.parametrize("every", [41, pytest.param(1, marks=(pytest.mark.long, pytest.mark.timeout(3600)))])
def test_a_kill_at_any_call_to_the_bucket_costs_nothing_that_was_acknowledged(bucket, tmp_path, every):
    process = multiprocessing.get_context("spawn").Process(target=die_at_calls, args=(bucket.url, tmp_path, every))
    process.start()
    process.join(1800)
    assert process.exitcode == 0
    dead = noted(tmp_path / "dead")
    print(f"{len(dead)} deaths")
    assert len(dead) >= 3
    for name in dead:
        store, bill = ObjectStore(f"{bucket.url}/{name}"), tmp_path / f"{name}.bill"
        judge(store, bill)
        write_all(store, bill)
        judge(store, bill)
        assert is_whole(store)


@pytest.fixture
def fail_at(bucket, server_of, tmp_path, monkeypatch):
    """Writes all through a proxy that answers the k-th request, or all from it on, with a fault.

    Gives the bucket, how many requests came, and whether the writer went on to its end.
    """
    assert bucket.get("connected") is None
    with proxied(FaultProxy(server_of("localbucket"), 0)) as proxy:

        def act(k, fault, *, for_good):
            proxy.fail_at(lambda number: fault if number == k or (for_good and number > k) else "")
            direct, bill, ended = ObjectStore(f"{bucket.url}/{k}"), tmp_path / f"{k}.bill", False
            assert direct.get("connected") is None
            with monkeypatch.context() as patch, contextlib.suppress(JournalError, OSError):
                patch.setenv("AWS_ENDPOINT_URL", proxy.url)
                write_all(ObjectStore(direct.url, patience_s=0.4 if for_good else 30), bill)
                ended = True
            return direct, bill, proxy.requests, ended

        yield act


@pytest.mark.slow
@pytest.mark.parametrize("every", [37, pytest.param(1, marks=(pytest.mark.long, pytest.mark.timeout(3600)))])
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
def test_whichever_request_of_a_journal_fails_nothing_that_was_acknowledged_is_lost(fail_at, for_good, every):
    kinds = ("500", "drop") if for_good else ("500", "503", "lose", "412", "drop", "cut", "lose_500", "409")
    failed, k = 0, 1
    while True:
        fault = kinds[k // every % len(kinds)]
        store, bill, requests, ended = fail_at(k, fault, for_good=for_good)
        failed += not ended
        judge(store, bill)
        write_all(store, bill)
        judge(store, bill)
        assert is_whole(store), (k, fault)
        if requests < k:
            break
        k += every
    print(f"{k // every} requests met a fault, {failed} ended the writer")
    assert failed > 0 if for_good else failed == 0


def test_after_each_put_of_a_journal_what_would_be_lost_is_counted(bucket, tmp_path, monkeypatch):
    """As if the bucket had gone away behind that put: requests that were paid by then and have no reply are told of."""
    bill, put, puts = tmp_path / "bill", obstore.put, []

    def noting(client, key, data, **options):
        done = put(client, key, data, **options)
        puts.append((key, bytes(data), noted(bill)))
        return done

    with monkeypatch.context() as patch:
        patch.setattr(obstore, "put", noting)
        write_all(bucket, bill)
    cut_short, lost = ObjectStore(f"{bucket.url}/cut-short"), []
    for key, data, billed in puts:
        cut_short.put(key, data)
        lost.append(len(set(billed) - {reply.request_id for reply in paid_replies(cut_short, ())}))
        assert lost[-1] <= possibly_paid_twice(cut_short), key
    assert max(lost) > 1


@pytest.fixture
def replies(bucket):
    """An open stream with four replies of partition 0, a group each."""
    part = Journal(bucket, group_s=0.01).open(0, again=False)
    for number in range(4):
        asyncio.run(part.put(Reply(str(number), f"text of {number}")))
    [stream] = bucket.streams("journal")
    return stream.key


def flipped(raw):
    return raw[: len(raw) // 2] + bytes([raw[len(raw) // 2] ^ 8]) + raw[len(raw) // 2 + 1 :]


@pytest.mark.parametrize("spoil", [flipped, lambda raw: raw[:-3]], ids=["flipped", "cut"])
def test_a_spoilt_group_is_named_and_no_partition_opens_but_where_the_last_is_cut(bucket, replies, spoil):
    """That one looks as what a disk tears."""
    *groups, last = [found.key for found in bucket.list_objects(replies)][1:]
    for group in (*groups, last):
        raw = bucket.get(group)
        bucket.put(group, spoil(raw))
        torn = group == last and len(spoil(raw)) < len(raw)
        assert [(key, harmless) for key, _, harmless in damage(bucket)] == [(replies, torn)]
        if not torn:
            with pytest.raises(CorruptDataError):
                Journal(bucket).open(0)
        bucket.put(group, raw)
    assert list(damage(bucket)) == []


def test_a_group_that_is_gone_from_a_stream_is_named(bucket, replies):
    *groups, _ = [found.key for found in bucket.list_objects(replies)]
    for group in groups:
        raw = bucket.get(group)
        bucket.delete([group])
        assert [(key, harmless) for key, _, harmless in damage(bucket)] == [(replies, False)], group
        bucket.put(group, raw)
    assert list(damage(bucket)) == []


def test_a_closed_journal_that_is_cut_anywhere_is_named(bucket):
    journal = Journal(bucket, group_s=0.01)
    for number in range(3):
        asyncio.run(journal.open(number, again=False).put(Reply(str(number), "text")))
    journal.close()
    [key] = [found.key for found in bucket.list_objects("journal")]
    raw = bucket.get(key)
    ends = [at for at in range(len(raw)) if raw[at : at + 1] == b"\n"]
    for cut in [*ends, *(at + 1 for at in ends[:-1]), 0, 5, len(raw) - 9]:
        bucket.put(key, raw[:cut])
        assert {(name, harmless) for name, _, harmless in damage(bucket)} == {(key, False)}, cut


@pytest.mark.long
def test_children_of_a_run_are_killed_and_what_was_paid_twice_was_counted(bucket):
    out = mirror_of(bucket.url)
    workers = {"runtime": {"workers": 2}, "limits": {"partition_seeds": 4}}
    survive(out, 60, 2, partial(job, out, 60, **workers), every=15)


@pytest.mark.slow
def test_a_seed_that_ends_each_worker_becomes_a_failed_row_of_its_own(bucket):
    out = mirror_of(bucket.url)
    summary = job(out, 12, reader=Numbers(12, {5: "exit"}), runtime={"workers": 1})
    assert (summary.complete, summary.counts.seeds) == (True, {"accepted": 11, "failed": 1})
    [failed] = [topic for topic in topics(out) if topic.status == "failed"]
    assert (failed.seed_id, failed.reason) == ("s000005", "crashed_worker")
    assert possibly_paid_twice(bucket) == 0
