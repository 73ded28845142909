"""Models and checkpoints of a run in a bucket: the mirrors of two machines hold what was published last."""

import time
from contextlib import suppress

import pytest

from foil.engine.storage.mirrors import mirror_of
from foil.engine.storage.object_store import ObjectStore
from foil.engine.storage.opening import open_store
from foil.engine.storage.trees import download, remove, upload
from tests.support.storage import servers


def test_a_mirror_gives_way_to_a_newer_model_of_the_same_size(server_of, tmp_path, monkeypatch):
    for name, value in servers.environment(server_of("localbucket")).items():
        monkeypatch.setenv(name, value)

    def machine(name):
        monkeypatch.setenv("FOIL_CACHE", str(tmp_path / name))
        return mirror_of(f"s3://{servers.BUCKET}/{tmp_path.name}") / "model"

    def publish(name, data):
        folder = machine(name)
        folder.mkdir(parents=True, exist_ok=True)
        for file in ("weights", "checksums.json"):
            (folder / file).write_bytes(data)
        upload(folder)

    def held(name):
        folder = machine(name)
        download(folder)
        return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}

    publish("one", b"old")
    assert held("two") == {"weights": b"old", "checksums.json": b"old"}
    time.sleep(1.1)  # a store may tell the time by the second
    publish("two", b"new")
    for name in ("one", "two", "three"):
        assert held(name) == {"weights": b"new", "checksums.json": b"new"}
    store = open_store(machine("one").parent)
    before = [each.modified for each in store.list_objects("model")]
    upload(machine("one"))  # in step: nothing is put again
    assert [each.modified for each in store.list_objects("model")] == before
    (machine("one") / "draft").with_name(".draft").write_bytes(b"not published")
    remove(machine("two"))
    assert not list(store.list_objects("model"))
    assert held("two") == {}


def cut_short(monkeypatch, done, act):
    """Lets `done` changes of the bucket through; the next one is the kill."""
    left = [done]

    def counted(change):
        def once(*args, **options):
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return change(*args, **options)

        return once

    def delete_one_by_one(self, keys, change=ObjectStore.delete):
        for key in keys:
            counted(change)(self, [key])

    with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
        for name in ("put", "put_file"):
            patched.setattr(ObjectStore, name, counted(getattr(ObjectStore, name)))
        patched.setattr(ObjectStore, "delete", delete_one_by_one)
        act()


@pytest.mark.parametrize("done", range(7))
def test_what_a_kill_cut_short_is_seen_by_no_other_machine_and_is_done_by_the_next_upload(
    server_of, tmp_path, monkeypatch, done
):
    for name, value in servers.environment(server_of("localbucket")).items():
        monkeypatch.setenv(name, value)
    files = {"checksums.json": b"1", "moments": b"2", "sub/weights": b"3"}

    def machine(name):
        monkeypatch.setenv("FOIL_CACHE", str(tmp_path / name))
        return mirror_of(f"s3://{servers.BUCKET}/{tmp_path.name}") / "checkpoints" / "step-00000002"

    def held(name):
        folder = machine(name)
        download(folder.parent)
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    first = machine("one")
    for name, data in files.items():
        (first / name).parent.mkdir(parents=True, exist_ok=True)
        (first / name).write_bytes(data)
    cut_short(monkeypatch, done, lambda: upload(first, whole=True))
    assert held("two") == (files if done >= 5 else {})  # the mark, three files, the mark's removal
    upload(machine("one"), whole=True)
    assert held("three") == files
    machine("one")
    cut_short(monkeypatch, done, lambda: remove(first))
    assert held("four") == ({} if done else files)
    remove(machine("one"))
    assert not list(open_store(machine("one").parents[1]).list_objects("checkpoints"))
