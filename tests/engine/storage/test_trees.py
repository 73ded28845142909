"""Models and checkpoints of a run in a bucket: the mirrors of two machines hold what was published last."""

import time

from engine.storage.mirrors import mirror_of
from engine.storage.opening import open_store
from engine.storage.trees import download, remove, upload
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
