"""Rows of every format: decoded, counted, bounded, and refused with their place."""

import gzip
import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.engine.errors import SeedFormatError, UsageError
from foil.engine.seeds.files.delimited import NO_QUOTING
from foil.engine.seeds.files.rows import SourceRow, attributes_of, read_rows

CAP = 1 << 16


def values(path: Path, cap: int = CAP) -> list[Any]:
    return [row.value if isinstance(row, SourceRow) else f"{row.line}: {row.expected}" for row in read_rows(path, cap)]


def test_every_format_gives_the_same_rows(tmp_path: Path) -> None:
    table = [{"a": "x", "b": "1"}, {"a": "line\nbreak, \u00e9 \u2028", "b": '"2"'}]
    jsonl = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table)
    (tmp_path / "t.jsonl").write_text(jsonl + "\n", "utf-8")
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(jsonl.encode()))
    (tmp_path / "t.json").write_text(json.dumps(table, indent=2), "utf-8")
    (tmp_path / "t.csv").write_bytes(b'\xef\xbb\xbfa,b\nx,1\n"line\nbreak, \xc3\xa9 \xe2\x80\xa8","""2"""\n')
    pq.write_table(pa.Table.from_pylist(table), tmp_path / "t.parquet")
    for file in sorted(tmp_path.iterdir()):
        assert values(file) == table, file.name


