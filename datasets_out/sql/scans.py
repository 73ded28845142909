"""What DuckDB scans in place of a table's files, where they take too much.

    any table: the files, each one's footer forgotten once it is read
    topics: a query of `status` alone -> the counts of the commit entries -> as many rows; any other -> the files
    triplets: a query's columns and filter -> ranges of partitions -> the join of views.sql over each -> Arrow batches

Triplets come a few partitions at a time: as much memory as these need, however large the run is. A topic lies in one
partition with all that is its own, so the rows of all ranges are those of the whole join. Price: some 20 ms a range; a
filter reaches the files where it is on `partition`, or on columns of the topic alone. A count of topics, of all or by
status, opens no file, and so finds no damage in one.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from foil.datasets_out.commits.entries import partition_of
from foil.datasets_out.commits.snapshot import Snapshot

TRIPLETS = pa.schema(
    [
        pa.field(name, pa.int32() if name == "partition" else pa.string())
        for name in (
            "topic_id", "partition", "seed_id", "corpus", "split", "intent_id", "intent_role", "instruction", "query",
            "positive_id", "positive_role", "positive_title", "positive",
            "negative_id", "negative_role", "negative_title", "negative",
        )
    ]
)  # fmt: skip
RANGE_BYTES = 24 << 20
"""Bytes of the files of intents and passages in one range; a join takes some twenty times as much."""
_BATCH_ROWS = 122_880
"""A row group of DuckDB."""
_OF_TOPICS = ("topic_id", "partition", "seed_id", "corpus")

Range = tuple[int, int]


class StoredRows(ds.Dataset):  # type: ignore[misc]
    """The rows of a table's files, a dataset of its own for each scan: `dataset` makes it.

    `dataset` gets the id of the only topic that a scan can find, if there is one, and may leave out files without it.
    A scan forgets a footer once it is read: kept, those of 10^8 topics take 4.5 GB. Two scans must not share what one
    of them forgets (pyarrow 26 then dies of SIGSEGV, in one query of fifty).
    """

    def __init__(self, dataset: Callable[[str | None], ds.FileSystemDataset], schema: pa.Schema) -> None:
        self.dataset, self._schema = dataset, schema

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(self, columns: Sequence[str] | None = None, **options: Any) -> ds.Scanner:
        """The rows that pass the `filter` among the options."""
        return self._scan(self.schema.names if columns is None else columns, options.get("filter"))

    def _scan(self, columns: Sequence[str], condition: pc.Expression | None) -> ds.Scanner:
        return self.dataset(one_topic(condition)).scanner(columns=columns, filter=condition, cache_metadata=False)


class CountedTopics(StoredRows):
    """The rows of `topics`; `status` alone is made from `counts`, topics by status. Its schema begins with `status`.

    DuckDB asks for the first column where it needs none, as for `count(*)`.
    """

    def __init__(self, rows: StoredRows, counts: Mapping[str, int]) -> None:
        super().__init__(rows.dataset, rows.schema)
        self._counts = counts

    @property
    def schema(self) -> pa.Schema:
        """The stored columns, `status` first."""
        return pa.schema(sorted(self._schema, key=lambda field: field.name != "status"))

    def _scan(self, columns: Sequence[str], condition: pc.Expression | None) -> ds.Scanner:
        stored = set(self.schema.names) - {"status"}
        if stored & set(columns) or may_name(condition, stored):
            return super()._scan(columns, condition)
        schema = pa.schema([pa.field("status", pa.dictionary(pa.int32(), pa.string()))])
        return ds.Scanner.from_batches(self._statuses(schema), schema=schema, columns=columns, filter=condition)

    def _statuses(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for status, count in self._counts.items():
            indices = pa.repeat(pa.scalar(0, pa.int32()), min(count, _BATCH_ROWS))
            batch = pa.record_batch([pa.DictionaryArray.from_arrays(indices, [status])], schema)
            for begin in range(0, count, _BATCH_ROWS):
                yield batch.slice(0, count - begin)


class TripletBatches(ds.Dataset):  # type: ignore[misc]
    """What DuckDB scans as a dataset of TRIPLETS. `join` reads columns of a range, both its ends included."""

    def __init__(
        self, topics: StoredRows, snapshot: Snapshot, join: Callable[[Sequence[str], Range], pa.RecordBatchReader]
    ) -> None:
        self._topics, self._snapshot, self._join = topics, snapshot, join

    @property
    def schema(self) -> pa.Schema:
        return TRIPLETS

    def scanner(self, columns: Sequence[str] | None = None, **options: Any) -> ds.Scanner:
        """The rows that pass the `filter` among the options, made as they are asked for."""
        condition: pc.Expression | None = options.get("filter")
        names = [name for name in TRIPLETS.names if columns is None or name in columns or may_name(condition, {name})]
        schema = pa.schema([TRIPLETS.field(name) for name in names or ["partition"]])

        def batches() -> Iterator[pa.RecordBatch]:
            for each in self._ranges_of(condition):
                for batch in self._join(schema.names, each):
                    yield batch.cast(schema)

        return ds.Scanner.from_batches(batches(), schema=schema, columns=columns, filter=condition)

    def _ranges_of(self, condition: pc.Expression | None) -> Sequence[Range]:
        """The ranges in which rows may pass the filter, made narrower where it says so."""
        ranges = partition_ranges(self._snapshot)
        if condition is None:
            return ranges
        files = map(str, self._snapshot.files("topics"))
        spans = {
            path: range(span.first, span.last + 1)
            for path, span in zip(files, self._snapshot.spans("topics"), strict=True)
        }
        fragments = self._topics.dataset(one_topic(condition)).replace_schema(TRIPLETS).get_fragments(filter=condition)
        numbers = {number for each in fragments for number in spans[each.path]}
        if (of_topics := _of_topics(condition)) is not None:
            numbers &= set(pc.unique(self._topics.to_table(["partition"], filter=of_topics)["partition"]).to_pylist())
        members = ([n for n in sorted(numbers) if first <= n <= last] for first, last in ranges)
        return [(each[0], each[-1]) for each in members if each]


def _of_topics(condition: pc.Expression) -> pc.Expression | None:
    """A condition on topics that the filter implies, and that leaves few: the filter itself, or one topic's id."""
    if not may_name(condition, set(TRIPLETS.names) - set(_OF_TOPICS)):
        return condition
    topic = one_topic(condition)
    return pc.field("topic_id") == topic if topic else None


