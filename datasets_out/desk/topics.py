"""Which topics a page shows where it cannot show all, and what answers a page's SQL."""

from pathlib import Path

from foil.datasets_out.commits.snapshot import Snapshot
from foil.datasets_out.desk.sections import Ask
from foil.datasets_out.lineage.records import TopicPlace, read_topics
from foil.datasets_out.sql.query import run_sql
from foil.engine.topic import Topic

SAMPLE = """
WITH placed AS (
    SELECT topic_id, partition, status = 'accepted' AS accepted, count(*) OVER reasons AS size,
           row_number() OVER (reasons ORDER BY md5(topic_id)) AS place
    FROM topics WINDOW reasons AS (PARTITION BY status, reason)),
numbered AS (
    SELECT *, row_number() OVER (PARTITION BY accepted ORDER BY place, size DESC, topic_id) AS number FROM placed)
SELECT topic_id, partition FROM numbered
WHERE number <= CASE WHEN accepted THEN greatest({accepted}, {most} - (SELECT count(*) FROM placed WHERE NOT accepted))
                ELSE greatest({most} - {accepted}, {most} - (SELECT count(*) FROM placed WHERE accepted)) END
ORDER BY place, accepted DESC, size DESC, topic_id
"""


def asker(out: Path, snapshot: str | None = None) -> Ask:
    """What answers SQL over a run, through the process that can only read."""
    return lambda sql: run_sql(out, sql, snapshot=snapshot).to_pylist()


def sample_topics(snapshot: Snapshot, ask: Ask, accepted: int, most: int) -> list[Topic]:
    """Topics drawn by hash, the same ones each time: one of each reason, then a second of each.

    Up to `most` in all; `accepted` of them were accepted, and more where fewer were dropped.
    """
    rows = ask(SAMPLE.format(accepted=accepted, most=most))
    return read_topics(snapshot, [TopicPlace(row["partition"], row["topic_id"]) for row in rows])
