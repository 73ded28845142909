"""Copies of a bucket's objects on this machine: shared, bounded, and never taken from under a reader."""

import hashlib
import os
import threading
import time

import pytest

from foil.engine.errors import CorruptDataError, UsageError
from foil.engine.storage.copies import KEPT_S, Copies, limit_bytes


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def age(path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


def test_the_longest_unused_copies_go_first_and_none_that_was_used_within_the_hour(tmp_path):
    copies = Copies(tmp_path)
    data = [bytes([i]) * 100 for i in range(6)]
    paths = [copies.fetch(digest(each), "key", lambda each=each: [each]) for each in data]
    for i, path in enumerate(paths[:4]):
        age(path, KEPT_S + 1_000 - 100 * i)
    (draft := paths[0].with_name(".abandoned")).write_bytes(b"half")
    assert copies.remove_unused(1_000) == 0
    age(draft, 90_000)
    assert copies.fetch(digest(data[0]), "key", lambda: pytest.fail("it is there")) == paths[0]  # used just now
    assert copies.remove_unused(450) == 204
    assert [path.exists() for path in paths] == [True, False, False, True, True, True]
    assert not draft.exists()
    assert copies.remove_unused(0) == 100
    assert [path.exists() for path in paths] == [True, False, False, False, True, True]
    assert copies.fetch(digest(data[1]), "key", lambda: [data[1]]).read_bytes() == data[1]


def test_a_download_makes_room_by_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("FOIL_CACHE_BYTES", "150")
    monkeypatch.setattr(Copies, "_looked", 0.0)
    old = Copies(tmp_path).fetch(digest(b"o" * 100), "key", lambda: [b"o" * 100])
    age(old, KEPT_S + 1)
    monkeypatch.setattr(Copies, "_looked", 0.0)
    new = Copies(tmp_path).fetch(digest(b"n" * 100), "key", lambda: [b"n" * 100])
    assert (old.exists(), new.exists()) == (False, True)
    monkeypatch.setenv("FOIL_CACHE_BYTES", "lots")
    with pytest.raises(UsageError, match="'lots'"):
        limit_bytes()


def test_other_bytes_or_a_broken_download_leave_nothing(tmp_path):
    def breaks():
        yield b"half"
        raise ConnectionError("gone")

    with pytest.raises(CorruptDataError, match=f"shards/7 has the sha256 {digest(b'other')}"):
        Copies(tmp_path).fetch(digest(b"data"), "shards/7", lambda: [b"other"])
    with pytest.raises(ConnectionError):
        Copies(tmp_path).fetch(digest(b"data"), "shards/7", breaks)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and ".locks" not in path.parts]
    assert Copies(tmp_path).fetch(digest(b"data"), "shards/7", lambda: [b"da", b"ta"]).read_bytes() == b"data"


def test_of_many_threads_one_downloads(tmp_path):
    reads, data = [], b"data" * 1_000

    def read():
        reads.append(1)
        time.sleep(0.1)
        return [data]

    threads = [threading.Thread(target=Copies(tmp_path).fetch, args=(digest(data), "key", read)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert reads == [1]
