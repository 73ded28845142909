"""The journal: what was put is there after a crash, what was torn is not, and what may be paid twice is counted."""

import asyncio
import os
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foil.datasets_out.commits.log import CommitLog
from foil.engine import crash_points
from foil.engine.errors import CorruptDataError, JournalError
from foil.engine.flow import journal as writing
from foil.engine.flow import journal_reading as reading
from foil.engine.flow.journal import Journal, PartitionJournal
from foil.engine.flow.journal_reading import (
    JournalIndex,
    damage,
    left_open,
    paid_replies,
    paid_seeds,
    possibly_paid_twice,
)
from foil.engine.requests import Reply
from foil.engine.storage.local_store import LocalStore

TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
REPLIES = st.lists(
    st.builds(
        Reply,
        request_id=st.uuids().map(str),
        text=TEXT,
        model=TEXT,
        prompt_tokens=st.integers(0, 10**6),
        cost_usd=st.floats(0, 10),
        latency_s=st.floats(0, 1000),
        attempts=st.integers(1, 5),
    ),
    max_size=6,
    unique_by=lambda reply: reply.request_id,
)


def opened(folder: Path | str, partition: int = 0, **options) -> PartitionJournal:
    """A partition in a journal of its own."""
    return Journal(LocalStore(Path(folder)), **options).open(partition, "5eed")


class Moved(LocalStore):
    """A folder that is moved away once its streams were listed."""

    def streams(self, prefix):
        listed = super().streams(prefix)
        shutil.rmtree(self.folder / prefix)
        return listed


def test_a_journal_that_goes_while_it_is_read_is_said_to_be_gone(tmp_path):
    put(opened(tmp_path), "one")
    with pytest.raises(JournalError, match="was there and is gone: the folder was moved"):
        paid_seeds(Moved(tmp_path), ())


async def put_all(journal: PartitionJournal, replies: list[Reply]) -> None:
    await asyncio.gather(*(journal.put(reply) for reply in replies))


def put(journal: PartitionJournal, *names: str) -> None:
    asyncio.run(put_all(journal, [Reply(name, f"text of {name}") for name in names]))


def segments(folder: Path | str) -> list[Path]:
    return sorted((Path(folder) / "journal").glob("*.log"))


def segment(folder: Path | str) -> Path:
    [path] = segments(folder)
    return path


def kinds_of_damage(folder: Path | str) -> list[bool]:
    return [harmless for _, _, harmless in damage(LocalStore(Path(folder)))]


@given(REPLIES, st.booleans())
@settings(max_examples=50, deadline=None)
def test_every_reply_comes_back_as_it_was_put(replies, closed):
    with tempfile.TemporaryDirectory() as name:
        store = LocalStore(Path(name))
        journal = Journal(store)
        mine = journal.open(7)
        asyncio.run(put_all(mine, replies))
        if closed:
            journal.close()
        for source in (mine, opened(name, 7)):
            assert [source.get(reply.request_id) for reply in replies] == replies
        assert opened(name, 8).get("x") is None
        assert list(paid_replies(store, ())) == replies
        assert list(paid_replies(store, {7})) == []


@given(REPLIES.filter(len), st.data())
@settings(max_examples=50, deadline=None)
def test_a_torn_or_damaged_journal_gives_true_replies_or_none(replies, data):
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(put_all(Journal(LocalStore(Path(name))).open(0), replies))
        path = segment(name)
        raw = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, len(raw) - 1))
        if data.draw(st.booleans()):
            raw[at] ^= 1 << data.draw(st.integers(0, 7))
        else:
            del raw[at:]
        path.write_bytes(raw)
        kinds = kinds_of_damage(name)
        if not all(kinds):  # damage inside: what it held would be paid for again
            if b" 0 " in raw:
                with pytest.raises(CorruptDataError, match="does not match its checksum"):
                    opened(name)
            return
        found = [opened(name).get(reply.request_id) for reply in replies]
        assert all(there in (None, reply) for there, reply in zip(found, replies, strict=True))
        whole = raw[:at].count(b"\n")
        assert found[:whole] == replies[:whole]
        assert len(kinds) == (not raw.endswith(b"\n")) * bool(raw)


