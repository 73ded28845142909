"""Snapshots: what a training run is pinned to."""

import json

import pytest

from foil.datasets_out.commits.encoding import seal
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import load_snapshot, snapshot_names, take_snapshot
from foil.engine.errors import CorruptDataError, UsageError
from foil.engine.ids import canonical_json, sha256_hex
from tests.support.drills.commit_drill import JOB, topics_of


@pytest.fixture
def log(tmp_path):
    log = CommitLog(tmp_path / "out")
    log.open("drill", JOB)
    for partition in range(2):
        log.commit(partition, topics_of(partition), {})
    return log


def test_a_snapshot_keeps_what_was_committed_when_it_was_taken(log):
    taken = take_snapshot(log.out, "v1")
    log.commit(2, topics_of(2), {})
    assert load_snapshot(log.out, "v1", verify=True) == taken
    assert [path.name for path in taken.files("topics")] == ["part-00000000.parquet", "part-00000001.parquet"]
    assert (taken.rows("topics"), taken.rows("passages")) == (8, 24)
    assert load_snapshot(log.out, None).rows("topics") == 12
    assert snapshot_names(log.out) == ["v1"]


def test_the_digest_is_the_hash_of_the_sorted_list_of_files(log):
    rows = sorted(
        [table, fact.path, fact.sha256, fact.rows] for entry in log.entries() for table, fact in entry.files.items()
    )
    assert load_snapshot(log.out, None).digest == sha256_hex(canonical_json(rows))


def test_the_digest_does_not_depend_on_the_order_or_the_place_of_the_commits(log, tmp_path):
    other = CommitLog(tmp_path / "elsewhere")
    other.open("drill", JOB)
    for partition in (1, 0):
        other.commit(partition, topics_of(partition), {})
    assert load_snapshot(other.out, None).digest == load_snapshot(log.out, None).digest


def test_taking_the_same_snapshot_twice_changes_nothing_and_a_name_is_not_reused(log):
    assert take_snapshot(log.out, "v1") == take_snapshot(log.out, "v1")
    log.commit(2, topics_of(2), {})
    with pytest.raises(UsageError, match=r"snapshot 'v1' of .* stands with digest .* another name"):
        take_snapshot(log.out, "v1")


@pytest.mark.parametrize("name", ["", "../v1", "a/b", ".hidden", "-x", "v 1", "v1\n", "x" * 200])
def test_a_name_that_is_no_plain_name_is_refused(log, name):
    with pytest.raises(UsageError, match="cannot name a snapshot"):
        take_snapshot(log.out, name)


def test_an_unknown_snapshot_is_refused_with_those_that_exist(log):
    take_snapshot(log.out, "v1")
    with pytest.raises(UsageError, match=r"no snapshot 'v2'; it has \['v1'\]"):
        load_snapshot(log.out, "v2")


def test_a_changed_file_is_refused_when_verification_is_asked_for(log):
    snapshot = take_snapshot(log.out, "v1")
    path = snapshot.files("judgments")[1]
    raw = bytearray(path.read_bytes())
    raw[50] ^= 1
    path.write_bytes(raw)
    load_snapshot(log.out, "v1")
    with pytest.raises(CorruptDataError, match=r"data/judgments/part-00000001.parquet is changed"):
        load_snapshot(log.out, "v1", verify=True)
    snapshot.files("topics")[0].unlink()
    with pytest.raises(CorruptDataError, match=r"topics/part-00000000.parquet is missing"):
        load_snapshot(log.out, None, verify=True)


def test_a_forged_snapshot_cannot_point_elsewhere_or_state_another_digest(log):
    take_snapshot(log.out, "v1")
    path = log.out / "snapshots/v1.json"
    body = json.loads(path.read_bytes())
    body.pop("sha256")
    path.write_bytes(seal({**body, "digest": "0" * 64}))
    with pytest.raises(CorruptDataError, match="does not have the digest that it states"):
        load_snapshot(log.out, "v1")
    body["contents"]["topics"][0]["path"] = "../../etc/passwd"
    path.write_bytes(seal(body))
    with pytest.raises(CorruptDataError, match="which no commit does"):
        load_snapshot(log.out, "v1")
