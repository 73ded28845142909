"""Ordinary and hostile inputs that are no clean rows: read, or refused with file and row; never a hang."""

import datetime as dt
import decimal
import gc
import gzip
import json
import os
import socket
import time
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from foil.engine.errors import SeedFormatError, UsageError
from foil.engine.seeds.beir import BeirReader, BeirSettings
from foil.engine.seeds.msmarco import MsmarcoRows, MsmarcoSettings
from foil.engine.seeds.table import Columns, TableReader, TableSettings
from foil.engine.topic import Seed
from tests.support.commands import foil


@pytest.fixture(autouse=True)
def uncollected():
    """No collection while a decoder stands at the recursion limit, where what others do at a collection fails."""
    gc.disable()
    yield
    gc.enable()


DAY = dt.datetime(2026, 11, 22, tzinfo=dt.UTC)
CELLS: dict[str, Any] = {
    "text": pa.array(["seals"]),
    "large text": pa.array(["seals"], pa.large_string()),
    "text view": pa.array(["seals"], pa.string_view()),
    "dictionary": pa.array(["seals"]).dictionary_encode(),
    "int8": pa.array([7], pa.int8()),
    "uint64": pa.array([2**64 - 1], pa.uint64()),
    "half": pa.array([1.5], pa.float32()),
    "nan": pa.array([float("nan")]),
    "inf": pa.array([float("inf")]),
    "decimal": pa.array([decimal.Decimal("1.50")]),
    "decimal256": pa.array([decimal.Decimal("9" * 60)], pa.decimal256(60, 0)),
    "boolean": pa.array([True]),
    "null": pa.nulls(1),
    "null text": pa.array([None], pa.string()),
    "binary": pa.array([b"\xff\x00"]),
    "fixed binary": pa.array([b"abcd"], pa.binary(4)),
    "binary view": pa.array([b"a"], pa.binary_view()),
    "bad utf-8": pa.array([b"\xff\xfe"]).view(pa.string()),
    "duration": pa.array([10**6], pa.duration("us")),
    "duration ns": pa.array([1], pa.duration("ns")),
    "duration that is too long": pa.array([2**62], pa.duration("s")),
    "date": pa.array([DAY.date()]),
    "date64": pa.array([10**17], pa.date64()),
    "time": pa.array([1], pa.time64("ns")),
    "timestamp": pa.array([DAY], pa.timestamp("us", "UTC")),
    "timestamp ns": pa.array([1], pa.timestamp("ns")),
    "year 300000": pa.array([2**53], pa.timestamp("s")),
    "zone that is none": pa.array([0], pa.timestamp("s", "Nowhere/None")),
    "list": pa.array([["a", "b"]]),
    "list of lists": pa.array([[["a"]]]),
    "list of null": pa.array([[None]], pa.list_(pa.string())),
    "empty list": pa.array([[]], pa.list_(pa.string())),
    "record": pa.array([{"text": "a", "title": 7, "id": 1}]),
    "records": pa.array([[{"text": "a", "title": 1.5}, {"text": "b", "title": None}]]),
    "other record": pa.array([{"x": "a"}]),
    "map": pa.array([[("text", "a")]], pa.map_(pa.string(), pa.string())),
}
TEXTS = {"text", "large text", "text view", "dictionary"}
LISTS = TEXTS | {"null", "null text", "list", "empty list", "record", "records"}


def table(path: Path, **settings: Any) -> TableReader:
    columns = Columns(query="query", positives="good")
    return TableReader(TableSettings(path=path, corpus="c", columns=columns, **settings))


