"""Every type of DuckDB leaves as table, CSV, JSON and Parquet, and reads back as it was."""

import csv
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.datasets_out.sql.output_formats import to_csv, to_json, write_parquet
from foil.datasets_out.sql.query import run_sql
from foil.datasets_out.sql.query_process import read_in_form
from foil.engine.errors import UsageError
from tests.support.commands import foil
from tests.support.fuzzing import fuzzed
from tests.support.sample_run import make

ALL_TYPES = "SELECT * FROM test_all_types()"
TOO_LONG_FOR_PARQUET = "* REPLACE (hugeint // 10 AS hugeint, uhugeint // 10 AS uhugeint)"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def strict_json(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse, parse_float=Decimal)


def read_csv(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


def answer(plain: duckdb.DuckDBPyConnection, sql: str, form: str) -> Any:
    """What the query's process would stream."""
    reader, schema = read_in_form(plain.sql(sql), form)
    return reader.read_all().cast(schema)


def test_every_type_together_and_alone_reads_back_from_csv_as_duckdb_itself_reads_it(plain):
    head, *rows = read_csv(to_csv(answer(plain, ALL_TYPES, "text")))
    types = plain.sql(ALL_TYPES).types
    assert len(head) == len(types) == len(rows[0])
    for place, (name, kind) in enumerate(zip(head, types, strict=True)):
        _, *cells = read_csv(to_csv(answer(plain, f'SELECT "{name}" FROM test_all_types()', "text")))
        assert [row[place] for row in rows] == [cell for (cell,) in cells]
        if "UNION" in str(kind) or "TUPLE" in str(kind):  # DuckDB reads no JSON text of these
            continue
        cast = f"CAST({'CAST(? AS JSON)' if cells[0][0][:1] in '[{' else '?'} AS {kind})"
        for row, (cell,) in enumerate(cells[:2]):
            question = f'SELECT {cast} IS NOT DISTINCT FROM "{name}" FROM test_all_types() LIMIT 1 OFFSET {row}'
            assert plain.execute(question, [cell.removeprefix("'")]).fetchall() == [(True,)], (name, cell)
        assert cells[2] == [""]


def test_json_is_strict_and_holds_every_digit(plain):
    first, second, third = strict_json(to_json(answer(plain, ALL_TYPES, "json")))
    assert set(third.values()) == {None}
    assert first["hugeint"] == -(2**127)
    assert second["uhugeint"] == 2**128 - 1
    assert abs(second["bignum"]) > 10**300
    assert second["dec38_10"] == Decimal("9999999999999999999999999999.9999999999")
    assert first["date"] == "5877642-06-25 (BC)"
    assert second["time"] == "24:00:00"
    assert second["time_tz"] == "24:00:00-15:59:59"
    assert second["double_array"] == [42, "NaN", "Infinity", "-Infinity", None, -42]
    assert second["union"] == {"age": 5}
    assert second["interval"] == "83 years 3 months 999 days 00:16:39.999999"


def test_parquet_stores_every_type_and_duckdb_reads_the_same_values(plain, tmp_path):
    sql = f"SELECT {TOO_LONG_FOR_PARQUET} FROM test_all_types()"
    stored = answer(plain, sql, "typed")
    write_parquet(stored, tmp_path / "all.parquet")
    assert not [path for path in tmp_path.iterdir() if path.name != "all.parquet"]
    names = plain.sql(sql).columns
    written = plain.sql(f"SELECT COLUMNS(*)::VARCHAR FROM '{tmp_path / 'all.parquet'}'").fetchall()
    expected = plain.sql(f"SELECT COLUMNS(*)::VARCHAR FROM ({sql})").fetchall()
    different = {
        name
        for read, real in zip(written, expected, strict=True)
        for name, ours, theirs in zip(names, read, real, strict=True)
        if ours != theirs
    }
    assert different == {"union", "tuple", "geometry"}, "stored as JSON with its tag, as a struct, as WKB"


@pytest.mark.slow
@pytest.mark.parametrize("value", [f"{2**127 - 1}::HUGEINT", f"{2**128 - 1}::UHUGEINT"])
def test_a_number_that_parquet_cannot_hold_is_refused_and_leaves_no_file(out, tmp_path, value):
    path = tmp_path / "answer.parquet"
    refused = foil("sql", out, f"SELECT {value} AS x", "--parquet", path)
    assert refused.returncode == 2
    assert "CAST the column to VARCHAR" in refused.stderr
    assert "CAST(#" not in refused.stderr
    assert not list(tmp_path.iterdir())
    assert foil("sql", out, "SELECT INTERVAL 1 DAY AS x", "--parquet", path).returncode == 0
    assert pq.read_table(path).to_pylist() == [{"x": "1 day"}]


@pytest.mark.slow
def test_sums_dates_and_far_times_leave_the_command_as_what_they_are(out):
    times = "DATE '2026-01-02' AS d, TIMESTAMP 'infinity' AS t, DATE '0044-03-15 (BC)' AS b"
    sql = f"SELECT sum(i) AS s, {times} FROM range(3) r(i)"
    assert foil("sql", out, sql, "--csv").stdout == "s,d,t,b\n3,2026-01-02,infinity,0044-03-15 (BC)\n"
    assert strict_json(foil("sql", out, sql, "--json").stdout) == [
        {"s": 3, "d": "2026-01-02", "t": "infinity", "b": "0044-03-15 (BC)"}
    ]
    table = foil("sql", out, sql)
    assert table.returncode == 0
    assert "infinity" in table.stdout


def test_null_and_empty_text_differ_in_csv(plain):
    assert to_csv(answer(plain, "SELECT '' AS a, NULL AS b", "text")) == 'a,b\n"",\n'
    assert read_csv(to_csv(answer(plain, "SELECT NULL AS a", "text"))) == [["a"], [""]]


def test_a_column_of_numbers_and_times_is_never_taken_for_a_formula(plain):
    sql = "SELECT -1.5 AS a, '-inf'::FLOAT AS b, INTERVAL '-1 day' AS c, DATE '-infinity' AS d, '-x' AS e, [-1] AS f"
    assert read_csv(to_csv(answer(plain, sql, "text")))[1] == ["-1.5", "-inf", "-1 day", "-infinity", "'-x", "[-1]"]


@pytest.mark.parametrize("constant", ["NaN", "nan", "Infinity", "-inf", '{"a": [nan, -Infinity, "NaN"]}', "[1,]"])
def test_json_that_only_duckdb_accepts_leaves_as_strict_json(plain, constant):
    strict_json(to_json(answer(plain, f"SELECT '{constant}'::JSON AS j, [j] AS l", "json")))


def test_a_pivot_finds_its_own_columns(out):
    sql = "PIVOT (SELECT seed_id, status FROM topics) ON status USING count(*)"
    asked = foil("sql", out, sql, "--json")
    assert asked.returncode == 0, asked.stderr
    assert {"seed_id", "accepted", "rejected", "failed"} == set(json.loads(asked.stdout)[0])


def test_a_file_that_cannot_be_written_is_a_mistake_of_usage(out, tmp_path):
    table = run_sql(out, "SELECT 1 AS x")
    for path in (tmp_path, tmp_path / "no" / "folder.parquet", Path("/proc/no.parquet")):
        with pytest.raises(UsageError, match="give the path of a new file"):
            write_parquet(table, path)


LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "HUGEINT": st.integers(-(10**38) + 1, 10**38 - 1),
    "DOUBLE": st.floats(allow_subnormal=False),
    "DECIMAL(18, 3)": st.decimals(-(10**14), 10**14, places=3),
    "VARCHAR": st.text(st.characters(codec="utf-8"), max_size=12),
    "DATE": st.sampled_from(["infinity", "-infinity", "0044-03-15 (BC)", "9999-12-31", "290000-01-01"]),
    "TIMESTAMP": st.sampled_from(["infinity", "0001-01-01 (BC) 00:00:00", "2026-01-02 03:04:05.678901"]),
    "INTERVAL": st.sampled_from(["1 year 2 months", "-3 days", "00:00:00.000001"]),
    "BOOLEAN": st.booleans(),
}


