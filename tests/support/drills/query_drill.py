"""Attacks on the curator's SQL, tried one after the other in one process: `python query_drill.py REQUEST`.

Each goes to the locked connection twice: after the check of statements, as users meet it, and without that check, to
show that DuckDB's own locks suffice. The kernel's write ban is left out here, for the same reason.
"""

import hashlib
import json
import sys
from pathlib import Path

import pyarrow as pa

from foil.datasets_out.sql.query_process import check_statement, connect
from foil.engine.errors import FoilError

SECRET = "correct-horse-battery-staple"
python_variable = secret_table = pa.table({"word": [SECRET]})  # what a replacement scan would find
READERS = ("read_parquet", "read_csv", "read_text", "read_json")

WRITES = [
    "WITH a AS (COPY (SELECT 1) TO '{shard}') SELECT 1",
    "WITH a AS MATERIALIZED (COPY (SELECT 1 AS x) TO '{shard}' (FORMAT parquet)) FROM a",
    "WITH a AS (SELECT 1), b AS (COPY a TO '{bait}/new.csv') SELECT * FROM a, b",
    "SELECT * FROM (WITH a AS (COPY (SELECT 1) TO '{bait}/new.csv') SELECT 1)",
    "SELECT (WITH a AS (COPY (SELECT 1) TO '{bait}/new.csv') SELECT 1)",
    "EXPLAIN ANALYZE WITH a AS (COPY (SELECT 1) TO '{shard}') SELECT 1",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{shard}'",
    "EXPLAIN ANALYZE COPY topics TO '{bait}/new.parquet'",
    "PIVOT (WITH a AS (COPY (SELECT 1) TO '{shard}') SELECT 1 AS x, 2 AS y) ON x USING sum(y)",
    "WITH b AS (COPY (SELECT 1) TO '{bait}/new.csv') PIVOT (SELECT 1 AS x, 2 AS y) ON x USING sum(y)",
    "COPY (PIVOT (SELECT 1 AS x, 2 AS y) ON x USING sum(y)) TO '{bait}/new.csv'",
    "CREATE TABLE copied AS PIVOT (SELECT 1 AS x, 2 AS y) ON x USING sum(y)",
    "COPY (SELECT 1) TO '{shard}'",
    "COPY (SELECT 1) TO '{shard}' (FORMAT parquet, OVERWRITE_OR_IGNORE true)",
    "COPY (SELECT 1) TO '{bait}/secret.csv'",
    "COPY topics TO '{bait}/new.parquet'",
    "COPY (SELECT 1) TO '/dev/stdout'",
    "COPY (SELECT 1) TO '/dev/stderr'",
    "COPY (SELECT 1) TO '/proc/self/fd/1'",
    "WITH a AS (COPY (SELECT 1) TO '/dev/fd/1' (FORMAT csv)) SELECT 1",
    "WITH a AS (COPY (SELECT 1) TO ':memory:') SELECT 1",
    "WITH a AS (COPY (SELECT 1) TO ':memory:.wal') SELECT 1",
    "WITH a AS (COPY (SELECT 1) TO '/:memory:.wal') SELECT 1",
    "WITH a AS (COPY (SELECT 1) TO '.tmp/new.csv') SELECT 1",
    "/* SELECT 1 */ COPY (SELECT 1) TO '{bait}/new.csv'",
    "--\nCOPY (SELECT 1) TO '{bait}/new.csv' -- SELECT",
    "SELECT 1; COPY (SELECT 1) TO '{bait}/new.csv'",
    "SELECT 1 /* ; */ ; COPY (SELECT 1) TO '{bait}/new.csv'; SELECT 2",
    "EXPORT DATABASE '{bait}/dump'",
    "ATTACH '{bait}/new.db' AS new",
    "ATTACH IF NOT EXISTS '{shard}' AS shard",
    "CREATE TABLE copied AS FROM topics",
    "CREATE TEMP TABLE copied AS FROM topics",
    "CREATE OR REPLACE VIEW topics AS SELECT 1",
    "INSERT INTO topics SELECT * FROM topics",
    "WITH a AS (INSERT INTO topics SELECT * FROM topics RETURNING *) FROM a",
    "WITH a AS (DELETE FROM topics RETURNING *) FROM a",
    "UPDATE topics SET status = 'accepted'",
    "DELETE FROM topics",
    "DROP VIEW topics",
    "TRUNCATE topics",
    "VACUUM",
    "CHECKPOINT",
    "PREPARE p AS COPY (SELECT 1) TO '{bait}/new.csv'",
    "EXECUTE p",
    "SELECT * FROM query('COPY (SELECT 1) TO ''{bait}/new.csv''')",
    "SELECT * FROM query('WITH a AS (COPY (SELECT 1) TO ''{bait}/new.csv'') SELECT 1')",
    "SELECT * FROM enable_logging(storage = 'file', storage_path = '{bait}/log')",
    "CALL enable_logging(storage = 'file', storage_path = '{bait}/log')",
    "SELECT * FROM enable_profiling(save_location = '{bait}/profile.json')",
    "PRAGMA profiling_output = '{bait}/profile.json'",
    "CREATE PERSISTENT SECRET s (TYPE http, BEARER_TOKEN 'x')",
]

