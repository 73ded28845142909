"""What a query sees: each committed table, and the views of views.sql that join them.

    commit entries or a snapshot -> exactly these files -> pyarrow datasets (for `query`) or a script (for `duckdb`)

Promise: only files that a commit entry or a version names are read, and each page is checked against its checksum.
Price: each query reads the entries that no version holds, some 0.1 ms each.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.schema import TABLES
from foil.datasets_out.commits.snapshot import Snapshot, load_snapshot
from foil.datasets_out.commits.stored_rows import StoredSpan
from foil.datasets_out.commits.versions import NO_PARTITIONS, LogTotals, PartitionRanges
from foil.datasets_out.notes.notes import NOTES, read_notes
from foil.datasets_out.sql.audits import SHOWN, audit_files, read_audits
from foil.datasets_out.sql.evaluations import EVALUATIONS, PROMPT_EVALUATIONS, read_evaluations, read_prompt_evaluations
from foil.datasets_out.sql.scans import CountedTopics, Range, StoredRows, TripletBatches
from foil.engine.errors import CorruptDataError, UsageError
from foil.engine.ids import DEV_SHARE, HELDOUT_SHARE, canonical_json

VIEWS = (*TABLES, "rejects", "triplets", "runs", "audits", "evaluations", "prompt_evaluations", "notes")
EXTRA_VIEWS = {
    "audits": (read_audits, SHOWN.empty_table()),
    "evaluations": (read_evaluations, EVALUATIONS.empty_table()),
    "prompt_evaluations": (read_prompt_evaluations, PROMPT_EVALUATIONS.empty_table()),
    "notes": (read_notes, NOTES.empty_table()),
}
"""Views of what lies next to the commits: how each is read, and the view of none."""
_FRACTION = "('0x' || left(sha256('{kind}' || chr(31) || seed_id), 13))::UBIGINT / (1::UBIGINT << 52)"
_SPLIT = (
    f"CASE WHEN attributes['split'] = 'heldout' OR {_FRACTION.format(kind='split')} < {HELDOUT_SHARE}::DOUBLE "
    f"THEN 'heldout' WHEN {_FRACTION.format(kind='dev')} < {DEV_SHARE}::DOUBLE THEN 'dev' ELSE 'train' END AS split"
)
_ADDED = {"topics": f"{', '.join(TABLES['topics'].names)}, {_SPLIT}"}
"""What a view adds to the columns that are stored; the split is that of `engine.ids.split_of` and a trainer."""
DERIVED_SQL = Path(__file__).with_name("views.sql").read_text()

_DUCKDB_TYPES = {
    pa.string(): "VARCHAR", pa.bool_(): "BOOLEAN", pa.int8(): "TINYINT", pa.int32(): "INTEGER", pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
}  # fmt: skip
_WILD = re.compile(r"[*?[]")
"""What DuckDB takes for a pattern of names, where it stands in a path."""
_ROWS_PER_BATCH = 8192
_RUN_TYPES = {"fingerprint": pa.string(), "cost_usd": pa.float64(), "job": pa.string()}


@dataclass(frozen=True, slots=True)
class RunSources:
    """A run's name, its six tables, what lies next to them (`runs` and those of EXTRA_VIEWS), and its sums."""

    name: str
    tables: Mapping[str, StoredRows]
    extra: Mapping[str, pa.Table]
    snapshot: Snapshot
    sums: LogTotals


def sources(name: str, out: Path, snapshot: str | None = None, sql: str = "") -> RunSources:
    """The stored tables of a snapshot, or of all that is committed now, and what lies next to them, in Arrow.

    Audits, evaluations or notes that are damaged are empty, unless `sql` names them: then CorruptDataError is raised.
    """
    source = load_snapshot(out, snapshot)
    tables = {table: dataset(table, source) for table in TABLES}
    extra = {view: _extra(view, source.out, sql) for view in EXTRA_VIEWS}
    sums = source.sums()
    return RunSources(name, tables, {"runs": _runs(source, sums)} | extra, source, sums)


