"""BEIR folders: ids as text, splits, missing parts, Parquet and compressed forms."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from foil.engine.errors import SeedFormatError, UsageError
from foil.engine.seeds.beir import BeirReader, BeirSettings
from foil.engine.topic import Seed

CORPUS = [
    {"_id": 1, "title": "Seals", "text": "They rest on rocks.", "metadata": {}},
    {"_id": "2", "title": "", "text": "Piers rot."},
    {"_id": "3", "title": "Seals and piers", "text": "Seals rest on piers."},
    {"_id": "4", "title": "empty", "text": ""},
]
QUERIES = [
    {"_id": "10", "text": "where do seals rest", "metadata": {"answers": ["rocks"], "query_type": "LOCATION"}},
    {"_id": 11, "text": "unjudged"},
    {"_id": 12, "text": "why do piers rot"},
]
QRELS = "query-id\tcorpus-id\tscore\n10\t1\t1\n10\t2\t0\n12\t2\t2\n12\t4\t1\n"


def as_jsonl(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def folder(path: Path) -> Path:
    (path / "qrels").mkdir()
    (path / "corpus.jsonl").write_text(as_jsonl(CORPUS))
    (path / "queries.jsonl").write_text(as_jsonl(QUERIES))
    (path / "qrels" / "test.tsv").write_text(QRELS)
    return path


def seeds(path: Path, **settings: Any) -> list[Seed]:
    return list(BeirReader(BeirSettings(path=path, **{"split": "test", "negatives": 0, **settings})))


def check(read_seeds: list[Seed]) -> None:
    seals, piers = read_seeds
    assert (seals.id, seals.query, piers.id) == ("10", "where do seals rest", "12")
    assert [(p.source_id, p.title) for p in seals.positives] == [("1", "Seals")]
    assert [p.source_id for p in seals.negatives] == ["2"]
    assert [p.source_id for p in piers.positives] == ["2"]


def test_ids_agree_whether_written_as_numbers_or_as_text(tmp_path: Path) -> None:
    read_seeds = seeds(folder(tmp_path))
    check(read_seeds)
    assert dict(read_seeds[0].attributes) == {"answers": "rocks", "query_type": "LOCATION"}


def test_compressed_and_parquet_parts_are_found(tmp_path: Path) -> None:
    path = folder(tmp_path)
    (path / "corpus.jsonl.gz").write_bytes(gzip.compress((path / "corpus.jsonl").read_bytes()))
    (path / "corpus.jsonl").unlink()
    (path / "queries.jsonl").unlink()
    (path / "queries").mkdir()
    pq.write_table(pa.Table.from_pylist([{**q, "_id": str(q["_id"])} for q in QUERIES]), path / "queries" / "0.parquet")
    judgments = [line.split("\t") for line in QRELS.splitlines()[1:]]
    rows = [{"query-id": int(q), "corpus-id": d, "score": int(s)} for q, d, s in judgments]
    (path / "qrels" / "test.tsv").unlink()
    (path / "qrels" / "test.jsonl").write_text(as_jsonl(rows))
    check(seeds(path))


def test_negatives_are_mined_for_queries_without_judged_ones(tmp_path: Path) -> None:
    seals, piers = seeds(folder(tmp_path), negatives=2)
    assert [(p.source_id, "mined" in p.attributes) for p in seals.negatives] == [("2", False), ("3", True)]
    assert [(p.source_id, "mined" in p.attributes) for p in piers.negatives] == [("3", True)]


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no qrels/train\.jsonl, \.tsv or \.parquet in .*a BEIR folder holds"):
        seeds(folder(tmp_path), split="train")


def test_broken_parts_are_refused_with_file_and_line(tmp_path: Path) -> None:
    path = folder(tmp_path)
    (path / "qrels" / "bad.jsonl").write_text('{"query-id": "10", "corpus-id": "1", "score": "high"}\n')
    with pytest.raises(SeedFormatError, match=r"bad\.jsonl:1: expected a whole number under 'score'"):
        seeds(path, split="bad")
    with (path / "corpus.jsonl").open("a") as corpus:
        corpus.write('{"_id": "5", "text": ["a"]}\n')
    with pytest.raises(SeedFormatError, match=r"corpus\.jsonl:5: expected a text under 'text'"):
        seeds(path)
    with (path / "queries.jsonl").open("a") as queries:
        queries.write('{"_id": "13"}\n')
    reader = BeirReader(BeirSettings(path=path, split="test", negatives=1, on_error="skip"))
    assert [seed.id for seed in reader] == ["10", "12"]
    assert reader.ledger["skipped"] == 2
