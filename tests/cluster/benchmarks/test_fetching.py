"""Benchmarks from a hub on loopback: pinned at the first fetch, resumed, checked; and what cannot be fetched."""

import json

import pytest

from foil.cluster.benchmarks.fetching import HUB
from tests.support.storage.hub_of_data_sets import NEW, OLD, foil, serving
from tests.trainer.evaluate.benchmarks.tiny_benchmarks import write_benchmark


@pytest.fixture
def hub(tmp_path):
    write_benchmark("infosearch", tmp_path / "tiny")
    tiny = next(path for path in (tmp_path / "tiny").iterdir() if path.is_dir())
    for repository in HUB["infosearch"].values():
        (tmp_path / "hub" / repository).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "hub" / repository).symlink_to(tiny, target_is_directory=True)
    yield from serving(tmp_path / "hub")


@pytest.mark.slow
def test_a_fetched_benchmark_is_pinned_read_and_taken_at_the_same_revision_again(hub, tmp_path):
    folder = tmp_path / "info"
    assert foil(hub, "benchmarks", "fetch", "infosearch", "--to", folder)[0] == 0
    lock = json.loads((folder / "fetched.json").read_text())
    assert {name.split("/")[0] for name in lock} == set(HUB["infosearch"])
    assert all(f"/resolve/{OLD}/" in entry["url"] and len(entry["sha256"]) == 64 for entry in lock.values())
    code, told = foil(hub, "evaluate", "bm25", "--on", f"infosearch:{folder}#Clarity-v1", "--out", tmp_path / "out")
    assert (code, "Traceback" in told) == (0, False)
    hub.newest, hub.asked = NEW, []
    next(folder.rglob("corpus*")).unlink()
    code, told = foil(hub, "benchmarks", "fetch", "infosearch", "--to", folder, "--json")
    assert (code, '{"files": ["' in told) == (0, True)
    taken = [path for path in hub.asked if "/resolve/" in path]
    assert len(taken) == 1
    assert f"/resolve/{OLD}/" in taken[0]


@pytest.mark.slow
def test_a_part_alone_a_named_revision_and_what_cannot_be_fetched(hub, tmp_path):
    one = ["benchmarks", "fetch", "infosearch", "--to", tmp_path / "one", "--only", "Format-v1/*", "--revision", NEW]
    assert foil(hub, *one)[0] == 0
    lock = json.loads((tmp_path / "one" / "fetched.json").read_text())
    assert {(name.split("/")[0], f"/{NEW}/" in entry["url"]) for name, entry in lock.items()} == {("Format-v1", True)}
    for arguments, code, told in (
        (["pir"], 2, "bring a folder with pir_two_tasks.json"),
        (["infosearch", "--only", "nothing*"], 2, "no file of infosearch matches 'nothing*'"),
        (["mair"], 1, "the hub does not list MAIR-Bench/MAIR-Queries"),
        (["nothing"], 2, "there is no benchmark 'nothing'"),
    ):
        found = foil(hub, "benchmarks", "fetch", *arguments, "--to", tmp_path / "none")
        assert (found[0], told in found[1]) == (code, True), found
