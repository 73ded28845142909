"""Notes: durable lines, the newest counts, a torn line is left out and cut off, damage is told, SQL sees them."""

import multiprocessing

import pytest

from foil.datasets_out.notes.notes import put_note, read_notes
from foil.datasets_out.sql.query import run_sql
from foil.engine.errors import CorruptDataError
from tests.support import sample_run


def note(out, topic="t", author="ann", flag="", text="x"):
    put_note(out, topic_id=topic, author=author, flag=flag, note=text, noted_at="2026-01-01T00:00:00+00:00")


def many(out, author):
    for number in range(50):
        note(out, f"t{number}", author, text="word " * 2000)


def test_the_newest_note_of_an_author_counts_and_an_empty_one_takes_it_back(tmp_path):
    note(tmp_path, text="first")
    note(tmp_path, author="bob", flag="bad", text="")
    note(tmp_path, text="second")
    note(tmp_path, topic="u", text="gone")
    note(tmp_path, topic="u", text="")
    rows = [(row["topic_id"], row["author"], row["flag"], row["note"]) for row in read_notes(tmp_path).to_pylist()]
    assert rows == [("t", "ann", "", "second"), ("t", "bob", "bad", "")]


def test_a_torn_line_is_left_out_and_the_next_note_stands_whole(tmp_path):
    note(tmp_path, text="kept")
    path = tmp_path / "desk" / "notes.jsonl"
    path.write_bytes(path.read_bytes() + b'{"topic_id": "u", "au')
    assert read_notes(tmp_path).num_rows == 1
    note(tmp_path, topic="v")
    assert read_notes(tmp_path)["topic_id"].to_pylist() == ["t", "v"]


def test_damage_is_told_and_spoils_no_query_that_asks_for_other_things(tmp_path):
    out = sample_run.make(tmp_path / "out")
    note(out)
    path = out / "desk" / "notes.jsonl"
    path.write_bytes(b"no JSON\n" + path.read_bytes())
    with pytest.raises(CorruptDataError, match="does not hold notes"):
        read_notes(out)
    with pytest.raises(CorruptDataError):
        run_sql(out, "FROM notes")
    assert run_sql(out, "SELECT count(*) FROM topics").column(0).to_pylist() == [5]


def test_several_processes_write_at_a_time(tmp_path):
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=many, args=(tmp_path, author)) for author in ("ann", "bob")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert read_notes(tmp_path).num_rows == 100
