"""Records by id, and topics by where they lie or by a condition in SQL.

    an id or its beginning -> the records of that id, and the topics that they belong to
    a condition on the view `topics` -> topics, the first or a seeded sample

Price: an id, or 8 digits of it, is searched in the packs whose filters may hold it. A shorter one, and what lies in no
pack, is searched through the id columns of four tables, about two seconds over a million topics.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from foil.datasets_out.commits.schema import RECORD_IDS, TABLES, from_tables
from foil.datasets_out.commits.snapshot import Snapshot
from foil.datasets_out.commits.versions import PartitionRanges
from foil.datasets_out.sql.query import run_sql, topics_sql
from foil.datasets_out.sql.views import dataset
from foil.engine.errors import CorruptDataError, UsageError
from foil.engine.topic import Topic

SHORTEST_PREFIX = 4
_LEAST_DIGITS = 8
_SHORT_ID = re.compile("[0-9a-f]{4,23}")
"""What is searched as a beginning at once; where it is a whole id (a seed's), that is found as well."""


@dataclass(frozen=True, slots=True, order=True)
class TopicPlace:
    """A topic, and the partition in which it lies."""

    partition: int
    topic_id: str


@dataclass(frozen=True, slots=True)
class RecordMatch:
    """A record of some kind, and the topic that it belongs to."""

    kind: str
    id: str
    place: TopicPlace


@dataclass(frozen=True, slots=True)
class ChosenTopics:
    """Topics that a condition chose, in order, and how many it would choose without a limit."""

    places: tuple[TopicPlace, ...]
    matched: int


def short_id_digits(snapshot: Snapshot) -> int:
    """How many digits of an id name one record of the snapshot, but for one id in 4,000: 8 up to a million records."""
    records = sum(snapshot.rows(table) for table in ("topics", "intents", "passages", "calls"))
    return max(_LEAST_DIGITS, (records.bit_length() + 3) // 4 + 3)


def find_records(snapshot: Snapshot, name: str) -> list[RecordMatch]:
    """The record of this id, or the one whose id begins so, once for each topic that it belongs to.

    Raises UsageError if nothing has this id or several have, CorruptDataError if a file that must be read is damaged.
    """
    if any("\ud800" <= char <= "\udfff" for char in name):
        raise UsageError(f"{name!r} is no id: it is not valid text; write it in UTF-8")
    matches = [] if _SHORT_ID.fullmatch(name) else _search(snapshot, name, whole=True)
    if not matches and len(name) >= SHORTEST_PREFIX:
        matches = _search(snapshot, name, whole=False)
        matches = [match for match in matches if match.id == name] or matches
    if not matches:
        raise UsageError(
            f"{snapshot.out} has no topic, seed, intent, passage or call {name!r}; give an id, or at least its first "
            f"{SHORTEST_PREFIX} characters: `foil sql {snapshot.out} 'FROM topics LIMIT 5'` shows some"
        )
    ids = sorted({(match.kind, match.id) for match in matches})
    if len(ids) > 1:
        examples = ", ".join(f"{kind} {record_id}" for kind, record_id in ids[:10])
        more = f" and {len(ids) - 10} more" if len(ids) > 10 else ""
        raise UsageError(f"{name!r} begins {len(ids)} ids ({examples}{more}); give more characters of the one you mean")
    return matches


def choose_topics(
    out: Path, condition: str, *, most: int, sample_seed: int | None = None, snapshot: str | None = None
) -> ChosenTopics:
    """The topics that meet a condition on the view `topics` ("": all): the first `most`, or as many drawn by a seed.

    The same seed draws the same topics, whatever else the run has. Raises what `run_sql` does.
    """
    order = "partition, topic_id" if sample_seed is None else f"sha256('{sample_seed}' || chr(31) || topic_id)"
    columns = "partition, topic_id, count(*) OVER () AS matched"
    sql = topics_sql(columns, f"({condition or 'true'}\n) ORDER BY {order} LIMIT {most}")
    rows = run_sql(out, sql, snapshot=snapshot).to_pylist()
    places = tuple(TopicPlace(row["partition"], row["topic_id"]) for row in rows)
    return ChosenTopics(places, rows[0]["matched"] if rows else 0)


def read_topics(snapshot: Snapshot, places: Sequence[TopicPlace]) -> list[Topic]:
    """The topics at these places, in the order asked. Raises CorruptDataError if a file of theirs is damaged."""
    ids = [place.topic_id for place in places]
    partitions = sorted({place.partition for place in places})
    without = snapshot.partitions.without(PartitionRanges.of(partitions))
    rows = pc.field("partition").isin(partitions) & pc.field("topic_id").isin(ids)
    try:
        topics = from_tables({table: dataset(table, snapshot, without).to_table(filter=rows) for table in TABLES})
    except (pa.ArrowInvalid, OSError) as error:
        raise _damaged(snapshot, error) from error
    by_id = {topic.id: topic for topic in topics}
    return [by_id[name] for name in ids]


def _search(snapshot: Snapshot, name: str, *, whole: bool) -> list[RecordMatch]:
    matches, without = set(), snapshot.ruled_out(name, whole=whole)
    for kind, table, column in RECORD_IDS:
        names = list(dict.fromkeys([column, "topic_id", "partition"]))
        condition = (pc.equal if whole else pc.starts_with)(pc.field(column), name)
        try:
            rows = dataset(table, snapshot, without).to_table(columns=names, filter=condition)
        except (pa.ArrowInvalid, OSError) as error:
            raise _damaged(snapshot, error) from error
        columns = (rows[name].to_pylist() for name in (column, "partition", "topic_id"))
        matches |= {
            RecordMatch(kind, record_id, TopicPlace(partition, topic_id))
            for record_id, partition, topic_id in zip(*columns, strict=True)
        }
    return sorted(matches, key=lambda match: (match.kind, match.id, match.place))


def _damaged(snapshot: Snapshot, error: Exception) -> CorruptDataError:
    return CorruptDataError(f"{snapshot.out}: {error}; `foil verify` names the damaged files")