READS = [
    "SELECT * FROM read_csv('{bait}/secret.csv')",
    "SELECT * FROM read_csv_auto(['{bait}/secret.csv'])",
    "SELECT * FROM read_csv('/etc/passwd', header = false, sep = ':')",
    "SELECT * FROM read_text('{bait}/secret.csv')",
    "SELECT * FROM read_blob('{bait}/*')",
    "SELECT * FROM read_json('{bait}/secret.json')",
    "SELECT * FROM read_ndjson_objects('{bait}/secret.json')",
    "SELECT * FROM sniff_csv('{bait}/secret.csv')",
    "SELECT * FROM glob('{bait}/*')",
    "FROM '{bait}/secret.csv'",
    "FROM '{bait}/secret.json'",
    "FROM '{shard}'",
    "FROM read_parquet('{shard}')",
    "FROM parquet_scan(['{shard}'])",
    "FROM parquet_metadata('{shard}')",
    "FROM parquet_schema('{shard}')",
    "FROM parquet_kv_metadata('{shard}')",
    "FROM read_parquet('{data}/*/*.parquet')",
    "FROM read_text('/proc/self/environ')",
    "FROM read_text('/proc/self/fd/0')",
    "FROM read_csv('/dev/stdin')",
    "FROM read_duckdb('{bait}/any.db')",
    "FROM (VALUES ('{bait}/secret.csv')) AS v(path), LATERAL read_text(v.path)",
    "SELECT getenv('FOIL_BAIT')",
    "FROM query('FROM read_text(''{bait}/secret.csv'')')",
    "FROM query_table('{bait}/secret.csv')",
    "FROM json_execute_serialized_sql(json_serialize_sql('FROM read_text(''{bait}/secret.csv'')'))",
    "FROM secret_table",
    "SELECT * FROM SECRET",
    "FROM python_variable",
    "FROM arrow_scan(1, 2, 3)",
    "FROM python_arrow_scan(1, 2, 3)",
    "FROM pandas_scan(1)",
    "FROM pg_read_file('/etc/passwd')",
    "FROM sqlite_scan('{bait}/any.db', 't')",
    "FROM read_csv('{bait}/../{bait_name}/secret.csv')",
    "IMPORT DATABASE '{bait}'",
    "COPY topics FROM '{bait}/secret.csv'",
    "CREATE MACRO peek() AS TABLE FROM read_text('{bait}/secret.csv')",
    "SELECT load_extension('json')",
    *(f"FROM {reader}('{scheme}://{{address}}/x')" for scheme in ("http", "https", "s3", "hf") for reader in READERS),
    "ATTACH 'http://{address}/x' AS a",
    "FROM 'http://{address}/x.parquet'",
]

SETTINGS = [
    "SET enable_external_access = true",
    "RESET enable_external_access",
    "SET GLOBAL allowed_directories = ['/']",
    "SET allowed_paths = ['/etc/passwd']",
    "SET lock_configuration = false",
    "SET temp_directory = '{bait}'",
    "SET max_execution_time = 0",
    "SET memory_limit = '1TB'",
    "SET python_enable_replacements = true",
    "PRAGMA enable_profiling",
    "PRAGMA database_list",
    "INSTALL httpfs",
    "INSTALL httpfs FROM '{bait}'",
    "LOAD httpfs",
    "LOAD '{bait}/evil.duckdb_extension'",
    "UPDATE EXTENSIONS",
    "USE temp",
    "BEGIN TRANSACTION",
    "DETACH memory",
    "CALL pragma_version()",
    "EXPLAIN ANALYZE SET enable_external_access = true",
]


def state(*folders: Path) -> dict[str, str]:
    """What lies in the folders: every path, and the sha256 of every file."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for folder in folders
        for path in sorted(folder.rglob("*"))
    }


def attempt(sql: str, request: dict[str, object], *, checked: bool) -> dict[str, object]:
    """What became of one attack: whether it ran, and its result or error."""
    connection = connect({**request, "sql": sql})
    try:
        if checked:
            check_statement(connection, sql)
        return {"ran": True, "output": str(connection.execute(sql).fetchall())}
    except (FoilError, Exception) as error:  # noqa: BLE001 - whatever an attack raises is its outcome
        return {"ran": False, "output": f"{type(error).__name__}: {error}"}


def main() -> None:
    request = json.loads(sys.argv[1])
    Path(".tmp").mkdir()  # where DuckDB would keep temporary files, if it might
    watched = [*map(Path, request["runs"].values()), Path(request["placeholders"]["bait"]), Path.cwd()]
    for attack in WRITES + READS + SETTINGS:
        sql = attack.format(**request["placeholders"])
        before = state(*watched)
        outcome = {
            "checked": attempt(sql, request, checked=True),
            "unchecked": attempt(sql, request, checked=False),
            "changed": state(*watched) != before,
        }
        print(json.dumps([attack, outcome]))


if __name__ == "__main__":
    main()
