"""The local store against a file system that fails at each call in turn, and what a folder may be opened as."""

import errno
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from foil.engine.atomic_files import FileSystem
from foil.engine.errors import CorruptDataError, UsageError
from foil.engine.storage.local_store import LocalStore
from foil.engine.storage.opening import mirror_of, open_store
from tests.support.drills.commit_drill import HookedFileSystem


class FailingFileSystem(HookedFileSystem):
    """Fails the k-th call, or that and all later ones."""

    def __init__(self, k: int, *, for_good: bool) -> None:
        self.k, self.for_good, self.calls = k, for_good, 0

    def before(self) -> None:
        self.calls += 1
        if self.calls == self.k or (self.for_good and self.calls > self.k):
            raise OSError(errno.EIO, "injected")


@pytest.mark.parametrize("for_good", [False, True])
@pytest.mark.parametrize("verb", ["put_if_absent", "put", "append"])
def test_a_put_whose_kth_call_fails_has_happened_whole_or_not_at_all(tmp_path, verb, for_good):
    for k in range(1, 100):
        root = tmp_path / str(k)
        told = attempt(LocalStore(root, fails := FailingFileSystem(k, for_good=for_good)), verb)
        assert not told or str(root) in told
        sound = LocalStore(root)
        assert sound.get("a/key") in ({None, b"", b"whole"} if verb == "append" else {None, b"whole"})
        if not told:
            assert sound.get("a/key") == b"whole"
        if verb != "append":
            assert getattr(sound, verb)("a/key", b"whole") is None
            assert [found.key for found in sound.list_objects("")] == ["a/key"]
        if fails.calls < k:
            break
    assert k > 8


def attempt(store: LocalStore, verb: str) -> str:
    """What the store said when it failed; "" if it did not."""
    try:
        if verb == "append":
            stream = store.append("a/key")
            stream.write(b"whole")
            stream.sync()
        else:
            assert getattr(store, verb)("a/key", b"whole") is None
    except OSError as error:
        return str(error)
    return ""


def test_a_stream_that_failed_takes_nothing_more_and_keeps_what_was_synced(tmp_path):
    class Full(FileSystem):
        full = False

        def write(self, fd: int, data: memoryview) -> int:
            if self.full:
                raise OSError(errno.ENOSPC, "full")
            return os.write(fd, data[:3])

    store = LocalStore(tmp_path, disk := Full())
    stream = store.append("journal/one")
    stream.write(b"written in parts")
    stream.sync()
    disk.full = True
    with pytest.raises(OSError, match=r"full.*journal/one"):
        stream.write(b"lost")
    disk.full = False
    for again in (lambda: stream.write(b"hole"), stream.sync):
        with pytest.raises(OSError, match="nothing more is written"):
            again()
    stream.close()
    assert store.read_stream("journal/one") == b"written in parts"


def test_a_stream_is_synced_while_it_is_written_and_takes_nothing_after_an_interrupted_write(tmp_path):
    class Interrupted(FileSystem):
        during = None

        def write(self, fd: int, data: memoryview) -> int:
            if self.during:
                self.during()
            return super().write(fd, data)

    def interrupt():
        raise KeyboardInterrupt

    store = LocalStore(tmp_path, disk := Interrupted())
    stream = store.append("journal/one")
    disk.during = stream.sync
    stream.write(b"one")
    disk.during = interrupt
    with pytest.raises(KeyboardInterrupt):
        stream.write(b"half")
    disk.during = None
    stream.sync()
    with pytest.raises(OSError, match="a write did not end"):
        stream.write(b"more")
    assert store.read_stream("journal/one") == b"one"


def test_a_key_that_meets_a_folder_is_an_error_with_its_name(tmp_path):
    store = LocalStore(tmp_path)
    store.put("a/b", b"1")
    for meet in (lambda: store.get("a"), lambda: store.put_if_absent("a", b"2")):
        with pytest.raises(OSError, match=r"'.*/a'"):
            meet()
    with pytest.raises(OSError, match="a/b"):
        store.put("a/b/c", b"2")
    assert store.get("a/b/c") is None


def test_a_folder_is_a_local_store_and_a_url_has_a_folder_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("FOIL_CACHE", str(tmp_path / "cache"))
    assert mirror_of("runs/a") == Path("runs/a")
    store = pickle.loads(pickle.dumps(open_store(tmp_path / "run")))
    assert (type(store), store.folder, store.url) == (LocalStore, tmp_path / "run", str(tmp_path / "run"))
    folder = mirror_of("s3://bucket/a/run/")
    assert folder == mirror_of("s3://bucket/a/run")
    assert folder.is_relative_to(tmp_path / "cache" / "runs")
    assert folder != mirror_of("gs://bucket/a/run")
    (folder / ".store.json").unlink()
    with pytest.raises(CorruptDataError, match="name the bucket's URL again"):
        open_store(folder)
    (folder / ".store.json").write_text("{")
    with pytest.raises(CorruptDataError, match="does not read"):
        open_store(folder)


@pytest.mark.parametrize(
    "url",
    ["ftp://host/run", "s3:///run", "s3://", "s3:/bucket/run", "s3://key:secret@bucket/run", "az://box/run?sig=secret",
     "s3://bucket/a//b", "s3://bucket/../b", "memory://"],
)  # fmt: skip
def test_a_url_that_is_no_place_for_a_run_is_refused_without_its_secret(url):
    with pytest.raises(UsageError) as refused:
        mirror_of(url)
    assert "secret" not in str(refused.value)


def test_threads_that_begin_a_store_at_once_all_write_to_it(tmp_path):
    for number in range(150):
        store, begin = LocalStore(tmp_path / str(number)), Barrier(8)

        def put(name, store=store, begin=begin):
            begin.wait()
            store.put(f"{name}/a", b"x")

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(put, range(8)))
        assert len(list(store.list_objects(""))) == 8
