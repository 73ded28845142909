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
(about 0.5 s), scans some 0.2 s slower than DuckDB's own over a million topics, and no spilling to disk.
`views.views_script` writes the same views for the plain `duckdb` command, without these protections.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import duckdb
import pyarrow as pa

from datasets_out.sql.views import DERIVED_SQL, VIEWS, sources
from datasets_out.sql.write_ban import forbid_writes
from engine.errors import CommitError, CorruptDataError, FoilError, QueryStoppedError, SqlRefusedError, UsageError

TIMEOUT_S = 60.0
MEMORY_BYTES = 4 << 30

_TIMEOUTS_S = (0.1, 86_400)
_LEAST_MEMORY_BYTES = 64 << 20
_ROWS_PER_BATCH = 8192
_KILL_AFTER_S = 2.0
_MESSAGE_CHARS = 8000  # less than a pipe holds, so that writing it never waits for the reader
_REPOSITORY = Path(__file__).resolve().parents[2]
_KEPT_ENVIRONMENT = ("LD_LIBRARY_PATH", "PATH", "TZ")
# pyarrow.dataset loads pandas wherever it is installed, for nothing here: that would be half of the start.
_CHILD = """
import sys
class NoPandas:
    def find_spec(name, *_):
        if name == "pandas":
            raise ImportError(name)
sys.meta_path.insert(0, NoPandas)
from datasets_out.sql.query import main
main()
"""
_CHILD_ENVIRONMENT = {
    "PYTHONPATH": str(_REPOSITORY),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    "OPENBLAS_NUM_THREADS": "1",
}

