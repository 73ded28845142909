"""Curators' SQL over what was committed: one statement goes in, one Arrow table comes out, nothing else can happen.

    run_sql -> a child process: committed files -> pyarrow datasets -> DuckDB, locked -> Arrow stream -> table

Promise: a query reads only files that commit entries name, changes no byte anywhere, and ends by its time or memory
limit. The type of a statement protects nothing: DuckDB takes a COPY inside a WITH for a SELECT. So there are four
protections, each sufficient without the others:

1. The committed files are registered as Arrow datasets. DuckDB has no file access, no extensions, no allow-list, and a
   locked configuration.
2. The kernel refuses every write of the child process.
3. The child's environment holds no secret.
4. The child's memory and time are limited from outside DuckDB.

Pages are checked against their checksums, which DuckDB's own Parquet reader does not do. Price: a process start a query
(about 0.4 s), scans some 0.2 s slower than DuckDB's own over a million topics, and no spilling to disk.
`views.views_script` writes the same views for the plain `duckdb` command, without these protections.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from foil.engine.errors import (
    CommitError,
    CorruptDataError,
    FoilError,
    NoRunError,
    QueryStoppedError,
    SqlRefusedError,
    UsageError,
)
from foil.engine.storage.mirrors import mirrored_url

if TYPE_CHECKING:
    import pyarrow as pa

    from foil.datasets_out.sql.result_forms import Form

FORMULA_NOTE = "may_be_formula"
"""The note on a column of the form `text`: "1" where its text may be any text, "0" for numbers and times."""

_TIMEOUTS_S = (0.1, 86_400)
_LEAST_MEMORY_BYTES = 64 << 20
_HOME = Path(__file__).absolute().parents[3]
"""From where `foil` is imported."""
_OF_NOTES = re.compile(r"\b(flag|note)\b", re.IGNORECASE)
_NOTED = """(
    SELECT t.*, coalesce(n.flag, '') AS flag, coalesce(n.note, '') AS note
    FROM topics AS t LEFT JOIN (
        SELECT topic_id, max(flag) AS flag, string_agg(note, ' | ') FILTER (note <> '') AS note FROM notes GROUP BY ALL
    ) AS n USING (topic_id)
) AS topics"""
_KEPT_ENVIRONMENT = ("LD_LIBRARY_PATH", "PATH", "TZ")
# pyarrow.dataset loads pandas wherever it is installed, for nothing here: that would be half of the start.
WITHOUT_PANDAS = """
import sys
class NoPandas:
    def find_spec(name, *_):
        if name == "pandas":
            raise ImportError(name)
sys.meta_path.insert(0, NoPandas)
"""
_CHILD = f"{WITHOUT_PANDAS}from foil.datasets_out.sql.query_process import main\nmain()\n"
_CHILD_ENVIRONMENT = {
    "PYTHONPATH": str(_HOME),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    "OPENBLAS_NUM_THREADS": "1",
}

CHILD_ERRORS = {
    error.__name__: error
    for error in (CommitError, CorruptDataError, FoilError, NoRunError, QueryStoppedError, SqlRefusedError, UsageError)
}
"""The errors that the child may report, all made of one message; any other is reported as its nearest base here."""


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """The seconds that a query may take, and the bytes that it may use and that its result may have."""

    timeout_s: float = 60.0
    memory_bytes: int = 4 << 30

    def check(self) -> None:
        """Raises UsageError for a limit that makes no sense."""
        if not _TIMEOUTS_S[0] <= self.timeout_s <= _TIMEOUTS_S[1]:
            raise UsageError(
                f"the time limit must be between {_TIMEOUTS_S[0]} and {_TIMEOUTS_S[1]} seconds, not {self.timeout_s}"
            )
        if self.memory_bytes < _LEAST_MEMORY_BYTES:
            raise UsageError(
                f"the memory limit must be at least {_LEAST_MEMORY_BYTES:,} bytes, not {self.memory_bytes:,}"
            )


_LIMITS = QueryLimits()
_AHEAD: list[subprocess.Popen[bytes]] = []  # the process of `start_ahead`, until a query takes it


def run_sql(
    out: Path | Mapping[str, Path],
    sql: str,
    limits: QueryLimits = _LIMITS,
    *,
    snapshot: str | None = None,
    form: Form = "typed",
    child: subprocess.Popen[bytes] | None = None,
) -> pa.Table:
    """The answer to one SQL query over VIEWS, of a snapshot or of all that is committed now.

    `out`: the folder of a run, or name -> folder of several; then each view has their rows together, with `run`.
    `form`: the nearest types that Arrow and Parquet have, or all as text, or as JSON documents (`result_forms`).
    `child` is a process of `start_child`, else one is started. Columns of equal names get a number behind.

    Raises UsageError (syntax, unknown table or column), SqlRefusedError
    (anything but reading the views), QueryStoppedError (a limit), CorruptDataError (a file is damaged or missing).
    """
    if "\0" in sql or sql.encode(errors="ignore").decode() != sql:
        raise UsageError(f"the query {sql!r} is not valid text; write it in UTF-8 and without NUL bytes")
    limits.check()
    runs = out if isinstance(out, Mapping) else {str(out): out}
    with child or (_AHEAD.pop() if _AHEAD else start_child()) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            with _folders(runs, snapshot, sql) as folders:
                request = {"runs": folders, "sql": sql, "snapshot": snapshot, "form": form}
                with contextlib.suppress(BrokenPipeError), process.stdin:
                    process.stdin.write(json.dumps(request | asdict(limits)).encode())
                table = _receive_table(process.stdout, limits.memory_bytes)
                stderr = process.stderr.read().decode(errors="replace")
                status = process.wait()
        finally:
            process.kill()
    if status or table is None:
        raise _failure(status, stderr, limits)
    return table.rename_columns(_number_duplicates(table.column_names))


def asks_notes(condition: str) -> bool:
    """Whether a condition on topics may be about the desk's notes."""
    return bool(_OF_NOTES.search(condition))


