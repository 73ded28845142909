"""Table formats that could hold the commits of a run, each by its own library: six tables a key, committed once.

    store.begin(tables) -> store.commit(key, tables, writer) from any process, True where its rows stand -> store.rows()

Imports nothing of Foil but in the store `foil`, so that a Python of its own can run the others.
"""

import random
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

KEY = "commit_key"
MOST_TRIES = 50
Tables = Mapping[str, pa.Table]
Rows = dict[str, Counter[tuple[int, int]]]
"""Of each table, how many rows each (key, writer) has."""


def keyed(table: pa.Table, key: int, writer: int) -> pa.Table:
    """The table with the key, the writer and the number of each row."""
    for name, values in ((KEY, [key] * len(table)), ("writer", [writer] * len(table)), ("row", range(len(table)))):
        table = table.append_column(name, pa.array(values, pa.int64()))
    return table


class Foil:
    """Six Parquet files, then one entry that is created once."""

    packages = ("foil-ir",)

    def __init__(self, folder: Path) -> None:
        from benchmarks.commits import make_topic
        from foil.datasets_out.commits.log import CommitLog

        self._folder, self._make, self._log = folder, make_topic, CommitLog(folder)

    def begin(self, _: Tables) -> None:
        self._log.open("benchmark", {})

    def commit(self, key: int, _: Tables, writer: int = 0) -> bool:
        from foil.engine.errors import FoilError

        words = [f"w{writer}-{number}" for number in range(500)]
        topics = [self._make(1_000 * key + number, random.Random(number), words) for number in range(20)]
        try:
            return self._log.commit(key, topics, {})
        except FoilError:
            return False

    def rows(self) -> Rows:
        """By the SQL of a run; one entry names all files of a key, so its writer is not asked."""
        from foil.datasets_out.sql.query import run_sql

        names = ("topics", "intents", "passages", "judgments", "verdicts", "calls")
        ids = {name: run_sql(self._folder, f"SELECT topic_id FROM {name}")["topic_id"].to_pylist() for name in names}
        return {name: Counter((int(each[1:]) // 1_000, 0) for each in found) for name, found in ids.items()}


class Delta:
    """A table each; a transaction's application id refuses a key that stands."""

    packages = ("deltalake", "pyarrow")

    def __init__(self, folder: Path) -> None:
        import deltalake

        self._library, self._folder = deltalake, folder

    def begin(self, tables: Tables) -> None:
        for name, table in tables.items():
            self._library.write_deltalake(self._folder / name, keyed(table, 0, 0).slice(0, 0))

    def commit(self, key: int, tables: Tables, writer: int = 0) -> bool:
        won = True
        for name, table in tables.items():
            log = self._library.DeltaTable(self._folder / name)
            if log.transaction_version(f"key-{key}") is not None:
                return False
            once = self._library.CommitProperties(app_transactions=[self._library.Transaction(f"key-{key}", 1)])
            try:
                self._library.write_deltalake(log, keyed(table, key, writer), mode="append", commit_properties=once)
            except self._library.exceptions.DeltaError:
                won = False
        return won

    def rows(self) -> Rows:
        return {path.name: _count(self._library.DeltaTable(path).file_uris()) for path in _folders(self._folder)}


class Iceberg:
    """A table each in a catalog of SQLite; a snapshot holds its key, and a commit names the snapshot it follows."""

    packages = ("pyiceberg", "pyarrow")

    def __init__(self, folder: Path) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        place = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/tables"}
        self._catalog = SqlCatalog("c", **place)
        self._names: list[str] = []

    def begin(self, tables: Tables) -> None:
        self._catalog.create_namespace("run")
        for name, table in tables.items():
            once = {"commit.retry.num-retries": "0"}  # its own retry appends a key that stands by then
            self._catalog.create_table(f"run.{name}", keyed(table, 0, 0).schema, properties=once)

    def commit(self, key: int, tables: Tables, writer: int = 0) -> bool:
        won = [self._append(name, keyed(table, key, writer), key) for name, table in tables.items()]
        return all(won)

    def _append(self, name: str, rows: pa.Table, key: int) -> bool:
        from pyiceberg.exceptions import CommitFailedException

        while True:
            table = self._catalog.load_table(f"run.{name}")
            if any((each.summary or {}).get("foil-key") == str(key) for each in table.metadata.snapshots):
                return False
            with suppress(CommitFailedException):
                table.append(rows, snapshot_properties={"foil-key": str(key)})
                return True

    def rows(self) -> Rows:
        tables = {name[-1]: self._catalog.load_table(name) for name in self._catalog.list_tables("run")}
        return {name: _count([file.file.file_path.removeprefix("file://") for file in table.scan().plan_files()])
                for name, table in tables.items()}  # fmt: skip


class Lance:
    """A data set each; rows are inserted where none has their key."""

    packages = ("pylance", "pyarrow")

    def __init__(self, folder: Path) -> None:
        import lance

        self._library, self._folder = lance, folder

    def begin(self, tables: Tables) -> None:
        for name, table in tables.items():
            self._library.write_dataset(_with_primary_key(keyed(table, 0, 0).slice(0, 0)), str(self._folder / name))

    def commit(self, key: int, tables: Tables, writer: int = 0) -> bool:
        won = [self._insert(name, _with_primary_key(keyed(table, key, writer))) for name, table in tables.items()]
        return all(won)

    def _insert(self, name: str, rows: pa.Table) -> bool:
        data = self._library.dataset(str(self._folder / name))
        found = data.merge_insert([KEY, "row"]).when_not_matched_insert_all().execute(rows)
        return int(found["num_inserted_rows"]) > 0

    def rows(self) -> Rows:
        sets = {path.name: self._library.dataset(str(path)) for path in _folders(self._folder)}
        return {name: _pairs(each.to_table(columns=[KEY, "writer"])) for name, each in sets.items()}


class DuckLake:
    """Six tables of one catalog in SQLite; one transaction of SQL commits them."""

    packages = ("duckdb", "duckdb-ext-ducklake", "duckdb-ext-sqlite", "pyarrow")

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._connection = self._connect()

    def _connect(self) -> Any:
        import duckdb

        connection = duckdb.connect()
        for package in ("duckdb-ext-sqlite", "duckdb-ext-ducklake"):
            _load(connection, package)
        connection.execute(f"ATTACH 'ducklake:sqlite:{self._folder}/catalog.db' AS lake "
                           f"(DATA_PATH '{self._folder}/tables', DATA_INLINING_ROW_LIMIT 0)")  # fmt: skip
        return connection

    def begin(self, tables: Tables) -> None:
        self._connection.execute(f"CREATE TABLE lake.keys ({KEY} BIGINT)")
        for name, table in tables.items():
            self._connection.register("given", keyed(table, 0, 0).slice(0, 0))
            self._connection.execute(f"CREATE TABLE lake.{name} AS FROM given")

    def commit(self, key: int, tables: Tables, writer: int = 0) -> bool:
        import duckdb

        connection = self._connection
        for _ in range(MOST_TRIES):
            try:
                connection.execute("BEGIN")
                if connection.execute(f"SELECT count(*) FROM lake.keys WHERE {KEY} = {key}").fetchone() != (0,):
                    connection.execute("ROLLBACK")
                    return False
                connection.execute(f"INSERT INTO lake.keys VALUES ({key})")
                for name, table in tables.items():
                    connection.register("given", keyed(table, key, writer))
                    connection.execute(f"INSERT INTO lake.{name} FROM given")
                connection.execute("COMMIT")
            except duckdb.Error as error:
                last = error
                time.sleep(random.uniform(0, 0.2))
                with suppress(duckdb.Error):
                    connection.execute("ROLLBACK")
            else:
                return True
        raise RuntimeError(f"key {key} could not be committed in {MOST_TRIES} tries: {last}")

    def rows(self) -> Rows:
        listed = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'lake' AND table_name <> 'keys'"
        names = [name for (name,) in self._connection.execute(listed).fetchall()]
        rows = {name: self._connection.execute(f"SELECT {KEY}, writer FROM lake.{name}").fetchall() for name in names}
        return {name: Counter(found) for name, found in rows.items()}


STORES = {"foil": Foil, "delta": Delta, "iceberg": Iceberg, "lance": Lance, "ducklake": DuckLake}


def missing(name: str) -> str:
    """Why a store cannot be tried here; "" where it can."""
    try:
        for package in STORES[name].packages:
            version(package)
    except ImportError as error:
        return f"{error.name} is not installed"
    return ""


def versions(name: str) -> str:
    """Its package and version."""
    return " ".join(f"{package} {version(package)}" for package in STORES[name].packages if package != "pyarrow")


def _with_primary_key(table: pa.Table) -> pa.Table:
    """The table whose key and row are marked as Lance's primary key, by which it sees that two inserts collide."""
    mark = {"lance-schema:unenforced-primary-key": "true"}
    fields = [
        each.with_metadata(mark).with_nullable(False) if each.name in {KEY, "row"} else each for each in table.schema
    ]
    return table.cast(pa.schema(fields))


def _load(connection: Any, package: str) -> None:
    """Loads an extension of DuckDB without the network: the file of the package that brings it."""
    files = [file for file in distribution(package).files or () if file.name.endswith(".duckdb_extension")]
    connection.execute(f"LOAD '{files[0].locate()}'")


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir())


def _count(files: list[str]) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for file in files:
        found += _pairs(pq.read_table(file.removeprefix("file://"), columns=[KEY, "writer"]))
    return found


def _pairs(table: pa.Table) -> Counter[tuple[int, int]]:
    return Counter(zip(table[KEY].to_pylist(), table["writer"].to_pylist(), strict=True))
