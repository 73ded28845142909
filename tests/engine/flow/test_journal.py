"""The journal: what was put is there after a crash, what was torn is not, and what may be paid twice is counted."""

import asyncio
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets_out.commits.log import CommitLog
from engine.errors import CorruptDataError, JournalError
from engine.flow.journal import Journal, damage, paid_replies, possibly_paid_twice, unclosed_segments
from engine.requests import Reply

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


async def put_all(journal: Journal, replies: list[Reply]) -> None:
    await asyncio.gather(*(journal.put(reply) for reply in replies))


def segment(folder: Path) -> Path:
    [path] = folder.glob("*/*.log")
    return path


@given(REPLIES)
@settings(max_examples=50, deadline=None)
def test_every_reply_comes_back_as_it_was_put(replies):
    with tempfile.TemporaryDirectory() as name:
        journal = Journal(Path(name), 7, "a")
        asyncio.run(put_all(journal, replies))
        for source in (journal, Journal(Path(name), 7, "b")):
            assert [source.get(reply.request_id) for reply in replies] == replies
        assert Journal(Path(name), 8, "a").get("x") is None
        assert list(paid_replies(Path(name), ())) == replies
        assert list(paid_replies(Path(name), {7})) == []


@given(REPLIES.filter(len), st.data())
@settings(max_examples=50, deadline=None)
def test_a_torn_or_damaged_journal_gives_true_replies_or_none(replies, data):
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(put_all(Journal(Path(name), 0, "a"), replies))
        path = segment(Path(name))
        raw = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, len(raw) - 1))
        if data.draw(st.booleans()):
            raw[at] ^= 1 << data.draw(st.integers(0, 7))
        else:
            del raw[at:]
        path.write_bytes(raw)
        kinds = [harmless for _, _, harmless in damage(Path(name))]
        if not all(kinds):  # damage inside: what it held would be paid for again
            with pytest.raises(CorruptDataError, match="does not match its checksum"):
                Journal(Path(name), 0, "b")
            return
        found = [Journal(Path(name), 0, "b").get(reply.request_id) for reply in replies]
        assert all(there in (None, reply) for there, reply in zip(found, replies, strict=True))
        whole = raw[:at].count(b"\n")
        assert found[:whole] == replies[:whole]
        assert len(kinds) == (not raw.endswith(b"\n")) * bool(raw)


def test_a_new_segment_goes_on_after_a_torn_one(tmp_path):
    asyncio.run(put_all(Journal(tmp_path, 0, "a"), [Reply("1", "one")]))
    with segment(tmp_path).open("ab") as file:
        file.write(b'0badc0de {"reply": {"request_id": "2", "te')
    second = Journal(tmp_path, 0, "b")
    asyncio.run(put_all(second, [Reply("2", "two")]))
    third = Journal(tmp_path, 0, "c")
    assert (third.get("1"), third.get("2")) == (Reply("1", "one"), Reply("2", "two"))


def test_the_first_reply_to_a_request_stays(tmp_path):
    journal = Journal(tmp_path, 0, "a")
    asyncio.run(journal.put(Reply("1", "first")))
    asyncio.run(journal.put(Reply("1", "second")))
    assert journal.get("1") == Journal(tmp_path, 0, "b").get("1") == Reply("1", "first")


def test_many_replies_share_one_fsync_and_none_returns_before_its_own(tmp_path, monkeypatch):
    synced: list[int] = []
    fsync = os.fsync

    def measured(fd: int) -> None:
        size = os.fstat(fd).st_size
        fsync(fd)
        synced.append(size)

    monkeypatch.setattr(os, "fsync", measured)
    journal = Journal(tmp_path, 0, "a")

    async def put(number: int) -> None:
        await journal.put(Reply(str(number), "text"))
        written = segment(tmp_path).read_bytes()
        assert max(synced) >= written.index(b'"request_id":"%d"' % number)

    async def put_many() -> None:
        await asyncio.gather(*map(put, range(500)))

    asyncio.run(put_many())
    assert len(synced) < 20


def test_a_free_reply_is_written_without_an_fsync(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda fd: pytest.fail("synced"))
    asyncio.run(Journal(tmp_path, 0, "a").put(Reply("1", "one"), durable=False))
    assert Journal(tmp_path, 0, "b").get("1") == Reply("1", "one")