def outcome(reader: Any) -> list[Seed] | str:
    try:
        return list(reader)
    except UsageError as error:
        return str(error)


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_of_any_arrow_type_is_its_text_or_refused_with_file_row_and_column(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"query": CELLS[cell], "good": ["Seals rest."]}), path)
    read = outcome(table(path))
    if cell in TEXTS:
        assert [seed.query for seed in read if isinstance(seed, Seed)] == ["seals"]
    else:
        assert str(read).startswith(f"{path}:1: expected a text in column 'query', found ")
    pq.write_table(pa.table({"query": ["Where?"], "good": CELLS[cell]}), path)
    read = outcome(table(path))
    if cell in LISTS:
        assert isinstance(read, list)
    else:
        assert str(read).startswith(f"{path}:1: expected ")
        assert "'good'" in str(read) or "'title'" in str(read)


@pytest.mark.parametrize("cell", CELLS)
def test_a_column_that_no_setting_names_harms_nothing(tmp_path: Path, cell: str) -> None:
    pq.write_table(pa.table({"query": ["q"], "good": ["p"], "other": CELLS[cell]}), tmp_path / "t.parquet")
    assert len(list(table(tmp_path / "t.parquet"))) == 1


@pytest.mark.parametrize("title", [7, 1.5, "T", None, ""])
def test_a_title_may_be_a_number(tmp_path: Path, title: Any) -> None:
    expected = "" if title is None else str(title)
    passage = {"docid": 1, "text": "p", "title": title}
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"query_id": 1, "query": "q", "positive_passages": [passage]}) + "\n")
    assert next(iter(MsmarcoRows(MsmarcoSettings(path=rows)))).positives[0].title == expected
    rows.write_text(json.dumps({"query": "q", "good": [passage]}) + "\n")
    assert next(iter(table(rows))).positives[0].title == expected
    rows.unlink()
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("1\t1\t1\n")
    (tmp_path / "queries.jsonl").write_text('{"_id": 1, "text": "q"}\n')
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"_id": 1, "text": "p", "title": title}) + "\n")
    assert next(iter(BeirReader(BeirSettings(path=tmp_path, split="test")))).positives[0].title == expected


@pytest.mark.parametrize("title", [["a"], {"a": 1}, True, float("nan"), float("inf")])
def test_a_title_that_is_no_text_and_no_number_is_refused(tmp_path: Path, title: Any) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"query": "q", "good": {"text": "p", "title": title}}) + "\n")
    with pytest.raises(SeedFormatError, match=r"rows\.jsonl:1: expected a text or a number under 'title'"):
        list(table(rows))


LINES = {
    "lone surrogate": b'{"query": "\\ud800", "good": "p"}',
    "invalid utf-8": b'{"query": "\xff", "good": "p"}',
    "deep": b'{"query": ' + b"[" * 100_000 + b"]" * 100_000 + b', "good": "p"}',
    "deep, as far as the decoder goes": b'{"query": ' + b"[" * 900 + b"]" * 900 + b', "good": "p"}',
    "deep value alone": b"[" * 900 + b"]" * 900,
    "5,000 digits": b'{"query": ' + b"9" * 5_000 + b', "good": "p"}',
    "not finite": b'{"query": 1e999, "good": "p"}',
    "nan": b'{"query": NaN, "good": "p"}',
    "no object": b"17",
    "cut": b'{"query": "q", "good',
    "null": b"null",
    "nul bytes": b"\0" * 40,
    "key absent": b'{"good": "p"}',
}


