"""A run as the desk's server reads it: SQL answers kept as long as the data stays, topics whole, progress now."""

from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa

from datasets_out.commits.log import CommitLog
from datasets_out.commits.snapshot import Snapshot, load_snapshot
from datasets_out.desk.search import FACET_SQL, TopicSearch, facets, quoted
from datasets_out.desk.sections import RUN
from datasets_out.desk.text_map import WORDS_ONLY, MapMethod, load_map
from datasets_out.desk.topics import read_topics
from datasets_out.sql.lineage import LineageNode, trace_lineage
from datasets_out.sql.notes import put_note
from datasets_out.sql.query import run_sql
from engine.errors import UsageError
from engine.flow import progress
from engine.topic import Topic

_KEPT_ANSWERS = 64
_MOST_SQL_ROWS = 500
_SQL_TIMEOUT_S = 30.0
_SQL_MEMORY_BYTES = 2 << 30
MAP_POINTS = 4000


class LiveRun:
    """One run's folder. Whatever is asked twice over the same data and notes is computed once."""

    def __init__(self, out: Path, method: MapMethod = WORDS_ONLY) -> None:
        self.out, self.method = out, method
        self._answers: OrderedDict[tuple[str, str], list[dict[str, Any]]] = OrderedDict()
        self._lock = Lock()
        CommitLog(out).run()  # or there is none

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.out.resolve().name

    def snapshot(self) -> Snapshot:
        """What is committed now."""
        return load_snapshot(self.out, None)

    def ask(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query of the desk's own, kept until data, notes or audits change."""
        key = (self._state(), sql)
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
                return self._answers[key]
        rows: list[dict[str, Any]] = run_sql(self.out, sql).to_pylist()
        with self._lock:
            self._answers[key] = rows
            while len(self._answers) > _KEPT_ANSWERS:
                self._answers.popitem(last=False)
        return rows

    def ask_typed(self, sql: str) -> pa.Table:
        """The answer to a query that a person typed, as text, behind the protections and limits of `foil sql`."""
        return run_sql(self.out, sql, timeout_s=_SQL_TIMEOUT_S, memory_bytes=_SQL_MEMORY_BYTES, form="text")

    def facts(self) -> dict[str, Any]:
        """The row of the view `runs`."""
        return self.ask(RUN)[0]

    def facets(self) -> dict[str, list[tuple[str, int]]]:
        """Facet to its values with their numbers of topics."""
        return facets(self.ask(FACET_SQL))

    def search(self, search: TopicSearch) -> list[dict[str, Any]]:
        """The topics of one page of a search."""
        return self.ask(search.sql)

    def topic(self, topic_id: str) -> Topic:
        """The whole topic. Raises UsageError where there is none of that id."""
        keys = self.ask(f"SELECT topic_id, partition FROM topics WHERE topic_id = {quoted(topic_id)}")  # noqa: S608
        topics = read_topics(self.snapshot(), [(row["topic_id"], row["partition"]) for row in keys])
        if not topics:
            raise UsageError(f"{self.name} has no topic {topic_id!r}; search for it by its words")
        return topics[0]

    def lineage(self, topic_id: str) -> LineageNode:
        """Where the topic comes from."""
        return trace_lineage(self.out, topic_id)

    def notes(self, topic_id: str) -> list[dict[str, Any]]:
        """The notes on a topic."""
        return self.ask(f"FROM notes WHERE topic_id = {quoted(topic_id)} ORDER BY author")

    def note(self, topic_id: str, author: str, flag: str, note: str) -> None:
        """Keeps a note; durable on return."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        put_note(self.out, topic_id=topic_id, author=author, flag=flag, note=note, noted_at=now)

    def points(self) -> pa.Table:
        """The map, computed at the first time that it is asked for."""
        return load_map(self.out, self.snapshot().digest, self.ask, self.method, MAP_POINTS)

    def progress(self) -> Mapping[str, Any]:
        """Where the run stands, as `foil status` has it."""
        return progress.status(CommitLog(self.out), self.out)

    def _state(self) -> str:
        """Changes with the data, and with what lies beside it."""
        beside = [self.out / "desk" / "notes.jsonl", self.out / "audits", self.out / "results.jsonl"]
        times = [path.stat().st_mtime_ns if path.exists() else 0 for path in beside]
        return f"{self.snapshot().digest} {times}"
