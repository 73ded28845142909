"""Any table: columns are mapped, cells may nest, wrong mappings are named."""

import json
from pathlib import Path
from typing import Any

import pytest

from foil.engine.errors import SeedFormatError
from foil.engine.seeds.table import TableReader, TableSettings
from foil.engine.topic import Seed

ROWS = [
    {
        "qid": 7,
        "q": "where do seals rest",
        "good": "Seals rest on rocks.",
        "bad": ["Piers rot."],
        "meta": {"year": 1994},
    },
    {
        "qid": 8,
        "q": "why do piers rot",
        "good": [{"text": "Salt, seals say.", "title": "Salt", "id": 3}],
        "bad": None,
        "meta": {"year": 1},
    },
]
COLUMNS = {"query": "q", "positives": "good"}
FULL = COLUMNS | {"id": "qid", "negatives": "bad", "attributes": {"year": "meta.year"}}


def seeds(path: Path, columns: dict[str, Any], **settings: Any) -> list[Seed]:
    values = {"path": path, "columns": columns, "corpus": "harbour", "negatives": 0, **settings}
    return list(TableReader(TableSettings.model_validate(values)))


def write(folder: Path, *rows: object) -> Path:
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "t.jsonl"


def test_columns_are_mapped_through_nested_records(tmp_path: Path) -> None:
    first, second = seeds(write(tmp_path, *ROWS), FULL, licence="CC0", redistributable=True)
    assert (first.id, first.corpus, first.query, dict(first.attributes)) == (
        "7",
        "harbour",
        ROWS[0]["q"],
        {"year": "1994"},
    )
    assert (first.licence, first.redistributable) == ("CC0", True)
    assert [p.text for p in first.positives + first.negatives] == ["Seals rest on rocks.", "Piers rot."]
    assert [(p.text, p.title, p.source_id) for p in second.positives] == [("Salt, seals say.", "Salt", "3")]
    assert second.negatives == ()


def test_rows_without_an_id_column_are_named_by_their_place(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("q,good\nwhere,rocks\n\nwhy,salt\n")
    assert [(s.id, s.query) for s in seeds(tmp_path / "t.csv", COLUMNS)] == [("t.csv:2", "where"), ("t.csv:4", "why")]


def test_negatives_are_mined_from_the_other_rows(tmp_path: Path) -> None:
    first, second = seeds(write(tmp_path, *ROWS), COLUMNS, negatives=3)
    assert [p.text for p in first.negatives] == ["Salt, seals say."]
    assert first.negatives[0].attributes["query"] == second.query  # what it does answer
    assert second.negatives == ()


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (COLUMNS | {"query": "question"}, "a column 'question', found \"columns"),
        (COLUMNS | {"query": "meta"}, "a text in column 'meta'"),
        (COLUMNS | {"positives": "qid"}, "texts, or records with 'text', in column 'qid'"),
        (COLUMNS | {"id": "q.x"}, r"a column 'q\.x'"),
    ],
)
def test_a_wrong_mapping_is_refused_at_the_first_row(tmp_path: Path, columns: dict[str, Any], expected: str) -> None:
    with pytest.raises(SeedFormatError, match=rf"t\.jsonl:1: expected {expected}"):
        seeds(write(tmp_path, *ROWS), columns)


def test_an_id_given_twice_is_refused_or_counted(tmp_path: Path) -> None:
    path = write(tmp_path, ROWS[0], ROWS[1], {**ROWS[1], "qid": ROWS[0]["qid"]})
    with pytest.raises(SeedFormatError, match=r"t\.jsonl:3: expected one query of the id '7', as at .*:1, found"):
        seeds(path, FULL)
    assert [s.id for s in seeds(path, FULL, on_error="skip")] == ["7", "8"]
