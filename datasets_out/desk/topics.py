"""Which topics a page shows where it cannot show all, and what answers a page's SQL."""

from pathlib import Path

from foil.datasets_out.commits.snapshot import Snapshot
from foil.datasets_out.desk.sections import Ask
from foil.datasets_out.lineage.records import TopicPlace, read_topics
from foil.datasets_out.sql.query import run_sql
from foil.engine.topic import Topic

SAMPLE = """
SELECT topic_id, partition FROM (
    SELECT topic_id, partition, status = 'accepted' AS accepted,
           row_number() OVER (PARTITION BY status = 'accepted' ORDER BY md5(topic_id)) AS place FROM topics)
WHERE place <= CASE WHEN accepted THEN {accepted} ELSE {dropped} END ORDER BY accepted DESC, place
"""


def asker(out: Path, snapshot: str | None = None) -> Ask:
    """What answers SQL over a run, through the process that can only read."""
    return lambda sql: run_sql(out, sql, snapshot=snapshot).to_pylist()


def sample_topics(snapshot: Snapshot, ask: Ask, accepted: int, dropped: int) -> list[Topic]:
    """Topics drawn by hash, the same ones each time: accepted ones, then others."""
    rows = ask(SAMPLE.format(accepted=accepted, dropped=dropped))
    return read_topics(snapshot, [TopicPlace(row["partition"], row["topic_id"]) for row in rows])
