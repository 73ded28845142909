"""A bucket behind a network that loses, doubles and delays: nothing is lost, and no key has two winners."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from foil.engine.errors import NotReadyError
from foil.engine.storage.laws import check_store, try_laws
from foil.engine.storage.object_store import ObjectStore
from tests.support.commands import foil
from tests.support.storage import servers
from tests.support.storage.fault_proxy import FAULTS, FaultProxy, proxied

WRITERS = 4


@pytest.fixture
def stores(make_store, server_of, monkeypatch):
    """Makes a store behind a proxy, and the same one straight to the server."""
    running = []

    def make(seed: int, faults=FAULTS, **options):
        direct = make_store("localbucket")
        assert direct.get("connected") is None  # now: the variables change
        context = proxied(FaultProxy(server_of("localbucket"), seed, faults, **options))
        proxy = context.__enter__()
        running.append(context)
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        return proxy, direct, lambda: ObjectStore(direct.url, patience_s=60)

    yield make
    for context in running:
        context.__exit__(None, None, None)


def compete(stores, seed: int, keys: int) -> dict[str, int]:
    """Writers create the same keys, each with bytes of its own; then what each was told is held to what stands."""
    proxy, direct, behind = stores(seed)
    clients = [behind() for _ in range(WRITERS)]
    turns = [(key, writer) for key in range(keys) for writer in range(WRITERS)]

    def create(turn: tuple[int, int]) -> bytes | None:
        key, writer = turn
        return clients[writer].put_if_absent(f"commits/{key:08d}", b"%d by %d" % turn)

    with ThreadPoolExecutor(48) as threads:
        told = dict(zip(turns, threads.map(create, turns), strict=True))
    lost = doubled = wrong = 0
    for key in range(keys):
        standing = direct.get(f"commits/{key:08d}")
        winners = [writer for writer in range(WRITERS) if told[key, writer] is None]
        lost += not winners
        doubled += len(winners) > 1
        wrong += any(
            (b"%d by %d" % (key, writer) if told[key, writer] is None else told[key, writer]) != standing
            for writer in range(WRITERS)
        )
    counts = {"creates": len(turns), "faults": proxy.met.total() - proxy.met[""], "lost": lost, "doubled": doubled}
    print(f"seed {seed}: {counts}, wrong answers {wrong}; {dict(proxy.met)}")
    assert set(FAULTS) <= set(proxy.met)
    return {**counts, "wrong": wrong}


@pytest.mark.slow
def test_hundreds_of_contended_creates_are_neither_lost_nor_doubled(stores):
    counts = compete(stores, 1, 150)
    assert (counts["lost"], counts["doubled"], counts["wrong"]) == (0, 0, 0)
    assert counts["faults"] > 100


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_thousands_of_contended_creates_are_neither_lost_nor_doubled(stores, seed):
    counts = compete(stores, seed, 1_000)
    assert (counts["lost"], counts["doubled"], counts["wrong"]) == (0, 0, 0)


@pytest.mark.slow
def test_files_streams_and_listings_come_through_as_they_are(stores, tmp_path):
    _, direct, behind = stores(5)
    store = behind()
    (tmp_path / "file").write_bytes(data := os.urandom(1 << 20) * 10)
    store.put_file("file", tmp_path / "file")
    assert direct.get("file") == store.get("file") == data
    assert store.fetch("file", hashlib.sha256(data).hexdigest()).read_bytes() == data
    stream = store.append("journal/one")
    for i in range(40):
        stream.write(b"%06d" % i)
        stream.sync()
    assert (
        direct.read_stream("journal/one")
        == store.read_stream("journal/one")
        == b"".join(b"%06d" % i for i in range(40))
    )
    assert [(found.key, found.bytes) for found in store.streams("journal")] == [("journal/one", 240)]
    assert [found.key for found in store.list_objects("")] == [found.key for found in direct.list_objects("")]
    store.delete(["journal/one", "file"])
    assert list(direct.list_objects("")) == []


def test_a_store_that_does_nothing_for_long_is_told_with_its_key_and_what_to_do(stores):
    _, direct, _ = stores(6, {"500": 1.0})
    store = ObjectStore(direct.url, patience_s=1)
    with pytest.raises(OSError, match=r"500.*look at it, and run again.*/a/key'"):
        store.put_if_absent("a/key", b"1")
    stream = None
    with pytest.raises(OSError, match="journal/one"):
        stream = store.append("journal/one")
    assert stream is None


def test_a_stream_whose_store_goes_away_keeps_what_was_synced(stores):
    proxy, direct, _ = stores(7, faults := {"500": 0.0})
    store = ObjectStore(direct.url, patience_s=1)
    stream = store.append("journal/one")
    stream.write(b"kept")
    stream.sync()
    faults["500"] = 1.0
    stream.write(b"lost")
    with pytest.raises(OSError, match="journal/one/00000002"):
        stream.sync()
    faults["500"] = 0.0
    for again in (lambda: stream.write(b"hole"), stream.sync):
        with pytest.raises(OSError, match="nothing more is written"):
            again()
    stream.close()
    assert direct.read_stream("journal/one") == b"kept"
    assert proxy.met["500"]


def test_every_law_holds_on_the_stores_that_a_run_may_lie_on(store):
    told = try_laws(store)
    assert set(told.values()) == {""}
    assert len(told) == 7
    check_store(store)
    assert list(store.list_objects("")) == []


def test_a_server_that_ignores_the_condition_is_refused_by_name(stores):
    proxy, direct, behind = stores(8, {}, strip="if-none-match")
    assert try_laws(direct)["refuse to create a key twice"] == ""
    told = try_laws(behind())
    assert "a second create replaced the first" in told["refuse to create a key twice"], (told, proxy.met)
    assert "If-None-Match" in told["let exactly one of eight threads create a key"]
    with pytest.raises(NotReadyError, match="does not refuse to create a key twice"):
        check_store(behind())


@pytest.mark.slow
def test_doctor_refuses_a_bucket_by_the_law_that_it_breaks(server_of, tmp_path):
    cache = {"FOIL_CACHE": str(tmp_path / "cache"), "RAY_AUTH_MODE": ""}
    good = foil("doctor", "--out", "s3://runs/doctor", env=servers.environment(server_of("localbucket")) | cache)
    assert good.returncode == 0, good.stderr
    assert "let exactly one" in good.stdout
    with proxied(FaultProxy(server_of("localbucket"), 9, {}, strip="if-none-match")) as proxy:
        bad = foil("doctor", "--out", "s3://runs/doctor", env=servers.environment(proxy.url) | cache)
        absent = foil("doctor", "--out", "s3://absent/doctor", env=servers.environment(proxy.url) | cache)
    assert (bad.returncode, absent.returncode) == (15, 15)
    assert "cannot refuse to create a key twice" in " ".join(bad.stderr.split())
    assert "make the bucket" in " ".join(absent.stderr.split())
    assert "Traceback" not in bad.stderr + absent.stderr