def test_a_tree_gives_the_rows_of_its_row_files_alone(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text('{"n": 2}\n')
    (tmp_path / "a.json").write_text('[{"n": 1}]')
    (tmp_path / "LICENSE").write_text("free")
    assert values(tmp_path) == [{"n": 1}, {"n": 2}]


def test_a_file_of_no_known_ending_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("{}")
    with pytest.raises(UsageError, match=r"cannot tell the format of .*rows\.txt by its name; expected one of \.jsonl"):
        values(tmp_path / "rows.txt")


@pytest.mark.parametrize(
    ("bad_line", "expected"),
    [
        (b'{"a": 1', "a JSON object in UTF-8"),
        (b"[1]", "a JSON object"),
        (b'{"a": "\xe9"}', "a JSON object in UTF-8"),
        (b'{"a": "\\ud800"}', "a JSON object in UTF-8"),
        (b"[" * 100_000, "at most 65,536 bytes"),
        (b"[" * 50_000, "a JSON object in UTF-8"),
        (b'{"a": "' + b"x" * 70_000 + b'"}', "at most 65,536 bytes"),
    ],
    ids=["cut", "list", "latin-1", "surrogate", "long", "deep", "large"],
)
def test_a_bad_line_is_named_and_the_next_one_still_read(tmp_path: Path, bad_line: bytes, expected: str) -> None:
    (tmp_path / "t.jsonl").write_bytes(b'{"n": 1}\n' + bad_line + b'\n{"n": 3}\n')
    first, error, last = read_rows(tmp_path / "t.jsonl", CAP)
    assert isinstance(error, SeedFormatError)
    assert (error.line, error.path) == (2, str(tmp_path / "t.jsonl"))
    assert expected in error.expected
    assert isinstance(first, SourceRow)
    assert isinstance(last, SourceRow)
    assert (first.value, last.value, last.line) == ({"n": 1}, {"n": 3}, 3)


def test_a_bad_csv_record_is_named_and_the_next_one_still_read(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b'a,b\n1,2\n1,2,3\n"x"y,2\n\xe9,1\n3,4\n')
    bodies = values(tmp_path / "t.csv")
    assert bodies[0] == {"a": "1", "b": "2"}
    assert bodies[1] == "3: 2 fields as in the header"
    assert bodies[2].startswith("4: a record in CSV quoting")
    assert "a record in CSV quoting and UTF-8" in bodies[3]
    assert bodies[4] == {"a": "3", "b": "4"}


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,a\n1,2\n")
    with pytest.raises(UsageError, match="a header of distinct column names"):
        values(tmp_path / "t.csv")


@given(table=st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=200), max_size=3), max_size=40))
def test_a_json_array_is_read_across_any_chunk_border(
    table: list[dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("array") / "t.json"
    file.write_text(json.dumps(table), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("foil.engine.seeds.files.rows.CHUNK_CHARS", 7)
        assert values(file) == table


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[{"a": 1}, {"a": ', r"t\.json:2: expected a JSON object of at most 65,536 bytes"),
        ('[{"a": 1}', r"t\.json:2: expected a JSON object"),
        ('[{"a": "' + "x" * 400_000 + '"}]', r"t\.json:1: expected a JSON object of at most 65,536 bytes"),
    ],
    ids=["cut in an item", "cut after an item", "too large"],
)
def test_a_broken_json_array_ends_with_its_place(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(UsageError, match=expected):
        values(tmp_path / "t.json")


def test_jsonl_in_a_json_file_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('{"a": 1}\n{"a": 2}\n')
    assert values(tmp_path / "t.json") == ["1: a JSON array of objects (one object a line is .jsonl)"]


def test_a_parquet_bomb_is_refused_row_by_row(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.parquet"
    pq.write_table(pa.table({"a": ["x" * 200_000] * 2_000}), bomb)
    assert bomb.stat().st_size < 400_000
    bodies = values(bomb)
    assert len(bodies) == 2_000
    assert {row.split(": ")[1] for row in bodies} == {"a record of at most 65,536 bytes"}


def test_one_large_row_does_not_spoil_its_neighbours(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["x", "y" * 70_000, "z"]}), tmp_path / "t.parquet")
    assert values(tmp_path / "t.parquet") == [{"a": "x"}, "2: a record of at most 65,536 bytes", {"a": "z"}]


def test_a_file_that_is_not_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and then nothing of the kind")
    with pytest.raises(UsageError, match=r"t\.parquet is damaged or cut short"):
        values(tmp_path / "t.parquet")


def test_fields_are_checked_as_they_are_taken() -> None:
    row = SourceRow("f", 7, {"text": " ", "number": 3, "flag": True, "list": "no"})
    assert row.name("number") == "3"
    assert row.items("absent") == []
    with pytest.raises(SeedFormatError, match=r"f:7: expected a text under 'text', found ' '"):
        row.text("text")
    with pytest.raises(SeedFormatError, match="a text under 'query', found \"keys"):
        row.text("query")
    with pytest.raises(SeedFormatError, match="an identifier under 'flag', found 'True'"):
        row.name("flag")
    with pytest.raises(SeedFormatError, match="a list under 'list'"):
        row.items("list")


def test_attributes_are_texts() -> None:
    raw_values = {"a": "x", "b": ["y", "z"], "c": 3, "d": None, "e": {"f": [1, float("nan")]}, "g": " "}
    raw_values |= {"h": float("nan"), "i": float("inf"), "j": [1], "k": date(2026, 1, 2), "l": {}, "m": Decimal("NaN")}
    missing: list[str] = []
    texts = {"a": "x", "b": "y\nz", "c": "3", "e": '{"f": [1, null]}', "j": "[1]", "k": "2026-01-02"}
    assert attributes_of(raw_values, missing.append) == texts
    assert missing == ["d", "g", "h", "i", "l", "m"]


def test_a_tab_separated_file_has_no_quoting(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "t.tsv").write_bytes(b'\xef\xbb\xbfq\tp\r\n"a\tb\r\n\r\nc"\t"d"\r\n"e\r\nf\t\xff\r\ng\t""\r\n')
    assert values(tmp_path / "t.tsv") == [
        {"q": '"a', "p": "b"},
        {"q": 'c"', "p": '"d"'},
        f"5: 2 fields as in the header ({NO_QUOTING})",
        "6: a row in UTF-8",
        {"q": "g", "p": '""'},
    ]
    assert [record.message.partition("t.tsv:")[2][:43] for record in caplog.records] == [
        "4: a field stands in double quotes, which a"
    ]
