"""Files and folders appear whole or not at all; the commit drills kill and fail the same calls one by one."""

import os

import pytest

from foil.engine.atomic_files import publish_folder, put_bytes, put_json, read_json
from foil.engine.errors import CorruptDataError


def test_a_write_that_fails_leaves_the_old_bytes_and_no_draft(tmp_path, monkeypatch):
    put_bytes(tmp_path / "new" / "file", b"old")

    def fail(fd):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="full"):
        put_bytes(tmp_path / "new" / "file", b"new")
    assert [path.read_bytes() for path in (tmp_path / "new").iterdir()] == [b"old"]
    put_bytes(tmp_path / "new" / "file", b"not synced", durable=False)
    assert [path.read_bytes() for path in (tmp_path / "new").iterdir()] == [b"not synced"]


def test_of_two_publishers_of_a_folder_the_first_wins_and_a_failed_one_leaves_nothing(tmp_path):
    def lose(draft):
        put_json(draft / "value", "second")
        publish_folder(tmp_path / "folder", lambda winner: put_json(winner / "value", "first"))

    publish_folder(tmp_path / "folder", lose)
    publish_folder(tmp_path / "folder", lambda _: pytest.fail("it is there"))
    assert read_json(tmp_path / "folder" / "value") == "first"
    with pytest.raises(CorruptDataError, match="does not read"):
        publish_folder(tmp_path / "other", lambda draft: read_json(draft / "absent"))
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
