"""Broken corpora of every kind: a reader raises what it declares, or reads on; and a long one needs little memory."""

import json
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from pydantic import ValidationError

from foil.cluster.catalog import open_seeds
from foil.engine.errors import FoilError
from foil.engine.seeds.catalog import READERS
from foil.engine.seeds.metamath import MetamathReader, MetamathSettings
from foil.engine.settings import Settings
from foil.engine.topic import Seed
from tests.support.fuzzing import fuzzed

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
TABLE = {"query": "q", "good": ["p"], "bad": [{"text": "n", "title": "t", "id": "1"}], "id": 1, "meta": {"year": 1999}}
COLUMNS = {"query": "query", "positives": "good", "negatives": "bad", "id": "id", "attributes": {"year": "meta.year"}}
ROWS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "msmarco": ({"path": "a.jsonl"}, {"a.jsonl": QA}),
    "leetcode": ({"path": "a.jsonl"}, {"a.jsonl": PROBLEM}),
    "metamath": ({"path": "a.jsonl"}, {"a.jsonl": MATHS}),
    "table": ({"path": "a.jsonl", "corpus": "c", "columns": COLUMNS}, {"a.jsonl": TABLE}),
    "beir": (
        {"path": ".", "split": "test"},
        {
            "corpus.jsonl": {"_id": "1", "text": "t", "title": "x"},
            "queries.jsonl": {"_id": "1", "text": "q", "metadata": {"kind": "k"}},
            "qrels/test.jsonl": {"query-id": "1", "corpus-id": 1, "score": 1},
        },
    ),
}
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "title", "id"]), inner),
    max_leaves=6,
)
ARROW_TYPES = [
    pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_(), pa.null(), pa.string(), pa.large_string(),
    pa.binary(),
    pa.string_view(), pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ns", "UTC"),
    pa.duration("s"), pa.duration("ns"),
    pa.time32("s"), pa.time64("ns"), pa.decimal128(20, 3), pa.list_(pa.duration("ns")), pa.list_(pa.string()),
    pa.struct([("text", pa.string()), ("title", pa.float64())]), pa.map_(pa.string(), pa.int64()),
]  # fmt: skip


@st.composite
def arrow_cells(draw: st.DrawFn) -> pa.Array:
    """One cell of any type: of what suits the type, or of the bytes of whole numbers read as that type."""
    arrow_type = draw(st.sampled_from(ARROW_TYPES))
    number = draw(st.integers(-(2**63), 2**63 - 1))
    if pa.types.is_map(arrow_type):  # pyarrow 26 aborts the process over a list of null
        return pa.array([[("text", number)]], arrow_type)
    for values in ([draw(VALUE)], [number], [number % 100], [[number]]):
        with suppress(pa.ArrowException, ValueError, TypeError, OverflowError, AttributeError):
            return pa.array(values, arrow_type)
    return pa.nulls(1, arrow_type)


def places(value: Any, key_path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [key_path, *(place for key, part in below for place in places(part, (*key_path, key)))]


def with_value(row: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    copy = json.loads(json.dumps(row))
    target = copy
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    return copy


def settings_in(folder: Path, values: dict[str, Any], **more: str) -> dict[str, Any]:
    paths = {key: str(folder / values[key]) for key in values.keys() & {"path", "topics", "qrels", "documents"}}
    return {**values, **paths, **more}


def check_seeds(seeds: list[Seed]) -> None:
    """Ids are unique, and every text is a text."""
    assert len({seed.id for seed in seeds}) == len(seeds)
    for seed in seeds:
        passages = (*seed.positives, *seed.negatives)
        assert all(isinstance(part, str) for p in passages for part in (p.text, p.title, p.source_id))
        assert all(isinstance(text, str) for text in (seed.id, seed.query, *seed.attributes.values()))


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
    return READERS[kind][0].model_validate(settings_in(folder, kind_settings, **settings))


@pytest.mark.parametrize("kind", KINDS)
@fuzzed(60)
@given(data=st.data(), on_error=st.sampled_from(["refuse", "skip"]))
def test_a_broken_corpus_raises_only_what_is_declared(
    kind: str, data: st.DataObject, on_error: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(text: bytes) -> bytes:
        return broken(text, data.draw(st.lists(EDIT, max_size=4)))

    seeds: list[Seed] = []
    with suppress(FoilError):
        seeds = list(open_seeds(write_corpus(kind, tmp_path_factory.mktemp(kind), change, on_error=on_error)))
    check_seeds(seeds)


@pytest.mark.parametrize("kind", ["msmarco", "leetcode", "metamath", "table", "beir"])
@fuzzed(60)
@given(data=st.data(), on_error=st.sampled_from(["refuse", "skip"]))
def test_a_corpus_with_any_value_somewhere_raises_only_what_is_declared(
    kind: str, data: st.DataObject, on_error: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp(kind)
    values, files = ROWS[kind]
    for name, row in files.items():
        place = data.draw(st.sampled_from(places(row)), name)
        changed = with_value(row, place, data.draw(VALUE, "value"))
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(changed) + "\n")
    seeds: list[Seed] = []
    with suppress(FoilError):
        seeds = list(open_seeds(READERS[kind][0].model_validate(settings_in(folder, values, on_error=on_error))))
    check_seeds(seeds)


@pytest.mark.parametrize("kind", ["msmarco", "leetcode", "metamath", "table"])
@fuzzed(40)
@given(data=st.data(), array=arrow_cells(), on_error=st.sampled_from(["refuse", "skip"]))
def test_a_parquet_file_with_any_column_raises_only_what_is_declared(
    kind: str, data: st.DataObject, array: pa.Array, on_error: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp(kind)
    values, files = ROWS[kind]
    (row,) = files.values()
    columns = {name: pa.array([cell]) for name, cell in row.items()}
    columns[data.draw(st.sampled_from(sorted(columns)))] = array
    try:
        pq.write_table(pa.table(columns), folder / "a.parquet")
    except pa.ArrowInvalid:  # a time that Parquet cannot hold
        reject()
    seeds: list[Seed] = []
    with suppress(FoilError):
        settings = settings_in(folder, {**values, "path": "a.parquet"}, on_error=on_error)
        seeds = list(open_seeds(READERS[kind][0].model_validate(settings)))
    check_seeds(seeds)


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
