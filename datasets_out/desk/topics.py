"""Some topics of a run by their ids, whole, and which ones a page shows where it cannot show all."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow.compute as pc

from datasets_out.commits.schema import TABLES, from_tables
from datasets_out.commits.snapshot import Snapshot
from datasets_out.desk.sections import Ask
from datasets_out.sql.query import run_sql
from datasets_out.sql.views import dataset
from engine.topic import Topic

SAMPLE = """
SELECT topic_id, partition FROM (
    SELECT topic_id, partition, status = 'accepted' AS accepted,
           row_number() OVER (PARTITION BY status = 'accepted' ORDER BY md5(topic_id)) AS place FROM topics)
WHERE place <= CASE WHEN accepted THEN {accepted} ELSE {dropped} END ORDER BY accepted DESC, place
"""


def asker(out: Path, snapshot: str | None = None) -> Ask:
    """What answers SQL over a run, through the process that can only read."""
    return lambda sql: run_sql(out, sql, snapshot=snapshot).to_pylist()


def read_topics(snapshot: Snapshot, keys: Sequence[tuple[str, int]]) -> list[Topic]:
    """The topics of these (topic id, partition), in this order; one that is not there is left out."""
    ids, partitions = [key[0] for key in keys], sorted({key[1] for key in keys})
    rows = pc.field("partition").isin(partitions) & pc.field("topic_id").isin(ids)
    tables = {table: dataset(table, snapshot).to_table(filter=rows) for table in TABLES}
    topics = {topic.id: topic for topic in from_tables(tables)}
    return [topics[topic_id] for topic_id in ids if topic_id in topics]


def sample_topics(snapshot: Snapshot, ask: Ask, accepted: int, dropped: int) -> list[Topic]:
    """Topics drawn by hash, the same ones each time: accepted ones, then others."""
    rows = ask(SAMPLE.format(accepted=accepted, dropped=dropped))
    return read_topics(snapshot, [(row["topic_id"], row["partition"]) for row in rows])
