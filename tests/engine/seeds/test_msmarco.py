"""MS MARCO's forms: v2.1 rows, Tevatron rows, graded rows, the tab-separated collection."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from foil.engine.errors import SeedFormatError
from foil.engine.seeds.msmarco import MsmarcoSettings, msmarco_reader
from foil.engine.topic import Passage, Seed

TEXTS = ["Seals rest on rocks.", "Piers rot in salt water.", " "]
AS_LIST = [{"passage_text": t, "is_selected": int(n == 0), "url": f"u{n}"} for n, t in enumerate(TEXTS)]
AS_COLUMNS = {"passage_text": TEXTS, "is_selected": [1, 0, 0], "url": ["u0", "u1", "u2"]}


def qa_row(passages: object, name: object = 7) -> dict[str, Any]:
    return {
        "query_id": name,
        "query": "where do seals rest",
        "query_type": "LOCATION",
        "answers": ["On rocks."],
        "passages": passages,
    }


def write(folder: Path, *rows: object) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def seeds(path: Path, **settings: Any) -> list[Seed]:
    return list(msmarco_reader(MsmarcoSettings.model_validate({"path": path, "negatives": 0, **settings})))


def check_qa(read_seeds: list[Seed]) -> None:
    (seed,) = read_seeds
    assert (seed.id, seed.query) == ("7", "where do seals rest")
    assert dict(seed.attributes) == {"query_type": "LOCATION", "answer": "On rocks."}
    assert [(p.text, p.role, p.attributes["url"]) for p in seed.positives] == [(TEXTS[0], "seed_positive", "u0")]
    assert [(p.text, p.role) for p in seed.negatives] == [(TEXTS[1], "seed_negative")]


def test_question_answering_rows_are_read_as_lists_as_columns_and_from_parquet(tmp_path: Path) -> None:
    check_qa(seeds(write(tmp_path, qa_row(AS_LIST))))
    check_qa(seeds(write(tmp_path, qa_row(AS_COLUMNS))))
    pq.write_table(pa.Table.from_pylist([qa_row(AS_COLUMNS)]), tmp_path / "train.parquet")
    check_qa(seeds(tmp_path / "train.parquet"))


def test_a_row_without_a_selected_passage_is_a_seed_without_positives(tmp_path: Path) -> None:
    row = qa_row([{**AS_LIST[0], "is_selected": 0}]) | {"answers": ["No Answer Present."]}
    (seed,) = seeds(write(tmp_path, row))
    assert (seed.positives, len(seed.negatives), "answer" in seed.attributes) == ((), 1, False)


@pytest.mark.parametrize(
    ("passages", "expected"),
    [
        ({"passage_text": ["a", "b"], "is_selected": [1], "url": ["u"]}, "equally long 'passage_text'"),
        ({"passage_text": ["a"]}, "equally long 'passage_text'"),
        ([{"passage_text": "a", "is_selected": 2}], "'is_selected' as 0 or 1"),
        ([{"is_selected": 1}], "'passage_text', and 'is_selected'"),
        ("text", "a list of passages"),
    ],
)
def test_broken_passages_are_refused_with_their_line_or_counted(
    tmp_path: Path, passages: object, expected: str
) -> None:
    path = write(tmp_path, qa_row(AS_LIST, 1), qa_row(passages, 2), qa_row(AS_LIST, 3))
    with pytest.raises(SeedFormatError, match=rf"rows\.jsonl:2: .*{expected}"):
        seeds(path)
    reader = msmarco_reader(MsmarcoSettings(path=path, on_error="skip"))
    assert [seed.id for seed in reader] == ["1", "3"]
    assert reader.ledger["skipped"] == 1
    assert [seed.id for seed in reader] == ["1", "3"]
    assert reader.ledger["skipped"] == 1


def test_tevatron_rows_keep_their_own_negatives(tmp_path: Path) -> None:
    row = {
        "query_id": "q1",
        "query": "where do seals rest",
        "positive_passages": [{"docid": "d1", "title": "Seals", "text": TEXTS[0]}],
        "negative_passages": [{"docid": "d2", "title": "", "text": TEXTS[1]}],
    }
    (seed,) = seeds(write(tmp_path, row))
    assert [(p.source_id, p.title, p.role) for p in seed.positives] == [("d1", "Seals", "seed_positive")]
    assert [(p.source_id, p.role) for p in seed.negatives] == [("d2", "seed_negative")]


def graded_row(name: str, positive: tuple[str, str, int], *others: tuple[str, str, int]) -> dict[str, Any]:
    passages = [{"pid": pid, "text": text, "rel": rel} for pid, text, rel in (positive, *others)]
    return {"query_id": name, "query": f"question {name}", "positive": passages[0], "others": passages[1:]}


def test_rows_of_one_query_are_one_seed_and_no_text_stands_twice(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        graded_row("a", ("1", "seals rest", 3), ("3", "piers rot", 0), ("4", "seals rest", 0)),
        graded_row("a", ("2", "seals sleep", 2), ("3", "piers rot", 0), ("5", "boats sink", 1)),
        graded_row("a", ("6", "seals rest", 2)),
        graded_row("b", ("7", "tides turn", 2)),
    )
    a, b = seeds(path)
    assert [p.text for p in a.positives] == ["seals rest", "seals sleep", "boats sink"]
    assert [p.text for p in a.negatives] == ["piers rot"]
    assert [p.text for p in b.positives] == ["tides turn"]
    assert [p.text for p in seeds(path, relevant_from=2)[0].positives] == ["seals rest", "seals sleep"]


def test_an_id_that_comes_back_later_is_refused(tmp_path: Path) -> None:
    rows = [graded_row(name, (name + str(n), f"text {n}", 2)) for n, name in enumerate(["a", "b", "a"])]
    with pytest.raises(SeedFormatError, match=r"rows\.jsonl:3: expected one query of the id 'a', as at .*:1, found"):
        seeds(write(tmp_path, *rows))


def test_negatives_are_mined_where_a_row_has_too_few_and_never_answer_the_query(tmp_path: Path) -> None:
    rows = [
        graded_row("a", ("1", "question of seals on rocks", 2), ("9", "question of seals partly", 1)),
        graded_row("b", ("2", "question of seals on piers", 2)),
        graded_row("c", ("3", "nothing in common", 2)),
    ]
    a, b, _ = seeds(write(tmp_path, *rows), negatives=3, relevant_from=2)
    assert [p.source_id for p in a.negatives] == ["2"]  # 9 is partly relevant, 3 shares no word
    assert {p.source_id for p in b.negatives} == {"1"}  # a partly relevant passage serves no one
    assert b.negatives[0].attributes["query"] == a.query
    assert all(p.role == "seed_negative" and p.attributes["mined"] == "bm25" for p in a.negatives + b.negatives)


def test_a_row_of_no_known_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SeedFormatError, match="'passages', 'positive_passages' or 'positive', found \"keys"):
        seeds(write(tmp_path, {"query_id": "1", "query": "x"}))


def collection(folder: Path, **settings: Any) -> list[Seed]:
    (folder / "collection.tsv").write_text(
        '0\tSeals "rest.\n1\tPiers rot, seals leave.\n2\tTides turn seals.\n', "utf-8"
    )
    (folder / "queries.tsv").write_text("10\t where do seals rest\n11\tunjudged\n12\twhy do piers rot\n")
    (folder / "qrels.tsv").write_text("12\t0\t1\t1\n10\t0\t0\t1\n10\t0\t1\t0\n")
    names = {name: folder / f"{name}.tsv" for name in ("collection", "queries", "qrels")}
    return list(msmarco_reader(MsmarcoSettings.model_validate({**names, "negatives": 0, **settings})))


def test_a_collection_gives_the_judged_queries_in_their_own_order(tmp_path: Path) -> None:
    seals, piers = collection(tmp_path)
    assert (seals.id, seals.query, piers.id) == ("10", "where do seals rest", "12")
    assert [p.text for p in seals.positives] == ['Seals "rest.']
    assert [p.source_id for p in seals.negatives] == ["1"]
    assert piers.negatives == ()


def test_a_collection_is_topped_up_with_negatives(tmp_path: Path) -> None:
    seals, _ = collection(tmp_path, negatives=5)
    assert [(p.source_id, p.attributes.get("mined")) for p in seals.negatives] == [("1", None), ("2", "bm25")]


def test_a_third_column_or_broken_text_in_a_collection_is_refused(tmp_path: Path) -> None:
    collection(tmp_path)
    for bad_line in (b"3\ta\tb\n", b"3\n", b"3\t\xff\n"):
        (tmp_path / "docs.tsv").write_bytes(b"0\tx\n1\ty\n" + bad_line)
        with pytest.raises(SeedFormatError, match=r"docs\.tsv:3: expected an id, a tab and a text in UTF-8"):
            collection(tmp_path, collection=tmp_path / "docs.tsv")


def test_rows_and_a_collection_are_not_mixed(tmp_path: Path) -> None:
    for paths in ({"path": tmp_path, "queries": tmp_path}, {"queries": tmp_path}, {}):
        with pytest.raises(ValidationError, match="give `path` alone"):
            MsmarcoSettings.model_validate(paths)


def test_characters_read_in_a_wrong_encoding_are_mended_if_wanted(tmp_path: Path) -> None:
    garbled = "It is 8°C – quite cold.".encode().decode("latin-1")
    rows = [graded_row("a", ("1", garbled, 2))]
    (mended,) = seeds(write(tmp_path, *rows), relevant_from=2)
    assert mended.positives[0].text == "It is 8°C – quite cold."
    assert mended.positives[0].id == Passage(mended.positives[0].text, "seed_positive").id
    (kept,) = seeds(write(tmp_path, *rows), relevant_from=2, mend_encoding=False)
    assert kept.positives[0].text == garbled