@pytest.mark.parametrize("line", LINES)
def test_an_odd_line_of_json_is_refused_with_its_place_or_skipped(tmp_path: Path, line: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(LINES[line] + b'\n{"query": "q", "good": "p"}\n')
    with pytest.raises(SeedFormatError, match=r"t\.jsonl:1: expected "):
        list(table(path))
    reader = table(path, on_error="skip")
    assert (len(list(reader)), reader.ledger["skipped"]) == (1, 1)
    array = tmp_path / "t.json"
    array.write_bytes(b"[" + LINES[line] + b"]")
    assert isinstance(outcome(table(array)), str)


EMPTY = {
    "t.jsonl": b"",
    "blank.jsonl": b"\n \n\t\n",
    "t.json": b"[]",
    "t.csv": b"query,good\n",
    "none.csv": b"",
    "all bad.jsonl": b"17\n18\n",
    "t.jsonl.gz": gzip.compress(b"\n" * 1_000),
}


@pytest.mark.parametrize("name", EMPTY)
def test_an_input_without_a_seed_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(EMPTY[name])
    with pytest.raises(UsageError, match=f"no seeds in .*{name}"):
        list(table(tmp_path / name, on_error="skip"))


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["jsonl.gz", "csv.gz", "json.gz"])
@pytest.mark.parametrize("filler", [b"\n", b"  \t \r\n", b" ", b"x"])
def test_a_file_that_decodes_to_nothing_but_filler_is_refused_at_once(
    tmp_path: Path, ending: str, filler: bytes
) -> None:
    path = tmp_path / f"t.{ending}"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(60):
            file.write(filler * (1_000_000 // len(filler)))
    start = time.process_time()
    assert isinstance(outcome(table(path, on_error="skip", max_row_bytes=100_000)), str)
    assert time.process_time() - start < 5


def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket.jsonl"))
        for path in (tmp_path / "pipe.jsonl", tmp_path / "socket.jsonl", Path("/dev/zero")):
            with pytest.raises(UsageError, match="is neither a file nor a folder; copy what it gives to a file"):
                list(table(path))
        with pytest.raises(UsageError, match="holds no file"):
            list(table(tmp_path))
    (tmp_path / "loop.jsonl").symlink_to(tmp_path / "loop.jsonl")
    for path in (tmp_path / "loop.jsonl", Path("x" * 5_000), Path("a\0b")):
        with pytest.raises(UsageError, match="cannot be read: "):
            list(table(path))
    with pytest.raises(UsageError, match="no such file or folder"):
        list(table(tmp_path / "absent.jsonl"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"query": "q", "good": "p"}\n')
    (tmp_path / "t.jsonl").chmod(0)
    with pytest.raises(UsageError, match="cannot be read: Permission denied"):
        list(table(tmp_path / "t.jsonl"))


@pytest.mark.parametrize("name", ["t.jsonl.gz", "t.jsonl.Z", "t.tar.gz", "t.parquet", "t.zip", "t.jsonl"])
def test_a_cut_or_foreign_file_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "t.zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("t.jsonl", "{}")
    else:
        path.write_bytes(gzip.compress(os.urandom(9_000))[:6_000] if name != "t.jsonl.Z" else b"\x1f\x9d\x90ab\xff\xff")
    assert isinstance(outcome(table(path)), str)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "case"),
    [
        *(("preview", "duration"), ("plan", "duration"), ("run", "duration")),
        *(("plan", "pipe"), ("preview", "blank"), ("run", "blank"), ("run", "nul")),
    ],
)
def test_the_commands_end_with_a_documented_code(tmp_path: Path, command: str, case: str) -> None:
    path = tmp_path / ("t.parquet" if case == "duration" else "t.jsonl")
    if case == "duration":
        pq.write_table(pa.table({"query": CELLS["duration ns"], "good": ["p"]}), path)
    elif case == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("\n" * 9 if case == "blank" else '{"query": "a\\u0000b", "good": "Seals rest."}\n')
    job = tmp_path / "job.yaml"
    job.write_text(
        f"seeds: {{kind: table, corpus: c, path: {path}, columns: {{query: query, positives: good}}}}\n"
        f"recipe: {{kind: verifiable}}\nout: {tmp_path / 'out'}\n"
    )
    ended = foil(*(["seeds", "preview"] if command == "preview" else [command]), job)
    assert "Traceback" not in ended.stderr
    assert ended.returncode in ({0, 2, 3} if case == "nul" else {2}), ended.stderr
    assert case == "nul" or str(path) in ended.stderr.replace("\n", "")