def partition_ranges(snapshot: Snapshot) -> list[Range]:
    """All partitions as ranges of RANGE_BYTES at most, or of one partition."""
    ranges: list[Range] = []
    size = 0
    for facts in zip(*(snapshot.committed_files(table) for table in ("topics", "intents", "passages")), strict=True):
        number, more = partition_of(facts[0]), sum(file.bytes for file in facts)
        if ranges and size + more <= RANGE_BYTES:
            ranges[-1] = (ranges[-1][0], number)
            size += more
        else:
            ranges.append((number, number))
            size = more
    return ranges


# The words of a filter. A pyarrow Expression shows its parts as text alone (to read its Substrait form takes another
# package). Only these two functions read it, on the safe side: where they are in doubt, more is read, never less.

_ONE_TOPIC = re.compile(r'\(+topic_id == "([0-9a-f]+)"\)')
"""At the begin of a filter's words; further on it may be a part of a text."""


def may_name(condition: pc.Expression | None, columns: Collection[str]) -> bool:
    """Whether the filter may read one of the columns."""
    text = "" if condition is None else str(condition)
    return any(name in text for name in columns)


def one_topic(condition: pc.Expression | None) -> str | None:
    """The id of the only topic whose rows may pass the filter, where the filter begins so."""
    text = str(condition)
    topic = _ONE_TOPIC.match(text)
    return topic[1] if topic and " or " not in text and "invert" not in text else None
