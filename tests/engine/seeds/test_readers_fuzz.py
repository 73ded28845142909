"""Broken corpora of every kind: a reader raises what it declares, or reads on; and a long one needs little memory."""

import json
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from engine.errors import FoilError
from engine.seeds.catalog import READERS, open_seeds
from engine.seeds.metamath import MetamathReader, MetamathSettings
from engine.settings import Settings
from engine.topic import Seed

SGML = "<DOC>\n<DOCNO> D1 </DOCNO>\n<HEADLINE>Seals</HEADLINE>\n<TEXT>\n<P>Seals rest &amp; sleep.\n</TEXT>\n</DOC>\n"
TOPICS = "<top>\n<num> Number: 1\n<title> seals\n<desc> Description:\nWhere?\n</top>\n"
QA = {
    "query_id": 1,
    "query": "seals",
    "answers": ["a"],
    "passages": [{"passage_text": "t", "is_selected": 1, "url": "u"}],
}
PROBLEM = {"id": 1, "title": "T", "statement": "Sum.", "tags": ["A"], "solutions": [{"language": "java", "code": "x"}]}
MATHS = {"question": "How many?", "answer": "Two.\n#### 2"}
KINDS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "msmarco": ({"path": "a.jsonl"}, {"a.jsonl": json.dumps(QA) + "\n"}),
    "leetcode": ({"path": "a.json"}, {"a.json": json.dumps([PROBLEM, PROBLEM | {"id": 2}])}),
    "metamath": ({"path": "a.jsonl.gz"}, {"a.jsonl.gz": json.dumps(MATHS) + "\n"}),
    "table": (
        {"path": "a.csv", "corpus": "c", "columns": {"query": "q", "positives": "p"}},
        {"a.csv": 'q,p\n"x, y",z\n'},
    ),
    "beir": (
        {"path": ".", "split": "test"},
        {
            "corpus.jsonl": '{"_id": "1", "text": "t", "title": "x"}\n',
            "queries.jsonl": '{"_id": "1", "text": "q"}\n',
            "qrels/test.tsv": "query-id\tcorpus-id\tscore\n1\t1\t1\n",
        },
    ),
    "robust04": (
        {"topics": "topics", "qrels": "qrels", "documents": "docs.Z"},
        {"topics": TOPICS, "qrels": "1 0 D1 1\n", "docs.Z": SGML},
    ),
}
EDIT = st.tuples(st.floats(0, 1), st.integers(0, 12), st.binary(max_size=8))


def broken(data: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    for share, length, insertion in edits:
        start = int(share * len(data))
        data = data[:start] + insertion + data[start + length :]
    return data


def write_corpus(kind: str, folder: Path, change: Callable[[bytes], bytes], **settings: str) -> Settings:
    """Writes the changed files of a corpus; returns the settings that read them."""
    kind_settings, files = KINDS[kind]
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(change(text.encode()))
    path_keys = kind_settings.keys() & {"path", "topics", "qrels", "documents"}
    paths = {key: str(folder / kind_settings[key]) for key in path_keys}
    return READERS[kind][0].model_validate({**kind_settings, **paths, **settings})


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(data=st.data(), on_error=st.sampled_from(["refuse", "skip"]))
def test_a_broken_corpus_raises_only_what_is_declared(
    kind: str, data: st.DataObject, on_error: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(text: bytes) -> bytes:
        return broken(text, data.draw(st.lists(EDIT, max_size=4)))

    seeds: list[Seed] = []
    with suppress(FoilError):
        seeds = list(open_seeds(write_corpus(kind, tmp_path_factory.mktemp(kind), change, on_error=on_error)))
    assert len({seed.id for seed in seeds}) == len(seeds)


@pytest.mark.parametrize("kind", KINDS)
def test_the_unbroken_corpus_gives_a_seed(kind: str, tmp_path: Path) -> None:
    assert next(iter(open_seeds(write_corpus(kind, tmp_path, bytes)))).positives


@pytest.mark.parametrize("kind", READERS)
def test_an_unknown_key_is_refused(kind: str) -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        READERS[kind][0].model_validate({"kind": kind, "colour": "red"})


def test_rows_stream_in_memory_that_does_not_grow_with_the_file(tmp_path: Path) -> None:
    with (tmp_path / "rows.jsonl").open("w") as file:
        for number in range(4_000):
            file.write(json.dumps({"question": "How many?" + " x" * 1_000, "answer": f"Many.\n#### {number}"}) + "\n")
    reader = MetamathReader(MetamathSettings(path=tmp_path / "rows.jsonl", negatives=0))
    tracemalloc.start()
    try:
        assert sum(1 for _ in reader) == 4_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000 < (tmp_path / "rows.jsonl").stat().st_size