def topics_sql(columns: str, condition: str) -> str:
    """A query of the view `topics`; what follows its condition may stand behind that.

    A condition may also be about `flag` and `note`, of the desk's notes, "" where a topic has none.
    """
    topics = _NOTED if asks_notes(f"{condition} {columns}") else "topics"
    return f"SELECT {columns} FROM {topics} WHERE {condition}"  # noqa: S608 - `run_sql` only reads


def _folders(
    runs: Mapping[str, Path], snapshot: str | None, sql: str
) -> contextlib.AbstractContextManager[dict[str, str]]:
    if any(mirrored_url(Path(folder).resolve()) for folder in runs.values()):
        from foil.datasets_out.sql.local_runs import local_runs  # it loads pyarrow

        return local_runs(runs, snapshot, sql)
    return contextlib.nullcontext({name: str(Path(folder).resolve()) for name, folder in runs.items()})


def start_child() -> subprocess.Popen[bytes]:
    """A process that waits for one query, to give to `run_sql`; whoever gives it to none kills it.

    Started ahead of the query, it saves the time that loading DuckDB takes.
    """
    environment = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env=environment | _CHILD_ENVIRONMENT,
    )


def start_ahead() -> None:
    """Starts the process of the next query: it loads DuckDB meanwhile, and ends with this program at the latest."""
    _AHEAD.append(start_child())


def _receive_table(stream: IO[bytes], memory_bytes: int) -> pa.Table | None:
    """The streamed table, or None if the stream breaks off; the child then says why."""
    import pyarrow as pa  # while the child starts

    batches, size = [], 0
    with contextlib.suppress(pa.ArrowInvalid, OSError), pa.ipc.open_stream(stream) as reader:
        for batch in reader:
            size += batch.nbytes
            if size > memory_bytes:
                raise QueryStoppedError(
                    f"the result is larger than the memory limit of {memory_bytes:,} bytes; "
                    "add a LIMIT, select fewer columns, or raise the limit"
                )
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema)
    return None


def _failure(status: int, stderr: str, limits: QueryLimits) -> FoilError:
    if status == -signal.SIGALRM:
        return too_slow(limits.timeout_s)
    with contextlib.suppress(ValueError, KeyError, StopIteration):
        kind, message = json.loads(next(line for line in stderr.splitlines() if line.startswith('["')))
        return CHILD_ERRORS[kind](message)
    if status < 0:
        return QueryStoppedError(
            f"the query's process died of {signal.Signals(-status).name}, as it may at its memory limit of "
            f"{limits.memory_bytes:,} bytes; narrow it (fewer columns, WHERE, LIMIT), or raise the limit"
        )
    if "MemoryError" in stderr or "bad_alloc" in stderr:
        return too_big(limits.memory_bytes)
    return FoilError(f"the query's process ended with status {status}: {stderr[-2000:]}; report this as a bug")


def too_slow(timeout_s: float) -> QueryStoppedError:
    """The error of a query that passed its time limit."""
    return QueryStoppedError(
        f"the query was stopped after {timeout_s:g} s, its time limit; narrow it (WHERE, LIMIT), or raise the limit"
    )


def too_big(memory_bytes: int) -> QueryStoppedError:
    """The error of a query that passed its memory limit."""
    return QueryStoppedError(
        f"the query was stopped at its memory limit of {memory_bytes:,} bytes; "
        "narrow it (fewer columns, WHERE, LIMIT), or raise the limit"
    )


def _number_duplicates(names: Iterable[str]) -> list[str]:
    """The names, a repeated one with the first free number behind it: a, a -> a, a_1."""
    numbered: dict[str, None] = {}
    for name in names:
        number, free = 0, name
        while free in numbered:
            number += 1
            free = f"{name}_{number}"
        numbered[free] = None
    return list(numbered)
