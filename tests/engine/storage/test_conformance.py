"""The laws of a store, the same for a folder and for every server that is installed here."""

import hashlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from foil.engine.errors import CorruptDataError, UsageError
from foil.engine.storage.local_store import LocalStore
from tests.support.paths import REPO

SPAWN = multiprocessing.get_context("spawn")


def keys(objects) -> list[str]:
    return [found.key for found in objects]


def test_what_was_put_is_read_ranged_and_gone_once_deleted(store):
    assert store.get("a/one") is None
    assert store.put_if_absent("a/one", b"first") is None
    assert store.put_if_absent("a/one", b"first") is None  # equal bytes: the caller cannot tell, and need not
    assert store.put_if_absent("a/one", b"other") == b"first"
    assert store.get("a/one") == b"first"
    store.put("a/one", b"replaced")
    store.put("a/two", b"")
    assert (store.get("a/one"), store.get("a/two")) == (b"replaced", b"")
    assert [store.get_range("a/one", *part) for part in ((0, 3), (3, 3), (5, 99), (8, 1), (99, 1), (2, 0))] == [
        b"rep", b"lac", b"ced", b"", b"", b"",
    ]  # fmt: skip
    store.delete(["a/one", "a/absent", "absent/too"])
    assert store.get("a/one") is None
    with pytest.raises(FileNotFoundError, match="a/one"):
        store.get_range("a/one", 0, 1)
    assert store.put_if_absent("a/one", b"anew") is None
    assert keys(store.list_objects("")) == ["a/one", "a/two"]


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a//b", "../a", "a/../b", ".", ".hidden", "a/.b", "a\\b", "a\nb", "staging/a", "a" * 256]
)
def test_what_is_no_key_is_refused_by_every_verb(store, key):
    verbs = [
        lambda: store.put_if_absent(key, b""), lambda: store.put(key, b""), lambda: store.get(key),
        lambda: store.get_range(key, 0, 1), lambda: store.delete([key]), lambda: store.append(key),
        lambda: store.read_stream(key), lambda: store.fetch(key, "0" * 64),
    ]  # fmt: skip
    if key:
        verbs.append(lambda: list(store.list_objects(key)))
    for verb in verbs:
        with pytest.raises(ValueError, match="is no key of a store"):
            verb()


def test_a_listing_is_in_order_of_key_under_its_folder_and_goes_on_after_a_key(store, request):
    names = ["a/b/c", "a/b/d", "a-b", "a/b-c", "ab/c", "a/é", "a/b c", "a/%41+=@,#?*[~&:", "b/1", "B/1", "a/x.json"]
    for name in names:
        store.put(name, name.encode())
    afters = [*names, "a/b/", "a", "a/b", "zzz", "a/b/c0"]
    if "seaweedfs" in request.node.name:  # it lists as a tree, where "a" and all below come before "a-b"
        store.delete(apart := ["a-b", "a/b-c", "a/b c"])
        afters = names = [name for name in names if name not in apart]
    assert keys(store.list_objects("")) == sorted(names)
    assert [store.get(key) for key in keys(store.list_objects(""))] == [name.encode() for name in sorted(names)]
    assert keys(store.list_objects("a")) == sorted(name for name in names if name.startswith("a/"))
    assert keys(store.list_objects("a/b")) == ["a/b/c", "a/b/d"]
    assert keys(store.list_objects("absent")) == keys(store.list_objects("a/b/c")) == []
    for after in afters:
        assert keys(store.list_objects("", after=after)) == sorted(name for name in names if name > after)
        under = sorted(name for name in names if name > after and name.startswith("a/"))
        assert keys(store.list_objects("a", after=after)) == under
    found = next(store.list_objects("a/b"))
    assert (found.key, found.bytes) == ("a/b/c", 5)
    assert abs(found.modified - time.time()) < 120


@pytest.mark.slow
def test_pages_of_a_listing_hold_every_key_once(store):
    names = [f"many/{i:05d}" for i in range(1_013)]  # a page has 1,000
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda name: store.put(name, b"1"), names))
    assert keys(store.list_objects("many")) == names
    assert keys(store.list_objects("many", after=names[10])) == names[11:]
    store.delete(names[:40])
    assert keys(store.list_objects("many")) == names[40:]


def test_of_eight_threads_exactly_one_wins_each_key_and_its_bytes_stand(store):
    def create(key: str, writer: int) -> bytes | None:
        return store.put_if_absent(key, f"{key} of {writer}".encode())

    for round_number in range(30 if isinstance(store, LocalStore) else 3):
        key = f"race/{round_number:02d}"
        with ThreadPoolExecutor(8) as threads:
            said = list(threads.map(lambda writer, key=key: create(key, writer), range(8)))
        winner = said.index(None)
        standing = f"{key} of {winner}".encode()
        assert said == [None if writer == winner else standing for writer in range(8)]
        assert store.get(key) == standing
        assert keys(store.list_objects("race"))[-1] == key


def test_a_put_is_seen_whole_by_readers_all_the_while(store):
    old, new = b"o" * 300_000, b"n" * 200_000
    store.put("whole", old)
    with ThreadPoolExecutor(3) as threads:
        writing = threads.submit(lambda: [store.put("whole", data) for data in (new, old) * 8])
        seen = set()
        while not writing.done():
            seen.add(store.get("whole"))
        writing.result()
    assert seen <= {old, new}
    assert seen