# The order counts. Whoever denies external access to DuckDB leaves it the folder of `temp_directory`, and, if that is
# done in `connect()`, the names of the database's own files in the working folder, all open to COPY; and nothing can
# be set after the lock.
_LOCKS = (
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET allow_extension_repositories = 'forbidden'",
    "SET allow_persistent_secrets = false",
    "SET python_enable_replacements = false",
    "SET temp_directory = ''",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_CHILD_ERRORS = {
    error.__name__: error
    for error in (CommitError, CorruptDataError, FoilError, QueryStoppedError, SqlRefusedError, UsageError)
}
"""The errors that the child may report, all made of one message; any other is reported as its nearest base here."""
_ALLOWED = ("SELECT", "EXPLAIN")
_ASK_ONE = "ask one SELECT, WITH, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN"


def run_sql(
    out: Path,
    sql: str,
    *,
    timeout_s: float = TIMEOUT_S,
    memory_bytes: int = MEMORY_BYTES,
    snapshot: str | None = None,
) -> pa.Table:
    """The answer to one SQL query over VIEWS, of a snapshot or of all that is committed now.

    `timeout_s` bounds the query's wall time in seconds; `memory_bytes` what it may use, and the size of its result.
    Columns of equal names get a number behind. Raises UsageError (syntax, unknown table or column), SqlRefusedError
    (anything but reading the views), QueryStoppedError (a limit), CorruptDataError (a file is damaged or missing).
    """
    _check_request(sql, timeout_s, memory_bytes)
    request = {"out": str(Path(out).resolve()), "sql": sql, "snapshot": snapshot}
    limits = {"timeout_s": timeout_s, "memory_bytes": memory_bytes}
    environment = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    with subprocess.Popen(
        [sys.executable, "-P", "-c", _CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env=environment | _CHILD_ENVIRONMENT,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        try:
            with contextlib.suppress(BrokenPipeError), child.stdin:
                child.stdin.write(json.dumps(request | limits).encode())
            table = _receive_table(child.stdout, memory_bytes)
            stderr = child.stderr.read().decode(errors="replace")
            status = child.wait()
        finally:
            child.kill()
    if status or table is None:
        raise _failure(status, stderr, timeout_s, memory_bytes)
    return table.rename_columns(_number_duplicates(table.column_names))


def _check_request(sql: str, timeout_s: float, memory_bytes: int) -> None:
    if "\0" in sql or sql.encode(errors="ignore").decode() != sql:
        raise UsageError(f"the query {sql!r} is not valid text; write it in UTF-8 and without NUL bytes")
    if not _TIMEOUTS_S[0] <= timeout_s <= _TIMEOUTS_S[1]:
        raise UsageError(
            f"the time limit must be between {_TIMEOUTS_S[0]} and {_TIMEOUTS_S[1]} seconds, not {timeout_s}"
        )
    if memory_bytes < _LEAST_MEMORY_BYTES:
        raise UsageError(f"the memory limit must be at least {_LEAST_MEMORY_BYTES:,} bytes, not {memory_bytes:,}")


def _receive_table(stream: IO[bytes], memory_bytes: int) -> pa.Table | None:
    """The streamed table, or None if the stream breaks off; the child then says why."""
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


def _failure(status: int, stderr: str, timeout_s: float, memory_bytes: int) -> FoilError:
    if status == -signal.SIGALRM:
        return _too_slow(timeout_s)
    with contextlib.suppress(ValueError, KeyError, StopIteration):
        kind, message = json.loads(next(line for line in stderr.splitlines() if line.startswith('["')))
        return _CHILD_ERRORS[kind](message)
    if status < 0:
        return QueryStoppedError(
            f"the query's process died of {signal.Signals(-status).name}, as it may at its memory limit of "
            f"{memory_bytes:,} bytes; narrow it (fewer columns, WHERE, LIMIT), or raise the limit"
        )
    if "MemoryError" in stderr or "bad_alloc" in stderr:
        return _too_big(memory_bytes)
    return FoilError(f"the query's process ended with status {status}: {stderr[-2000:]}; report this as a bug")


def _too_slow(timeout_s: float) -> QueryStoppedError:
    return QueryStoppedError(
        f"the query was stopped after {timeout_s:g} s, its time limit; narrow it (WHERE, LIMIT), or raise the limit"
    )


def _too_big(memory_bytes: int) -> QueryStoppedError:
    return QueryStoppedError(
        f"the query was stopped at its memory limit of {memory_bytes:,} bytes; "
        "narrow it (fewer columns, WHERE, LIMIT), or raise the limit"
    )


def _number_duplicates(names: Iterable[str]) -> list[str]:
    """The names, a repeated one with the first free number behind it: a, a -> a, a_1."""
    taken: dict[str, None] = {}
    for name in names:
        number, free = 0, name
        while free in taken:
            number += 1
            free = f"{name}_{number}"
        taken[free] = None
    return list(taken)


def main() -> None:
    """The child: reads the request from stdin, streams the answer to stdout, or writes one JSON error to stderr."""
    forbid_writes()
    request = json.load(sys.stdin)
    status = 0
    try:
        _stream_result(request, sys.stdout.buffer)
    except (FoilError, duckdb.Error, pa.ArrowException, OSError, MemoryError) as error:
        explained = error if isinstance(error, FoilError) else _explain(error, request)
        kind = next(base.__name__ for base in type(explained).__mro__ if base.__name__ in _CHILD_ERRORS)
        json.dump([kind, str(explained)[:_MESSAGE_CHARS]], sys.stderr)
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # DuckDB's and Arrow's threads may still be at work; nothing is left that they could spoil


def _stream_result(request: Mapping[str, Any], sink: IO[bytes]) -> None:
    connection = connect(request)
    _limit_memory(request["memory_bytes"])
    signal.setitimer(signal.ITIMER_REAL, request["timeout_s"] + _KILL_AFTER_S)
    check_statement(connection, request["sql"])
    reader = connection.sql(request["sql"]).to_arrow_reader(_ROWS_PER_BATCH)
    with pa.ipc.new_stream(sink, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)


def connect(request: Mapping[str, Any]) -> duckdb.DuckDBPyConnection:
    """A locked connection to the views of `out` and `snapshot`, with the time and memory limits of the request."""
    connection = duckdb.connect(":memory:")
    connection.execute("SET enable_progress_bar = false")
    for name, source in sources(Path(request["out"]), request["snapshot"]).items():
        connection.register(name, source)
    connection.execute(DERIVED_SQL)
    connection.execute(f"SET memory_limit = '{request['memory_bytes']} bytes'")
    connection.execute(f"SET max_execution_time = {int(request['timeout_s'] * 1000)}")
    for lock in _LOCKS:
        connection.execute(lock)
    return connection


def _limit_memory(more_bytes: int) -> None:
    """Lets this process take `more_bytes`; DuckDB's own limit does not count every string."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + more_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def check_statement(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuses all but one reading statement, with a clear message; the protections do not depend on it."""
    kinds = [_kind(statement) for statement in connection.extract_statements(sql)]
    if not kinds:
        raise UsageError(f"the query is empty; {_ASK_ONE}, such as 'FROM topics LIMIT 5'")
    if len(kinds) > 1:
        raise SqlRefusedError(f"{len(kinds)} statements were given ({', '.join(kinds)}); {_ASK_ONE} at a time")
    if kinds[0] not in _ALLOWED:
        raise SqlRefusedError(f"a {kinds[0]} statement is not allowed here, since data is only read; {_ASK_ONE}")


def _kind(statement: duckdb.Statement) -> str:
    try:
        return str(statement.type.name)
    except ValueError:  # a type to which DuckDB's Python module gives no name
        return "nameless"


def _explain(error: Exception, request: Mapping[str, Any]) -> FoilError:
    """What DuckDB's error means here. Errors inside a stream arrive as OSError, so the text's first words decide."""
    text = str(error)
    kind = text.partition(" Error: ")[0]
    if kind == "INTERRUPT":
        return _too_slow(request["timeout_s"])
    if kind == "Out of Memory" or isinstance(error, MemoryError) or re.search("bad_alloc|malloc of size", text):
        return _too_big(request["memory_bytes"])
    if kind == "Permission" or "configuration has been locked" in text:
        return SqlRefusedError(f"{text}; a query reads the views {', '.join(VIEWS)} and nothing else")
    if "reading the stream registered" in text:
        return CorruptDataError(f"{text}; `foil verify` names the damaged files")
    if text.startswith("Catalog Error: Table with name"):
        message, _, position = text.partition("\n\n")
        return UsageError(f"{message.splitlines()[0]} The views are {', '.join(VIEWS)}.\n\n{position}")
    return UsageError(text)
