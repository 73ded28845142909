"""Bits that flip in a bucket: `foil verify` names the object, and no reader gives other rows than were committed."""

import asyncio
import itertools
import random
import re

import pytest

from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import load_snapshot, read_partitions, take_snapshot
from foil.datasets_out.compaction.packing import compact
from foil.engine.errors import CommitError, CorruptDataError
from foil.engine.flow.journal import Journal
from foil.engine.requests import Reply
from foil.engine.storage.mirrors import mirror_of
from foil.engine.storage.opening import open_store
from tests.support.commands import foil
from tests.support.drills.commit_drill import JOB, PACK_BYTES, topics_of
from tests.support.simulator.life import run_foil

KINDS = {
    "job": "run.json",
    "plan": "plan.json",
    "snapshot": r"snapshots/v.\.json",
    "entry": r"commits/[0-9]{8}\.json",
    "shard": r"data/[a-z]+/part-0000000[3-9]\.parquet",  # those before lie in packs
    "pack": r"data/[a-z]+/pack-.*",
    "version": r"versions/[0-9]{8}\.json",
    "manifest": "versions/manifest-.*",
    "facts": "versions/facts-.*",
    "journal group": r"journal/[^/]+\.log/0000000[1-3]",  # of four: the last may be torn
    "closed journal": r"journal/closed/.*",
}
PARTITIONS = 5


@pytest.fixture
def run(bucket_url):
    """Three partitions in packs and two beside them, a snapshot of each state, a closed journal and an open one."""
    out = mirror_of(bucket_url)
    log, facts = CommitLog(out), {"variant": 0, "seeds": {"seeds": "ab" * 16}}
    log.open("drill", JOB)
    for partition in range(PARTITIONS):
        if partition == 3:
            compact(log, PACK_BYTES)
            take_snapshot(out, "v0")
        log.commit(partition, topics_of(partition), facts)
    log.put_plan({"seeds": 4 * PARTITIONS, "partitions": PARTITIONS})
    take_snapshot(out, "v1")
    closed, still_open = (Journal(open_store(out), group_s=0.01) for _ in range(2))
    for journal, number in itertools.product((closed, still_open), range(4)):
        asyncio.run(journal.open(number, again=False).put(Reply(str(number), f"text of {number}")))
    closed.close()
    return out


def spoilt(raw: bytes, rng: random.Random, *, cut: bool) -> bytes:
    place = rng.randrange(len(raw))
    return raw[:place] if cut else raw[:place] + bytes([raw[place] ^ 1 << rng.randrange(8)]) + raw[place + 1 :]


def rows(url: str, name: str | None) -> list:
    """What a machine reads that has no copy of anything."""
    return list(read_partitions(load_snapshot(mirror_of(url), name)))


def is_refused(url: str, name: str | None, wanted: list) -> bool:
    """Whether a reader was told; else it has the rows that were committed."""
    try:
        assert rows(url, name) == wanted
    except (CorruptDataError, CommitError):
        return True
    return False


@pytest.fixture
def another_machine(tmp_path, monkeypatch):
    """From each call on this is a machine that has no copy of anything."""
    numbers = itertools.count()
    return lambda: monkeypatch.setenv("FOIL_CACHE", str(tmp_path / f"machine-{next(numbers)}"))


@pytest.mark.slow
@pytest.mark.parametrize("trials", [1, pytest.param(60, marks=(pytest.mark.long, pytest.mark.timeout(3600)))])
def test_whatever_rots_in_a_bucket_is_named_and_no_reader_gives_other_rows(
    run, bucket_url, another_machine, capsys, trials
):
    store, rng, refused = open_store(run), random.Random(trials), set()
    keys = [found.key for found in store.list_objects("")]
    wanted = {name: rows(bucket_url, name) for name in ("v0", "v1", None)}
    assert run_foil(("verify", bucket_url)) == 0
    for kind in list(KINDS) * trials:
        key = rng.choice([key for key in keys if re.fullmatch(KINDS[kind], key)])
        raw, cut = store.get(key), rng.random() < 0.5
        store.put(key, spoilt(raw, rng, cut=cut))
        another_machine()
        capsys.readouterr()
        assert run_foil(("verify", bucket_url)) == 6, (kind, key, cut)
        said = "".join(capsys.readouterr()).replace("\n", "")
        assert key.rpartition("/0000")[0] in said if kind == "journal group" else key in said, (kind, key, cut, said)
        told = [is_refused(bucket_url, name, wanted[name]) for name in wanted]
        refused |= {kind} if any(told) else set()
        store.put(key, raw)
    another_machine()
    assert run_foil(("verify", bucket_url)) == 0
    print(f"{len(KINDS) * trials} objects spoilt; readers were told of {sorted(refused)}")
    assert refused >= {"job", "snapshot", "entry", "shard", "pack", "version", "manifest"}


def test_the_command_says_which_object_rotted(run, bucket_url):
    store = open_store(run)
    key = CommitLog(run).version().packs[0].files["topics"].path
    store.put(key, store.get(key)[:-9])
    told = foil("verify", bucket_url)
    assert told.returncode == 6, told.stderr
    assert key in told.stderr
    assert "Traceback" not in told.stderr
