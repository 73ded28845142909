"""A record is searched in the packs whose filter of ids may hold it, and nowhere else."""

from dataclasses import replace
from pathlib import Path

import pytest

from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.run_files import RunFiles
from foil.datasets_out.commits.schema import TABLES
from foil.datasets_out.commits.snapshot import load_snapshot
from foil.datasets_out.commits.verify import verify
from foil.datasets_out.compaction.packing import compact
from foil.datasets_out.lineage.records import find_records, read_topics
from foil.datasets_out.sql.query import run_sql
from foil.engine.errors import CorruptDataError
from foil.engine.ids import sha256_hex
from foil.engine.storage.object_store import ObjectStore
from foil.engine.topic import Topic
from tests.support.drills.commit_drill import JOB, topics_of

LAST = 5
"""The partition that is committed after the others were packed, two by two and one alone."""


def renamed(topic: Topic) -> Topic:
    """The topic under an id as a run gives one."""
    return replace(topic, id=sha256_hex(topic.id)[:24])


TOPICS = [[renamed(topic) for topic in topics_of(partition)] for partition in range(LAST + 1)]


@pytest.fixture
def out(tmp_path) -> Path:
    return packed(CommitLog(tmp_path / "out"))


def packed(log: CommitLog) -> Path:
    """Two packs of two partitions, and two partitions in files of their own."""
    log.open("drill", JOB)
    for partition, topics in enumerate(TOPICS[:LAST]):
        log.commit(partition, topics, {})
    compact(log, int(2.5 * max(file.bytes for file in log.entry(0).files.values())))
    log.commit(LAST, TOPICS[LAST], {})
    log.put_plan({"seeds": 4 * (LAST + 1), "partitions": LAST + 1})
    assert [(pack.first, pack.last) for pack in log.version().packs] == [(0, 1), (2, 3)]
    return log.out


def empty_pack(out: Path, number: int) -> None:
    """Whoever opens a file of this pack learns that it is damaged."""
    for file in CommitLog(out).version().packs[number].files.values():
        if file.rows:  # packs without a row are one file
            (out / file.path).write_bytes(b"")


def names_of(topic: Topic) -> list[str]:
    records = [*topic.intents, *topic.passages]
    whole = [topic.id, topic.seed_id, *(record.id for record in records), *(call.request_id for call in topic.calls)]
    return [*whole, topic.id[:8], topic.id[:23]]


@pytest.mark.parametrize("partition", range(LAST + 1))
def test_each_record_is_found_by_its_id_whatever_it_lies_in(out, partition):
    snapshot = load_snapshot(out, None)
    for topic in TOPICS[partition]:
        for name in names_of(topic):
            places = [match.place for match in find_records(snapshot, name)]
            assert (partition, topic.id) in [(place.partition, place.topic_id) for place in places]
        assert topic in read_topics(snapshot, places)


@pytest.mark.slow
def test_packs_that_cannot_hold_a_record_are_not_opened(out):
    empty_pack(out, 1)
    snapshot = load_snapshot(out, None)
    for partition in (0, 1, 4, LAST):
        topic = TOPICS[partition][0]
        for name in (topic.id, topic.id[:8], topic.seed_id):
            assert read_topics(snapshot, [find_records(snapshot, name)[0].place]) == [topic]
        for table in TABLES:
            sql = f"SELECT count(*) AS n FROM {table} WHERE topic_id = '{topic.id}'"
            assert run_sql(out, sql)["n"][0].as_py() == len(getattr(topic, table, [topic]))
    for name in (TOPICS[2][0].id, TOPICS[0][0].id[:7]):  # the pack has the one; the other is too short for a filter
        with pytest.raises(CorruptDataError):
            find_records(snapshot, name)


def test_an_id_that_nothing_has_opens_no_pack(out):
    for number in range(2):
        empty_pack(out, number)
    assert run_sql(out, f"SELECT count(*) AS n FROM topics WHERE topic_id = '{'0' * 24}'")["n"][0].as_py() == 0


def test_a_filter_that_is_changed_or_missing_never_hides_a_record(out):
    topic = TOPICS[0][0]
    path = out / CommitLog(out).version().packs[0].ids.path
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(CorruptDataError, match=path.name):
        find_records(load_snapshot(out, None), topic.id)
    with pytest.raises(CorruptDataError, match=path.name):
        run_sql(out, f"FROM topics WHERE topic_id = '{topic.id}'")
    path.unlink()
    assert find_records(load_snapshot(out, None), topic.id)[0].place.topic_id == topic.id
    assert run_sql(out, f"SELECT count(*) AS n FROM topics WHERE topic_id = '{topic.id}'")["n"][0].as_py() == 1
    assert [finding.path for finding in verify(out)] == [path.relative_to(out).as_posix()]


def test_in_a_bucket_a_record_s_files_alone_are_fetched_and_sql_needs_no_filter(bucket_url, monkeypatch):
    out = packed(CommitLog(ObjectStore(bucket_url, patience_s=30)))
    fetched = []
    whole = RunFiles.locate
    monkeypatch.setattr(RunFiles, "locate", lambda log, file: fetched.append(file.path) or whole(log, file))
    topic, first = TOPICS[2][0], CommitLog(out).version().packs[0]
    assert read_topics(load_snapshot(out, None), [find_records(load_snapshot(out, None), topic.id)[0].place]) == [topic]
    others = {file.path for name, file in first.files.items() if file.rows}
    assert fetched
    assert others.isdisjoint(fetched)
    rows = run_sql(out, f"SELECT query FROM topics WHERE topic_id = '{topic.id}'")
    assert rows["query"].to_pylist() == [topic.query]


def test_packs_without_a_filter_are_read_as_ever(out):
    log = CommitLog(out)
    version = log.version()
    packs = tuple(replace(pack, ids=None) for pack in version.packs)
    assert log.put_version(replace(version, number=version.number + 1, packs=packs))
    snapshot = load_snapshot(out, None)
    assert snapshot.version.packs == packs
    for topics in TOPICS:
        assert find_records(snapshot, topics[0].id)[0].place.topic_id == topics[0].id
