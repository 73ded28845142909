"""The process that answers one query of `datasets_out.sql.query`; only here is DuckDB loaded.

request on stdin -> writes banned -> datasets registered, DuckDB locked -> Arrow stream on stdout
"""

import ctypes
import json
import os
import re
import resource
import signal
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import duckdb
import pyarrow as pa

from foil.datasets_out.sql.query import CHILD_ERRORS, FORMULA_NOTE, too_big, too_slow
from foil.datasets_out.sql.result_forms import Form, may_be_formula, select_list
from foil.datasets_out.sql.views import VIEWS, create_views, sources
from foil.engine.errors import CorruptDataError, FoilError, SqlRefusedError, UsageError

_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_VERSION_FLAG = 1
_NO_NEW_PRIVILEGES = 38
_WRITE_FILE = 1 << 1
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_TRUNCATE, _TRUNCATE_SINCE = 1 << 14, 3


def forbid_writes() -> bool:
    """Forbids writes to this thread and all that it starts later, for good: call it before any thread starts.

    In case DuckDB's own settings should let a write through. True if the kernel now refuses to open for writing,
    create, delete, rename or truncate any file, whoever runs the process. Descriptors already open stay usable, so a
    pipe still carries results. This needs Linux 5.13 or newer (Landlock); elsewhere it is False, and files merely
    cannot grow.
    """
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG)
    if version < 1:
        return False
    rights = _WRITE_FILE | _REMOVE_AND_MAKE | (_TRUNCATE if version >= _TRUNCATE_SINCE else 0)
    attributes = struct.pack("<Q", rights)
    ruleset = libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        return False
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    refused: int = libc.syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
    return refused == 0


_ROWS_PER_BATCH = 8192
_KILL_AFTER_S = 2.0
_MESSAGE_CHARS = 8000  # less than a pipe holds, so that writing it never waits for the reader
_ALLOWED = ("SELECT", "EXPLAIN")
_PIVOT = "MULTI"  # the kind of all that holds a PIVOT which finds its own columns: a query, but also a CREATE TABLE
_ASK_ONE = "ask one SELECT, WITH, PIVOT, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN"

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


def main() -> None:
    """Reads the request from stdin, streams the answer to stdout, or writes one JSON error to stderr."""
    forbid_writes()
    request = json.load(sys.stdin)
    status = 0
    try:
        _stream_result(request, sys.stdout.buffer)
    except (FoilError, duckdb.Error, pa.ArrowException, OSError, MemoryError) as error:
        explained = error if isinstance(error, FoilError) else _explain(error, request)
        kind = next(base.__name__ for base in type(explained).__mro__ if base.__name__ in CHILD_ERRORS)
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
    reader, schema = read_in_form(connection.sql(request["sql"]), request["form"])
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in reader:
            writer.write_batch(batch)


def read_in_form(answer: duckdb.DuckDBPyRelation, form: Form) -> tuple[pa.RecordBatchReader, pa.Schema]:
    """The answer in that form. The schema of the form `text` says of each column whether it may hold a formula."""
    names, types = answer.columns, answer.types
    reader = answer.project(select_list(names, types, form)).to_arrow_reader(_ROWS_PER_BATCH)
    if form != "text":
        return reader, reader.schema
    notes = ({FORMULA_NOTE: str(int(may_be_formula(kind)))} for kind in types)
    return reader, pa.schema([field.with_metadata(note) for field, note in zip(reader.schema, notes, strict=True)])


def connect(request: Mapping[str, Any]) -> duckdb.DuckDBPyConnection:
    """A locked connection to the views of `runs` and `snapshot`, with the time and memory limits of the request."""
    connection = duckdb.connect(":memory:")
    connection.execute("SET enable_progress_bar = false")
    runs = [sources(name, Path(out), request["snapshot"], request["sql"]) for name, out in request["runs"].items()]
    create_views(connection, runs)
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
    statements = connection.extract_statements(sql)
    kinds = [_kind(statement) for statement in statements]
    if not kinds:
        raise UsageError(f"the query is empty; {_ASK_ONE}, such as 'FROM topics LIMIT 5'")
    if len(kinds) > 1:
        raise SqlRefusedError(f"{len(kinds)} statements were given ({', '.join(kinds)}); {_ASK_ONE} at a time")
    if kinds[0] not in _ALLOWED and not (kinds[0] == _PIVOT and _is_subquery(connection, statements[0].query)):
        raise SqlRefusedError(f"a {kinds[0]} statement is not allowed here, since data is only read; {_ASK_ONE}")


def _is_subquery(connection: duckdb.DuckDBPyConnection, sql: str) -> bool:
    """Whether the statement can be asked from, as only a query can."""
    try:
        return [_kind(statement) for statement in connection.extract_statements(f"FROM ({sql}\n)")] == [_PIVOT]
    except duckdb.ParserException:
        return False


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
        return too_slow(request["timeout_s"])
    if kind == "Out of Memory" or isinstance(error, MemoryError) or re.search("bad_alloc|malloc of size", text):
        return too_big(request["memory_bytes"])
    if kind == "Permission" or "configuration has been locked" in text:
        return SqlRefusedError(f"{text}; a query reads the views {', '.join(VIEWS)} and nothing else")
    if re.search("reading the Arrow source failed|Arrow source failed: CorruptDataError", text):
        return CorruptDataError(f"{text}; `foil verify` names the damaged files")
    if text.startswith("Catalog Error: Table with name"):
        message, _, position = text.partition("\n\n")
        return UsageError(f"{message.splitlines()[0]} The views are {', '.join(VIEWS)}.\n\n{position}")
    return UsageError(_without_our_casts(text))


def _without_our_casts(text: str) -> str:
    """An error in the columns of `select_list` names what the user did not write; so it is said in other words."""
    if "CAST(#" not in text:
        return text
    message = text.partition("\n\nLINE ")[0]
    return f"{message}; no type of Parquet holds that value: CAST the column to VARCHAR in your query"