def test_what_was_asked_and_not_answered_may_be_paid_twice(tmp_path):
    dead = Journal(tmp_path, 0, "dead")
    for request in ("answered", "refused", "in flight"):
        dead.asked(request)
    asyncio.run(dead.put(Reply("answered", "")))
    dead.refused("refused")
    assert possibly_paid_twice(tmp_path) == 1
    heir = Journal(tmp_path, 0, "heir")
    heir.asked("in flight")
    asyncio.run(heir.put(Reply("in flight", "")))
    heir.close()
    assert possibly_paid_twice(tmp_path) == 1


def test_a_closed_segment_says_at_its_end_what_it_left_open(tmp_path):
    journal = Journal(tmp_path, 0, "a")
    journal.asked("1")
    journal.asked("2")
    asyncio.run(journal.put(Reply("2", "")))
    journal.close()
    path = segment(tmp_path)
    path.write_bytes(b"\n".join(path.read_bytes().splitlines()[-1:]) + b"\n")
    assert possibly_paid_twice(tmp_path) == 1


def test_suspects_are_the_seeds_that_ran_in_a_segment_that_nobody_closed(tmp_path):
    for writer, close in (("a", True), ("b", False)):
        journal = Journal(tmp_path, 3, writer)
        for seed in ("done", f"running in {writer}"):
            journal.begun(seed)
        journal.ended("done")
        if close:
            journal.close()
    [segment] = unclosed_segments(tmp_path, 3)
    assert (segment.name, segment.suspects, segment.replies) == ("b.log", ("running in b",), 0)
    assert not list(unclosed_segments(tmp_path, 4))


def test_a_journal_that_cannot_be_written_says_so_and_takes_nothing_more(tmp_path):
    (tmp_path / "00000000").write_text("a file where the folder should be")
    journal = Journal(tmp_path, 0, "a")
    with pytest.raises(JournalError, match=r"00000000/a\.log could not be written .*exists"):
        asyncio.run(journal.put(Reply("1", "one")))
    with pytest.raises(JournalError, match=r"an earlier record could not be written whole: .*exists"):
        journal.asked("2")


def test_an_fsync_that_fails_reaches_everyone_who_waits(tmp_path, monkeypatch):
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    journal = Journal(tmp_path, 0, "a")

    async def put_two() -> list[object]:
        return await asyncio.gather(*(journal.put(Reply(str(i), "")) for i in range(2)), return_exceptions=True)

    assert [type(result) for result in asyncio.run(put_two())] == [JournalError, JournalError]
    assert journal.get("0") is None


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
    asyncio.run(put_all(Journal(tmp_path, 0, "a"), [Reply("1", "one"), Reply("2", "{}}")]))
    path = segment(tmp_path)
    whole = path.read_bytes()
    for tail in (b'0badc0de {"re', b'0badc0de {"re' + bytes(9)):
        path.write_bytes(whole + tail)
        assert [harmless for _, _, harmless in damage(tmp_path)] == [True]
        path.write_bytes(whole[:-1] + b"\x8a" + tail)
        assert [harmless for _, _, harmless in damage(tmp_path)] == [False]
        with pytest.raises(CorruptDataError):
            Journal(tmp_path, 0, "b")
    for cut in (whole[:-1], whole[:-1] + bytes(9)):
        path.write_bytes(cut)
        assert [harmless for _, _, harmless in damage(tmp_path)] == [True]


def test_a_record_that_was_written_by_half_ends_the_segment(tmp_path, monkeypatch):
    journal, write = Journal(tmp_path, 0, "a"), os.write
    asyncio.run(journal.put(Reply("1", "one")))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: write(fd, data[: len(data) // 2]))
        with pytest.raises(JournalError, match=r"only \d+ of \d+ bytes were written"):
            asyncio.run(journal.put(Reply("2", "two")))
    with pytest.raises(JournalError, match=r"an earlier record could not be written whole: only \d+ of"):
        asyncio.run(journal.put(Reply("3", "three")))
    journal.close()
    assert [harmless for _, _, harmless in damage(tmp_path)] == [True]
    again = Journal(tmp_path, 0, "b")
    assert [again.get(name) for name in "123"] == [Reply("1", "one"), None, None]