def test_a_file_of_many_parts_is_put_and_fetched_as_it_is(store, tmp_path):
    data = os.urandom(1 << 20) * 20 + b"end"
    (tmp_path / "file").write_bytes(data)
    (tmp_path / "empty").touch()
    for key, name in (("big/file", "file"), ("big/empty", "empty")):
        store.put_file(key, tmp_path / name)
        expected = (tmp_path / name).read_bytes()
        digest = hashlib.sha256(expected).hexdigest()
        assert store.get(key) == expected
        path = store.fetch(key, digest)
        assert path.read_bytes() == expected
        assert store.fetch(key, digest) == path
    with pytest.raises(FileNotFoundError):
        store.put_file("big/none", tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="big/none"):
        store.fetch("big/none", "0" * 64)


def test_a_stream_is_read_while_it_is_written_and_is_never_opened_twice(store):
    assert store.streams("journal") == []
    with pytest.raises(FileNotFoundError, match="journal/one"):
        store.read_stream("journal/one")
    stream = store.append("journal/one")
    with pytest.raises(FileExistsError, match="journal/one"):
        store.append("journal/one")
    stream.write(b"one ")
    stream.write(b"two ")
    stream.sync()
    stream.sync()
    stream.write(b"three")
    assert store.read_stream("journal/one").startswith(b"one two ")
    stream.sync()
    assert store.read_stream("journal/one", 2) == b"e two three"
    assert store.read_stream("journal/one", 2, 4) == b"e tw"
    assert store.read_stream("journal/one", 13) == store.read_stream("journal/one", 99) == b""
    stream.write(b" four")
    stream.close()
    for again in (lambda: stream.write(b"x"), stream.sync):
        with pytest.raises(OSError, match="closed"):
            again()
    stream.close()
    store.append("journal/two/deep").close()
    assert [(found.key, found.bytes) for found in store.streams("journal")] == [
        ("journal/one", 18), ("journal/two/deep", 0),
    ]  # fmt: skip
    with pytest.raises(FileExistsError, match="journal/one"):
        store.append("journal/one")
    store.put("journal/object", b"1")
    with pytest.raises(FileExistsError, match="journal/object"):
        store.append("journal/object")
    assert store.broken_streams("journal") == []
    store.delete(["journal/one", "journal/object"])
    assert keys(store.streams("journal")) == ["journal/two/deep"]


def test_a_long_stream_and_one_synced_by_another_thread_keep_their_order(store):
    stream = store.append("journal/long")
    data = [bytes([i]) * 1_000_003 for i in range(10)]
    with ThreadPoolExecutor(1) as threads:
        syncs = []
        for part in data:
            stream.write(part)
            syncs.append(threads.submit(stream.sync))
        for sync in syncs:
            sync.result()
    whole = b"".join(data)
    assert store.read_stream("journal/long") == whole
    assert store.read_stream("journal/long", 999_999, 5_000_000) == whole[999_999:5_999_999]
    assert store.streams("journal")[0].bytes == len(whole)
    stream.close()


WRITER = """
import pickle, sys
store = pickle.loads(bytes.fromhex(sys.argv[1]))
stream = store.append("journal/torn")
for i in range(100_000):
    stream.write(b"%07d;" % i)
    stream.sync()
    print(i, flush=True)
"""


@pytest.mark.parametrize("round_number", range(3))
def test_what_a_killed_process_had_synced_is_read(store, round_number):
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, pickle.dumps(store).hex()], stdout=subprocess.PIPE, text=True, cwd=REPO
    )
    acked = [writer.stdout.readline() for _ in range(5 + 7 * round_number)]
    writer.send_signal(signal.SIGKILL)
    acked += writer.stdout.readlines()
    writer.wait()
    last = int(acked[-1] if acked[-1].endswith("\n") else acked[-2])
    data = store.read_stream("journal/torn")
    synced = b"".join(b"%07d;" % i for i in range(last + 1))
    assert data.startswith(synced)
    assert len(data) <= len(synced) + 8
    with pytest.raises(FileExistsError):
        store.append("journal/torn")


def create_in_child(store, writer: int) -> list[bytes | None]:
    return [store.put_if_absent(f"spawned/{i}", b"%d" % writer) for i in range(5)]


def test_a_store_goes_to_other_processes_and_they_race_as_threads_do(store):
    store.put("before", b"1")  # connected before the others start
    with SPAWN.Pool(2) as pool:
        one, two = pool.starmap(create_in_child, [(store, 1), (store, 2)])
    assert all({mine, theirs} in ({None, b"1"}, {None, b"2"}) for mine, theirs in zip(one, two, strict=True))
    for i in range(5):
        assert store.get(f"spawned/{i}") == (b"1" if one[i] is None else b"2")


def test_a_forked_process_uses_a_folder_and_is_told_of_a_bucket_that_its_parent_used(store):
    store.put("before", b"1")
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            told = str(store.put_if_absent("forked", b"child"))
        except UsageError as error:
            told = str(error)
        os.write(write, told.encode())
        os._exit(0)
    os.waitpid(pid, 0)
    told = os.read(read, 1_000).decode()
    assert told == "None" if isinstance(store, LocalStore) else "start it by spawn" in told


def fetch_in_child(store, digest: str) -> str:
    return str(store.fetch("shards/one", digest))


def test_two_processes_fetch_one_key_to_one_file(store):
    data = os.urandom(3 << 20)
    store.put("shards/one", data)
    digest = hashlib.sha256(data).hexdigest()
    with SPAWN.Pool(2) as pool:
        paths = pool.starmap(fetch_in_child, [(store, digest)] * 4)
    assert len(set(paths)) == 1
    assert store.fetch("shards/one", digest).read_bytes() == data
    if not isinstance(store, LocalStore):
        store.put("shards/one", data[::-1])
        with pytest.raises(CorruptDataError, match="shards/one has the sha256"):
            store.fetch("shards/one", hashlib.sha256(b"other").hexdigest())