def _extra(name: str, out: Path, sql: str) -> pa.Table:
    read, empty = EXTRA_VIEWS[name]
    try:
        return read(out)
    except CorruptDataError:
        if name in sql.lower():
            raise
        return empty


def dataset(table: str, snapshot: Snapshot, without: PartitionRanges = NO_PARTITIONS) -> StoredRows:
    """The rows of a snapshot's table, read as they are asked for; nothing is opened yet.

    `without`: partitions whose files may be left out.
    """

    @cache
    def located(topic: str | None) -> tuple[list[StoredSpan], list[Path]]:
        left_out = snapshot.ruled_out(topic, whole=True) if topic else without
        spans = [span for span in snapshot.spans(table) if not left_out.covers(span.first, span.last)]
        return spans, snapshot.locate(spans)

    return StoredRows(lambda topic: _files(table, *located(topic)), TABLES[table])


def _files(table: str, spans: Sequence[StoredSpan], paths: Sequence[Path]) -> ds.FileSystemDataset:
    """Each file's partitions are known from its span: a filter on `partition` opens the files that it means alone."""
    partition, number = pc.field("partition"), partial(pa.scalar, type=pa.int32())
    checked = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    return ds.FileSystemDataset.from_paths(
        list(map(str, paths)),
        schema=TABLES[table],
        format=ds.ParquetFileFormat(default_fragment_scan_options=checked),
        filesystem=fs.LocalFileSystem(),
        partitions=[
            partition == number(span.first)
            if span.first == span.last
            else (partition >= number(span.first)) & (partition <= number(span.last))
            for span in spans
        ],
    )


def _runs(snapshot: Snapshot, whole: LogTotals) -> pa.Table:
    """One row: the run, what it planned (null until the seed stream has ended), and the sums of its commit entries."""
    log = CommitLog(snapshot.out)
    run, plan = log.run(), log.plan() or {}
    sums = whole.counts.plain()
    row = {
        "fingerprint": run["fingerprint"],
        "schema_version": run["schema_version"],
        "planned_seeds": plan.get("seeds"),
        "planned_partitions": plan.get("partitions"),
        "partitions": whole.partitions,
        **{f"seeds_{status}": number for status, number in sums["seeds"].items()},
        **{f"topics_{status}": number for status, number in sums["topics"].items()},
        **{f"{table}_rows": whole.rows[table] for table in TABLES},
        "bytes": sum(whole.nbytes.values()),
        **{name: sums[name] for name in ("calls", "prompt_tokens", "completion_tokens", "cost_usd")},
        "job": canonical_json(run["job"]),
    }
    return pa.table({name: pa.array([value], _RUN_TYPES.get(name, pa.int64())) for name, value in row.items()})


def create_views(connection: Any, runs: Sequence[RunSources]) -> None:
    """Makes VIEWS in a DuckDB connection.

    Of several runs each has VIEWS in a schema of its own, and the main schema has their rows together, with `run`.
    """
    for number, run in enumerate(runs, 1):
        stored, joined, own = f"stored_{number}", f"joined_{number}", "main" if len(runs) == 1 else f"run_{number}"
        schemas = "".join(f"CREATE SCHEMA IF NOT EXISTS {name};" for name in (stored, joined, own))
        connection.execute(f"{schemas} USE {stored}")
        batches = TripletBatches(run.tables["topics"], run.snapshot, partial(_join_range, connection, joined))
        topics = CountedTopics(run.tables["topics"], run.sums.counts.topics)
        for name, source in {**run.tables, **run.extra, "topics": topics, "triplets": batches}.items():
            connection.from_arrow(source).create_view(name)
        views = "".join(_view(name, f"{stored}.{name}") for name in (*run.tables, *run.extra))
        connection.execute(f"USE {joined}; {views} {DERIVED_SQL}")
        sources_of = dict.fromkeys(VIEWS, joined) | {"triplets": stored}
        statements = (f"CREATE VIEW {name} AS FROM {schema}.{name};" for name, schema in sources_of.items())
        connection.execute(f"USE {own}; {''.join(statements)}")
    if len(runs) > 1:
        connection.execute(f"USE main; {_united([run.name for run in runs])}")