@given(REPLIES.filter(len), st.data())
@settings(max_examples=100, deadline=None)
def test_a_flipped_bit_in_a_closed_stream_costs_no_reply_unseen(replies, data):
    with tempfile.TemporaryDirectory() as name:
        journal = Journal(LocalStore(Path(name)))
        for number, reply in enumerate(replies):
            asyncio.run(journal.open(number % 3, "5eed").put(reply))
        journal.close()
        path = segment(name)
        raw = bytearray(path.read_bytes())
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(raw)
        assert False in kinds_of_damage(name)
        for partition in range(3):
            mine = replies[partition::3]
            with suppress(CorruptDataError):  # else nothing of it is missing
                again = opened(name, partition)
                assert [again.get(reply.request_id) for reply in mine] == mine


def test_a_new_stream_goes_on_after_a_torn_one(tmp_path):
    put(opened(tmp_path), "1")
    with segment(tmp_path).open("ab") as file:
        file.write(b'0badc0de 0 {"reply": {"request_id": "2", "te')
    put(opened(tmp_path), "2")
    third = opened(tmp_path)
    assert [third.get(name).text for name in "12"] == ["text of 1", "text of 2"]


def test_the_first_reply_to_a_request_stays(tmp_path):
    journal = opened(tmp_path)
    asyncio.run(journal.put(Reply("1", "first")))
    asyncio.run(journal.put(Reply("1", "second")))
    assert journal.get("1") == opened(tmp_path).get("1") == Reply("1", "first")


def test_partitions_of_one_process_share_its_stream_and_see_their_own_replies(tmp_path):
    journal = Journal(LocalStore(tmp_path))
    parts = [journal.open(number, f"digest {number}") for number in range(3)]
    for turn in range(4):
        for number, part in enumerate(parts):
            put(part, f"{number} {turn}")
    journal.close()
    assert len(segments(tmp_path)) == 1
    for number in range(3):
        assert set(opened(tmp_path, number)._replies) == {f"{number} {turn}" for turn in range(4)}
    index = JournalIndex(LocalStore(tmp_path))
    index.look()
    assert [index.partitions(), [list(each.partitions) for each in index.segments()]] == [[0, 1, 2], [[0, 1, 2]]]
    assert paid_seeds(LocalStore(tmp_path), {1}) == {0: "digest 0", 2: "digest 2"}


def test_many_replies_of_many_partitions_share_one_fsync_and_none_returns_before_its_own(tmp_path, monkeypatch):
    synced: list[int] = []
    fsync = os.fsync

    def measured(fd: int) -> None:
        size = os.fstat(fd).st_size
        fsync(fd)
        synced.append(size)

    monkeypatch.setattr(os, "fsync", measured)
    journal = Journal(LocalStore(tmp_path))
    parts = [journal.open(number) for number in range(5)]

    async def put_one(number: int) -> None:
        await parts[number % 5].put(Reply(str(number), "text"))
        written = segment(tmp_path).read_bytes()
        assert max(synced) >= written.index(b'"request_id":"%d"' % number)

    async def put_many() -> None:
        await asyncio.gather(*map(put_one, range(500)))

    asyncio.run(put_many())
    assert len(synced) < 20


def test_what_was_asked_and_not_answered_may_be_paid_twice(tmp_path):
    store = LocalStore(tmp_path)
    dead = opened(tmp_path)
    for request in ("answered", "refused", "in flight"):
        asyncio.run(dead.asked(request))
    put(dead, "answered")
    dead.refused("refused")
    assert possibly_paid_twice(store) == 1
    journal = Journal(store)
    heir = journal.open(0)
    asyncio.run(heir.asked("in flight"))
    put(heir, "in flight")
    heir.close()
    journal.close()
    assert possibly_paid_twice(store) == 1


def test_a_closed_stream_says_at_its_end_what_it_left_open(tmp_path):
    journal = Journal(LocalStore(tmp_path))
    part = journal.open(0)
    asyncio.run(part.asked("1"))
    asyncio.run(part.asked("2"))
    put(part, "2")
    journal.close()
    path = segment(tmp_path)
    path.write_bytes(b"\n".join(path.read_bytes().splitlines()[-1:]) + b"\n")
    assert possibly_paid_twice(LocalStore(tmp_path)) == 1


