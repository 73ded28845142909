"""A run as the desk's server reads it: SQL answers kept as long as the data stays, topics whole, progress now."""

import subprocess
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import Snapshot, load_snapshot
from foil.datasets_out.desk.search import FACET_SQL, TopicSearch, facets, read_search
from foil.datasets_out.desk.sections import FUNNEL, REASONS, RUN, Ask
from foil.datasets_out.desk.text_index import TextIndex
from foil.datasets_out.desk.text_map import WORDS_ONLY, MapMethod, load_map
from foil.datasets_out.desk.verdict import RunVerdict, verdict_of
from foil.datasets_out.lineage.lineage import LineageNode, tree_of
from foil.datasets_out.lineage.records import RecordMatch, TopicPlace, read_topics
from foil.datasets_out.notes.notes import put_note, read_notes
from foil.datasets_out.sql.query import QueryLimits, run_sql, start_child
from foil.datasets_out.sql.views import dataset
from foil.engine.errors import CorruptDataError, UsageError
from foil.engine.flow import progress
from foil.engine.topic import Topic

_KEPT_ANSWERS = 64
_QUERIES_AT_A_TIME = 2
_SQL_LIMITS = QueryLimits(30.0, 2 << 30)
MAP_POINTS = 4000


class LiveRun:
    """One run's folder. Whatever is asked twice over the same data and notes is computed once.

    `judge` says what stands out; `verdict_of` alone cannot say how often judges name the passage shown first.
    """

    def __init__(
        self, out: Path, method: MapMethod = WORDS_ONLY, judge: Callable[[Ask], RunVerdict] = verdict_of
    ) -> None:
        self.out, self.method, self._judge = out, method, judge
        self._verdict: tuple[str, RunVerdict] | None = None
        self._answers: OrderedDict[tuple[str, str], list[dict[str, Any]]] = OrderedDict()
        self._lock = Lock()
        self._spare: subprocess.Popen[bytes] | None = None
        self._texts = TextIndex()
        self._indexing = Lock()
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
        rows: list[dict[str, Any]] = self._run(sql).to_pylist()
        with self._lock:
            self._answers[key] = rows
            while len(self._answers) > _KEPT_ANSWERS:
                self._answers.popitem(last=False)
        return rows

    def ask_typed(self, sql: str) -> pa.Table:
        """The answer to a query that a person typed, as text, behind the protections and limits of `foil sql`."""
        return self._run(sql, limits=_SQL_LIMITS, form="text")

    def facts(self) -> dict[str, Any]:
        """The row of the view `runs`."""
        return self.ask(RUN)[0]

    def verdict(self) -> RunVerdict:
        """What stands out in the run."""
        state, kept = self._state(), self._verdict
        if kept is None or kept[0] != state:
            kept = self._verdict = state, self._judge(self.ask)
        return kept[1]

    def facets(self) -> dict[str, list[tuple[str, int]]]:
        """Facet to its values with their numbers of topics."""
        return facets(self.ask(FACET_SQL))

    def search(self, search: TopicSearch) -> list[dict[str, Any]]:
        """The topics of one page of a search. Words come from the index as soon as it holds what is committed now."""
        snapshot = self.snapshot()
        if search.each_word and self._texts.holds(snapshot):
            return self.ask(search.sql(self._texts.find(snapshot, search.each_word)))
        self.index()
        return self.ask(search.sql())

    def index(self) -> Thread:
        """Reads the texts that are new, in a thread that nobody has to wait for."""
        thread = Thread(target=self._update_index, daemon=True)
        thread.start()
        return thread

    def _update_index(self) -> None:
        if self._indexing.acquire(blocking=False):
            try:
                self._texts.update(self.snapshot())
            except CorruptDataError:
                self._texts.close()  # a search reads the file, and says so
            finally:
                self._indexing.release()

    def topic(self, topic_id: str) -> tuple[Topic, LineageNode]:
        """The whole topic, and where it comes from. Raises UsageError where there is none of that id."""
        snapshot = self.snapshot()
        column = pc.field("topic_id")
        rows = dataset("topics", snapshot).to_table(columns=["partition"], filter=column == topic_id)
        if not rows.num_rows:
            raise UsageError(f"{self.name} has no topic {topic_id!r}; search for it by its words")
        place = TopicPlace(rows["partition"][0].as_py(), topic_id)
        topics = read_topics(snapshot, [place])
        return topics[0], tree_of(self.out, [RecordMatch("topic", topic_id, place)], topics)

    def notes(self, topic_id: str) -> list[dict[str, Any]]:
        return [row for row in read_notes(self.out).to_pylist() if row["topic_id"] == topic_id]

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

    def warm(self) -> None:
        """Asks what the first pages show, so that they open at once."""
        first = (RUN, FUNNEL, REASONS, FACET_SQL, read_search({}).sql())
        with ThreadPoolExecutor(_QUERIES_AT_A_TIME) as pool:
            list(pool.map(self.ask, first))
        self.verdict()
        self.index()

    def close(self) -> None:
        """Ends the process that waits for a query, and lets go of the texts."""
        self._texts.close()
        with self._lock:
            spare, self._spare = self._spare, None
        if spare:
            spare.kill()
            spare.communicate()

    def _run(self, sql: str, **options: Any) -> pa.Table:
        """The answer, by a process that was started before it was needed; then the next one is."""
        with self._lock:
            child, self._spare = self._spare, None
        try:
            return run_sql(self.out, sql, child=child, **options)
        finally:
            with self._lock:
                self._spare = self._spare or start_child()

    def _state(self) -> str:
        """Changes with the data, and with what lies next to it."""
        files = [self.out / "desk" / "notes.jsonl", self.out / "audits", self.out / "results.jsonl"]
        times = [path.stat().st_mtime_ns if path.exists() else 0 for path in files]
        return f"{self.snapshot().digest} {times}"