@st.composite
def typed_values(draw: st.DrawFn, depth: int = 3) -> tuple[str, str]:
    """A DuckDB type, and a literal of it, with NULLs, in SQL."""
    kind = draw(st.sampled_from([*LEAVES, *(["LIST", "STRUCT", "MAP"] if depth else [])]))
    if kind in LEAVES:
        value = draw(st.none() | LEAVES[kind])
        text = "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"
        return kind, f"CAST({text} AS {kind})"
    inner, value = draw(typed_values(depth=depth - 1))
    if kind == "LIST":
        return f"{inner}[]", f"[{value}, NULL]"
    if kind == "STRUCT":
        return f'STRUCT("a b" {inner})', f"{{'a b': {value}}}"
    key = draw(st.text(st.characters(codec="utf-8"), max_size=5)).replace("'", "''")
    return f"MAP(VARCHAR, {inner})", f"MAP {{'{key}': {value}}}"


@fuzzed(60)
@given(values=st.lists(typed_values(), min_size=1, max_size=4))
def test_any_nested_value_leaves_in_all_forms_and_reads_back(tmp_path_factory, values):
    literals = [f"{value}::{kind}".replace("\0", "") for kind, value in values]
    sql = "SELECT " + ", ".join(f"{literal} AS c{n}" for n, literal in enumerate(literals))
    path = tmp_path_factory.mktemp("answer") / "x.parquet"
    with duckdb.connect() as plain:
        [row] = strict_json(to_json(answer(plain, sql, "json")))
        [_, cells] = read_csv(to_csv(answer(plain, sql, "text")))
        for n, literal in enumerate(literals):
            [(text,)] = plain.sql(f"SELECT to_json({literal})::VARCHAR").fetchall()
            assert row[f"c{n}"] == json.loads(text or "null", parse_constant=str, parse_float=Decimal)
            assert (cells[n] == "") <= (text in {None, '""'})
        write_parquet(answer(plain, sql, "typed"), path)
        same = " AND ".join(f"p.c{n}::VARCHAR IS NOT DISTINCT FROM q.c{n}::VARCHAR" for n in range(len(literals)))
        assert plain.sql(f"SELECT {same} FROM '{path}' p, ({sql}) q").fetchall() == [(True,)]