def _join_range(connection: Any, schema: str, columns: Sequence[str], bounds: Range) -> pa.RecordBatchReader:
    """Columns of the triplets in a range of partitions, joined as they are read."""
    selected = f"SELECT {', '.join(columns)} FROM {schema}.triplets"  # noqa: S608 - our own names
    joined = connection.cursor().sql(f"{selected} WHERE partition BETWEEN {bounds[0]} AND {bounds[1]}")
    batches: pa.RecordBatchReader = joined.to_arrow_reader(_ROWS_PER_BATCH)
    return batches


def views_script(runs: Mapping[str, Path], snapshot: str | None = None) -> str:
    """SQL that makes VIEWS in a plain `duckdb`, over explicit lists of committed files; for a trusted machine only.

    `runs`: name -> folder; of several runs the rows stand together, as in `create_views`. Raises UsageError where
    nothing is committed yet, since DuckDB has no view over no file.
    """
    parts = [_run_script(out, snapshot) for out in runs.values()]
    if len(parts) == 1:
        return parts[0]
    schemas = (f"CREATE SCHEMA run_{n};\nUSE run_{n};\n{part}" for n, part in enumerate(parts, 1))
    return "\n".join([*schemas, "USE main;", _united(list(runs))])


def _united(names: Sequence[str]) -> str:
    """Views with the rows of all runs, each with the name of its run."""
    parts = {
        view: [f"FROM run_{n}.{view} SELECT *, {_literal(name)} AS run" for n, name in enumerate(names, 1)]
        for view in VIEWS
    }
    return "".join(f"CREATE VIEW {view} AS {' UNION ALL BY NAME '.join(runs)};\n" for view, runs in parts.items())


def _run_script(out: Path, snapshot: str | None) -> str:
    source = load_snapshot(Path(out).resolve(), snapshot)
    if not source.files("topics"):
        raise UsageError(f"{source.out} has no committed partition yet, so there is nothing to view; run the job first")
    views = [_view(table, _parquet(source.files(table))) for table in TABLES]
    views += [
        _audits_view(source.out),
        _rows_view("runs", _runs(source, source.sums())),
        _rows_view("evaluations", read_evaluations(source.out)),
        _rows_view("prompt_evaluations", read_prompt_evaluations(source.out)),
        _rows_view("notes", read_notes(source.out)),
    ]
    head = f"-- Views over {str(source.out)!r}, snapshot {source.digest}. What comes later needs a new script.\n"
    return "\n".join([head, *views, DERIVED_SQL])


def _audits_view(out: Path) -> str:
    if files := audit_files(out):
        return _view("audits", _parquet(files), '* RENAME ("natural" AS is_natural)')
    return _rows_view("audits", SHOWN.empty_table())


def _rows_view(name: str, table: pa.Table) -> str:
    """A view whose rows stand in the script."""
    columns = ", ".join(f"NULL::{_DUCKDB_TYPES[field.type]} AS {field.name}" for field in table.schema)
    rows = ",\n    ".join(f"({', '.join(map(_literal, row.values()))})" for row in table.to_pylist())
    values = f"\nUNION ALL VALUES\n    {rows}" if rows else ""
    return f"CREATE VIEW {name} AS SELECT {columns} WHERE false{values};\n"


def _view(name: str, source: str, columns: str | None = None) -> str:
    return f"CREATE VIEW {name} AS FROM {source} SELECT {columns or _ADDED.get(name, '*')};\n"


def _parquet(files: Iterable[Path]) -> str:
    names = ",\n    ".join(_literal(_WILD.sub(r"[\g<0>]", str(path))) for path in files)
    return f"read_parquet([\n    {names}\n])"


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, float):
        return f"'{value!r}'::DOUBLE"
    return "NULL" if value is None else str(value)