def test_suspects_are_the_seeds_that_ran_in_a_stream_that_nobody_closed(tmp_path):
    store = LocalStore(tmp_path)
    for close in (True, False):
        journal = Journal(store, "00000003")
        part, other, finished = journal.open(3), journal.open(5), journal.open(6)
        for seed in ("done", f"running {close}"):
            asyncio.run(part.begun(seed))
        part.ended("done")
        asyncio.run(other.begun("of another partition"))
        put(other, "1", "2")
        asyncio.run(finished.begun("left by a drain"))
        finished.close()
        if close:
            journal.close()
        left = left_open(store, journal.writer)
        assert left.keys() == (set() if close else {3, 5})
    assert (left[3].suspects, left[3].replies) == (("running False",), 0)
    assert (left[5].suspects, left[5].replies) == (("of another partition",), 2)
    assert left_open(store, "00000003-nobody") == left_open(store, "") == {}


def test_a_full_stream_makes_way_for_one_that_begins_with_what_is_in_flight(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "STATE_BYTES", 1000)
    monkeypatch.setattr(reading, "_STATE_WINDOW", 4000)
    store = LocalStore(tmp_path)
    journal = Journal(store, segment_bytes=3000)
    part, other = journal.open(0, "seeds of 0"), journal.open(1, "seeds of 1")
    asyncio.run(part.asked("never answered"))
    asyncio.run(part.begun("suspect"))
    put(other, "early")
    for number in range(40):
        asyncio.run(part.asked(str(number)))
        put(part, str(number))
        assert possibly_paid_twice(store) == 1
        left = left_open(store, journal.writer)
        assert {index: (each.suspects, each.replies) for index, each in left.items()} == {
            0: (("suspect",), number + 1),
            1: ((), 1),
        }
    paths = segments(tmp_path)
    assert len(paths) > 3
    closed = [b'{"end":0' in path.read_bytes() for path in paths]
    assert closed == [True] * (len(paths) - 1) + [False]
    again = opened(tmp_path)
    assert all(again.get(str(number)) for number in range(40))
    for path in paths[:-1]:  # each stream stands alone
        path.unlink()
        assert possibly_paid_twice(store) == 1
        assert paid_seeds(store, ()).get(0) == "seeds of 0"
    journal.close()
    assert (possibly_paid_twice(store), left_open(store, journal.writer)) == (1, {})


def test_workers_of_one_session_read_each_other_only_where_a_partition_was_tried_before(tmp_path):
    store = LocalStore(tmp_path)
    put(Journal(store, "00000001").open(0), "of an earlier session")
    put(Journal(store, "00000002").open(0), "of a worker that died")
    mine = Journal(store, "00000002")
    fresh, tried = mine.open(0, again=False), mine.open(0, again=True)
    assert [bool(part.get("of an earlier session")) for part in (fresh, tried)] == [True, True]
    assert [bool(part.get("of a worker that died")) for part in (fresh, tried)] == [False, True]


def test_what_another_writes_after_the_first_look_is_read_at_the_next(tmp_path):
    store = LocalStore(tmp_path)
    journal, other = Journal(store), Journal(store).open(4)
    put(other, "1")
    assert journal.open(4).get("1")
    assert journal.open(4).get("2") is None
    put(other, "2")
    assert journal.open(4).get("2")
    assert [journal.open(4).get(name).text for name in "12"] == ["text of 1", "text of 2"]


def test_a_journal_that_cannot_be_written_says_so_and_takes_nothing_more(tmp_path):
    (tmp_path / "journal").write_text("a file where the folder should be")
    journal = Journal(LocalStore(tmp_path))
    part = PartitionJournal(journal, 0, "", {})
    with pytest.raises(JournalError, match=r"journal/.*-0000\.log could not be written .*exists"):
        asyncio.run(part.put(Reply("1", "one")))
    with pytest.raises(JournalError, match=r"an earlier record could not be written whole: .*exists"):
        asyncio.run(part.asked("2"))
    with pytest.raises(JournalError, match="an earlier record"):
        asyncio.run(PartitionJournal(journal, 1, "", {}).asked("3"))


def test_an_fsync_that_fails_reaches_everyone_who_waits(tmp_path, monkeypatch):
    journal = Journal(LocalStore(tmp_path))
    parts = [journal.open(0), journal.open(1)]
    asyncio.run(parts[0].begun("so that the stream is there"))

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)

    async def put_two() -> list[object]:
        return await asyncio.gather(*(part.put(Reply("1", "")) for part in parts), return_exceptions=True)

    assert [type(result) for result in asyncio.run(put_two())] == [JournalError, JournalError]
    assert parts[0].get("1") is None


def test_the_folder_of_all_journals_survives_a_power_cut(tmp_path, monkeypatch):
    """A folder is durable once its parent was synced after it was made."""
    synced: list[tuple[str, bool]] = []
    fsync = os.fsync

    def noted(fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        synced.append((path.name, (path / "journal").is_dir()))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    CommitLog(tmp_path / "out").open("job", {})
    assert ("out", True) in synced


def test_a_damaged_line_end_before_a_torn_tail_is_damage(tmp_path):
    asyncio.run(put_all(opened(tmp_path), [Reply("1", "one"), Reply("2", "{}}")]))
    path = segment(tmp_path)
    whole = path.read_bytes()
    for tail in (b'0badc0de {"re', b'0badc0de {"re' + bytes(9)):
        path.write_bytes(whole + tail)
        assert kinds_of_damage(tmp_path) == [True]
        path.write_bytes(whole[:-1] + b"\x8a" + tail)
        assert kinds_of_damage(tmp_path) == [False]
        with pytest.raises(CorruptDataError):
            opened(tmp_path)
    for cut in (whole[:-1], whole[:-1] + bytes(9)):
        path.write_bytes(cut)
        assert kinds_of_damage(tmp_path) == [True]


def test_damage_in_one_partition_keeps_no_other_from_being_opened(tmp_path):
    journal = Journal(LocalStore(tmp_path))
    for number in range(3):
        put(journal.open(number), f"reply of {number}")
    journal.close()
    path = segment(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"text of reply of 1", b"text of r#ply of 1"))
    assert opened(tmp_path, 0).get("reply of 0")
    assert opened(tmp_path, 2).get("reply of 2")
    with pytest.raises(CorruptDataError, match=rf"{path}: record 2 does not match its checksum"):
        opened(tmp_path, 1)
    [(key, problem, harmless)] = damage(LocalStore(tmp_path))
    assert (key, problem, harmless) == (f"journal/{path.name}", "record 2 does not match its checksum", False)


def test_a_record_that_was_written_by_half_ends_the_stream(tmp_path, monkeypatch):
    part, write = opened(tmp_path), os.write
    put(part, "1")
    calls = []

    def half(fd, data):
        calls.append(fd)
        if len(calls) == 1:
            return write(fd, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        with pytest.raises(JournalError, match="No space left on device"):
            put(part, "2")
    with pytest.raises(JournalError, match=r"an earlier record could not be written whole: .*No space"):
        put(part, "3")
    part.close()
    part._journal.close()
    assert kinds_of_damage(tmp_path) == [True]
    again = opened(tmp_path)
    assert [again.get(name) and again.get(name).text for name in "123"] == ["text of 1", None, None]


POINTS = (
    "journal.written", "journal.synced", "journal.rolled", "journal.carried", "journal.begun", "journal.indexed",
    "journal.closed",
)  # fmt: skip


def write_and_die(folder: Path, acks: Path, point: str) -> None:
    """Puts 60 replies of three partitions through streams of 4 kB and dies at the point; what returned is in `acks`."""
    crash_points.arm(point)
    journal = Journal(LocalStore(folder), segment_bytes=4000)
    parts = [journal.open(number, f"seeds of {number}") for number in range(3)]

    async def put_one(number: int) -> None:
        part = parts[number % 3]
        if part.get(str(number)):
            return
        await part.asked(str(number))
        await part.put(Reply(str(number), "text " * 20))
        with acks.open("a") as file:
            file.write(f"{number}\n")

    async def put_in_turns() -> None:
        for start in range(0, 60, 4):
            await asyncio.gather(*map(put_one, range(start, start + 4)))

    asyncio.run(put_in_turns())
    journal.close()


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_costs_no_reply_that_was_acknowledged(tmp_path, point):
    deaths = 0
    for passage in (1, 2, 3, 5, 8):
        folder, acks = tmp_path / f"run-{passage}", tmp_path / f"acks-{passage}"
        for attempt in (f"{point}:{passage}", f"{point}:1", ""):
            pid = os.fork()
            if not pid:
                write_and_die(folder, acks, attempt)
                os._exit(0)
            died = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
            deaths += died
            acked = acks.read_text().split() if acks.exists() else []
            assert len(acked) == len(set(acked)), "paid twice, though its reply was durable"
            found = {reply.request_id for reply in paid_replies(LocalStore(folder), ())}
            assert found >= set(acked)
            assert possibly_paid_twice(LocalStore(folder)) <= 4 * 2
        assert not died
        assert found == {str(number) for number in range(60)}
        assert [harmless for _, _, harmless in damage(LocalStore(folder))].count(False) == 0
    assert deaths >= 5
