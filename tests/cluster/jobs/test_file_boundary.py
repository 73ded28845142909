"""Odd rows of every format, by hand: what each file becomes, to the letter, and what is refused because rows would be
lost; one file in seeds and in an evaluation; settings that nothing uses."""

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.engine.errors import UsageError
from foil.engine.seeds.beir import BeirReader, BeirSettings
from foil.engine.seeds.msmarco import MsmarcoCollection, MsmarcoSettings
from foil.engine.seeds.table import TableReader, TableSettings
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.catalog import read_benchmark
from foil.trainer.evaluate.comparison.prompts import read_prompts

COLUMNS = {"query": "q", "positives": "p"}
BOM = b"\xef\xbb\xbf"
AB, CD = ("a", "b"), ("c", "d")


def table(path: Path, on_error: str = "skip", **columns: Any) -> TableReader:
    settings = {"path": path, "corpus": "c", "negatives": 0, "on_error": on_error, "columns": COLUMNS | columns}
    return TableReader(TableSettings.model_validate(settings))


READ = {
    # TSV: a tab parts, a line break ends, all else is text
    "quotes.tsv": (b'q\tp\n"a\tb"\n\'c\t"d\n', [('"a', 'b"'), ("'c", '"d')], 0),
    "backslash.tsv": (b"q\tp\na\\tb\tb\\\n", [(r"a\tb", "b\\")], 0),
    "crlf.tsv": (b"q\tp\r\na\tb\r\nc\td\r\n", [AB, CD], 0),
    "no last break.tsv": (b"q\tp\na\tb\nc\td", [AB, CD], 0),
    "other breaks.tsv": ("q\tp\na\u2028\x0b\x0c\x1c\x85\tb\n".encode(), [("a\u2028\x0b\x0c\x1c\x85", "b")], 0),
    "blank lines.tsv": (b"q\tp\n\na\tb\n\r\n\nc\td\n\n", [AB, CD], 0),
    "comma.tsv": (b"q\tp\na,a\tb,b\n", [("a,a", "b,b")], 0),
    "hash.tsv": (b"q\tp\n# a\tb\n#c\td\n", [("# a", "b"), ("#c", "d")], 0),
    "a tab too many.tsv": (b"q\tp\na\tb\t\nc\td\n", [CD], 1),
    "blanks.tsv": (b"q\tp\n \tb\nc\td\n", [CD], 1),
    "null bytes.tsv": (b"q\tp\na\0a\tb\n", [("a\0a", "b")], 0),
    "latin-1.tsv": (b"q\tp\ncaf\xe9\tb\nc\td\n", [CD], 1),
    # CSV
    "quotes.csv": (b'q,p\n"say ""a""","b,b"\nc,d\n', [('say "a"', "b,b"), CD], 0),
    "break in a field.csv": (b'q,p\n"a\nb\r\nc",d\n', [("a\nb\nc", "d")], 0),
    "a quote within.csv": (b'q,p\n5" disk,b\nc,d\n', [('5" disk', "b"), CD], 0),
    "mark and crlf.csv": (BOM + b"q,p\r\na,b\r\nc,d\r\n", [AB, CD], 0),
    "blank lines.csv": (b"q,p\n\na,b\n\n\nc,d\n", [AB, CD], 0),
    "a field too few.csv": (b"q,p\na\nc,d\n", [CD], 1),
    "tabs.csv": (b"q,p\na\ta,b\n", [("a\ta", "b")], 0),
    # JSONL and JSON
    "crlf.jsonl": (b'{"q":"a","p":"b"}\r\n{"q":"c","p":"d"}\r\n', [AB, CD], 0),
    "breaks of other kinds.jsonl": ('{"q":"a\u2028\x85","p":"b"}\n'.encode(), [("a\u2028\x85", "b")], 0),
    "escapes.jsonl": (rb'{"q":"a\n\u00e9\ud83d\ude00","p":"b"}', [("a\n\u00e9\U0001f600", "b")], 0),
    "a mark in each part.jsonl": (BOM + b'{"q":"a","p":"b"}\n' + BOM + b'{"q":"c","p":"d"}', [AB, CD], 0),
    "two on a line.jsonl": (b'{"q":"a","p":"b"}{"q":"x","p":"y"}\n{"q":"c","p":"d"}\n', [CD], 1),
    "commas behind.jsonl": (b'{"q":"a","p":"b"},\n{"q":"c","p":"d"}\n', [CD], 1),
    "no text.jsonl": (b'{"q":1,"p":"b"}\n{"q":null,"p":"b"}\n{"q":["a"],"p":"b"}\n{"q":"c","p":"d"}\n', [CD], 3),
    "a key twice.jsonl": (b'{"q":"a","q":"x","p":"b"}\n{"q":"a","p":{"text":"b","text":1}}\n{"q":"c","p":"d"}',
                          [CD], 2),
    "equal values of a key.jsonl": (b'{"q":"a","q":"a","p":"b"}\n{"q":"c","p":"d","Q":1}\n', [CD], 1),
    "passages.jsonl": (b'{"q":"a","p":["b",""]}\n{"q":"a","p":[null]}\n{"q":"c","p":["d","d"]}\n', [CD], 2),
    "whole lines.json": (b'[\n{"q":"a","p":"b"},\n{"q":"c","p":"d"}\n]\n\n', [AB, CD], 0),
    "a mark.json": (BOM + b' [{"q":"a","p":"b"}]\n', [AB], 0),
    "a key twice.json": (b'[{"q":"a","p":"x","p":"b"}, {"m":{"y":1,"y":1}}, {"q":"c","p":"d"}]', [CD], 2),
    "no object.json": (b'[{"q":"a","p":"b"}, 7, null, {"q":"c","p":"d"}]', [AB, CD], 2),
    # Parquet
    "text.PARQUET": (pa.table({"q": ["a", "c"], "p": ["b", "d"]}), [AB, CD], 0),
    "nulls.parquet": (pa.table({"q": ["a", None, "c"], "p": ["b", "x", "d"]}), [AB, CD], 1),
    "large lists.parquet": (pa.table({"q": ["a"], "p": pa.array([["b"]], pa.large_list(pa.large_string()))}), [AB], 0),
    "categories.parquet": (pa.table({"q": pa.array(["a", "c"]).dictionary_encode(), "p": ["b", "d"]}), [AB, CD], 0),
    "bytes.parquet": (pa.table({"q": [b"a"], "p": ["b"]}), [], 1),
}  # fmt: skip
"""File -> its content, the query and passage of each seed, and the records that are skipped and counted."""


def put(path: Path, content: bytes | pa.Table) -> Path:
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        pq.write_table(content, path)
    return path


@pytest.mark.parametrize("name", READ)
def test_an_odd_row_is_its_seed_to_the_letter_or_skipped_and_counted(tmp_path, name):
    content, seeds, skipped = READ[name]
    reader = table(put(tmp_path / name, content))
    if seeds:
        found = [(seed.query, seed.positives[0].text) for seed in reader]
        assert (found, reader.ledger["skipped"]) == (seeds, skipped)
    else:
        with pytest.raises(UsageError, match=f"no seeds in .* and {skipped} bad records were skipped"):
            list(reader)


ROW = b'{"q":"a","p":"b"}\n'
UNREAD = ("b.xlsx", "deep/c.arrow", "notes.md", "z.tar.gz")


@pytest.mark.parametrize("processes", [0, 2])
def test_files_of_a_folder_that_are_passed_over_are_counted(tmp_path, processes):
    put(tmp_path / "a.jsonl", ROW)
    (tmp_path / "deep").mkdir()
    for name in UNREAD:
        put(tmp_path / name, b"x")
    reader: Any = table(tmp_path).in_parallel(processes, ()) if processes else table(tmp_path)
    assert len(list(reader)) == 1
    assert reader.ledger.plain() == {"unread_files": {"count": 4, "first": str(tmp_path / "b.xlsx")}}


def test_a_folder_of_files_that_are_not_read_is_refused_with_their_number(tmp_path):
    put(tmp_path / "b.xlsx", b"x")
    with pytest.raises(UsageError, match=r"no seeds in .*, and 1 files are of kinds that are not read"):
        list(table(tmp_path))


REFUSED = {
    "two arrays": ({"r.json": b'[{"q":"a","p":"b"}]\n[{"q":"c","p":"d"}]'}, "r.json:2: expected nothing behind the"),
    "rows behind an array": ({"r.json": b'[{"q":"a","p":"b"}]\n\n\n{"q":"c","p":"d"}\n'}, "nothing behind the array"),
    "two columns of a name": (
        {"r.parquet": pa.Table.from_arrays([pa.array([each]) for each in "abz"], names=["q", "p", "p"])},
        "r.parquet: expected a header of distinct column names, found 'q, p, p'",
    ),
    "the same in TSV": ({"r.tsv": b"q\tp\tp\na\tb\tz\n"}, "r.tsv:1: expected a header of distinct column names"),
    "packed in another way": ({"a.jsonl": ROW, "b.jsonl.bz2": bz2.compress(ROW)}, "b.jsonl.bz2 is packed in a way"),
    "packed Parquet": ({"a.jsonl": ROW, "b.parquet.gz": b"\x1f\x8b"}, "b.parquet.gz is packed in a way"),
    "packed, in capitals": ({"a.jsonl": ROW, "B.CSV.ZST": b"(\xb5/\xfd"}, "B.CSV.ZST is packed in a way"),
    "another encoding": ({"r.tsv": "q\tp\na\tb\n".encode("utf-16")}, "r.tsv:1: expected a header in UTF-8"),
    "a table without a header": ({"r.tsv": b"how do bees dance\tBees dance.\n"}, "no seeds in"),
    "semicolons": ({"r.csv": b"q;p\na;b\n"}, "no seeds in"),
}  # fmt: skip
"""Files whose rows nobody could count, and the words of the refusal, skipping or not."""


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_lose_rows_is_refused_even_where_bad_records_are_skipped(tmp_path, name):
    files, words = REFUSED[name]
    for file, content in files.items():
        put(tmp_path / file, content)
    with pytest.raises(UsageError) as refused:
        list(table(tmp_path if len(files) > 1 else tmp_path / next(iter(files))))
    assert words in str(refused.value)


@pytest.mark.parametrize("target", ["nowhere.jsonl", "elsewhere"])
def test_a_link_that_is_not_followed_is_no_folder_with_fewer_rows(tmp_path, target):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "more.jsonl").write_bytes(ROW)
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "a.jsonl").symlink_to(tmp_path / "elsewhere" / "more.jsonl")
    assert len(list(table(tmp_path / "rows"))) == 1
    (tmp_path / "rows" / "b").symlink_to(tmp_path / target)
    with pytest.raises(UsageError, match="rows/b is a link to no file, which is not followed"):
        list(table(tmp_path / "rows"))


def test_an_open_quote_says_how_many_lines_it_took(tmp_path):
    path = put(tmp_path / "r.csv", b'q,p\n"twelve monkeys,b\nc,d\ne,f\n"g",h\ni,j\n')
    with pytest.raises(UsageError, match=r"r\.csv:5: expected a record in CSV quoting .* \(lines 2 to 5\)"):
        list(table(path, "refuse"))
    reader = table(path)
    assert [seed.query for seed in reader] == ["i"]
    assert "(lines 2 to 5)" in reader.ledger.entries()["skipped"].first


@pytest.mark.parametrize(("ids", "source_id"), [({"id": 0}, "0"), ({"id": None, "docid": 7}, "7"), ({"id": ""}, ""),
                                                ({"docid": "x"}, "x"), ({"id": "0", "docid": "x"}, "0")])  # fmt: skip
def test_an_id_of_a_passage_may_be_nought(tmp_path, ids, source_id):
    row = {"q": "a", "p": [{"text": "b", **ids}]}
    [seed] = table(put(tmp_path / "r.jsonl", json.dumps(row).encode()))
    assert seed.positives[0].source_id == source_id


# one collection, in seeds and in an evaluation

QUERIES, COLLECTION, QRELS = (
    b"1\thow do bees dance\n2\twhy is slate grey\n",
    b"d1\tBees dance.\nd2\tSlate.\n",
    b"1 0 d1 1\n2 0 d2 1\n",
)
SAME = {
    "as it should be": (QUERIES, COLLECTION, QRELS, {}),
    "marks and crlf": (BOM + QUERIES.replace(b"\n", b"\r\n"), BOM + COLLECTION, BOM + QRELS, {}),
    "blank lines": (QUERIES + b"\n\n", b"\n" + COLLECTION, QRELS + b"\n", {}),
    "an equal query again": (QUERIES + QUERIES[:20], COLLECTION, QRELS, {"duplicates": 1}),
    "an equal document again": (QUERIES, COLLECTION * 2, QRELS, {"duplicates": 2}),
    "a header": (QUERIES, COLLECTION, b"query-id\tcorpus-id\tscore\n1\td1\t1\n2\td2\t1\n", {}),
    "three columns": (QUERIES, COLLECTION, b"1\td1\t1\n2\td2\t1.0\n", {}),
    "two grades": (QUERIES, COLLECTION, b"1 0 d1 0\n1 0 d1 1\n2 0 d2 1\n", {"regraded": 1}),
    "a query that nobody judged": (QUERIES + b"9\tunasked\n", COLLECTION, QRELS, {}),
    "judgments of none": (QUERIES, COLLECTION, QRELS + b"7 0 d1 1\n", {"missing_queries": 1}),
    "double quotes": (QUERIES.replace(b"how", b'"how'), COLLECTION, QRELS, {}),
}  # fmt: skip
NEITHER = {
    "another text of a query": (QUERIES + b"1\tother\n", COLLECTION, QRELS, "expected one query of the id '1', as at"),
    "another text of a document": (QUERIES, COLLECTION + b"d1\tx\n", QRELS, "expected one document of the id 'd1', as"),
    "a blank query": (b"1\t \n" + QUERIES[20:], COLLECTION, QRELS, "expected a query that is not blank, found '1'"),
    "a query in Latin-1": (QUERIES.replace(b"bees", b"b\xe9es"), COLLECTION, QRELS, "in UTF-8"),
    "a document in Latin-1": (QUERIES, COLLECTION.replace(b"Bees", b"B\xe9es"), QRELS, "in UTF-8"),
    "no tab": (QUERIES, COLLECTION.replace(b"\t", b" "), QRELS, "tab"),
    "a grade between": (QUERIES, COLLECTION, b"1 0 d1 0.5\n2 0 d2 1\n", "expected a judgment"),
    "a grade of no number": (QUERIES, COLLECTION, b"1 0 d1 nan\n2 0 d2 1\n", "expected a judgment"),
    "a judgment cut short": (QUERIES, COLLECTION, QRELS + b"2 0\n", "expected a judgment"),
    "columns that change": (QUERIES, COLLECTION, QRELS + b"2 d1 1\n", "expected a judgment"),
}  # fmt: skip
"""MS MARCO's tables (queries, collection, judgments) and what a reader notes of them, or the words of its refusal."""


def both(folder: Path, queries: bytes, collection: bytes, qrels: bytes) -> tuple[MsmarcoCollection, BenchmarkSource]:
    for name, content in {"queries.tsv": queries, "collection.tsv": collection, "qrels": qrels}.items():
        (folder / name).write_bytes(content)
    settings = {"queries": folder / "queries.tsv", "collection": folder / "collection.tsv", "qrels": [folder / "qrels"]}
    reader = MsmarcoCollection(MsmarcoSettings.model_validate({**settings, "negatives": 0}))
    return reader, BenchmarkSource(kind="trec", path=folder)


@pytest.mark.parametrize("name", SAME)
def test_a_collection_is_the_same_in_seeds_and_in_an_evaluation(tmp_path, name):
    *files, noted = SAME[name]
    reader, source = both(tmp_path, *files)
    benchmark = read_benchmark(source, "")
    seeds = {seed.id: (seed.query, [passage.text for passage in seed.positives]) for seed in reader}
    scored = {query.id: (query.query, [benchmark.documents[document][1] for document in benchmark.qrels[query.id]])
              for query in benchmark.queries}  # fmt: skip
    first = '"how do bees dance' if name == "double quotes" else "how do bees dance"
    assert seeds == scored == {"1": (first, ["Bees dance."]), "2": ("why is slate grey", ["Slate."])}
    assert {kind: entry.count for kind, entry in reader.ledger.entries().items()} == noted


@pytest.mark.parametrize("name", NEITHER)
def test_what_seeds_refuse_an_evaluation_refuses_in_the_same_words(tmp_path, name):
    *files, words = NEITHER[name]
    reader, source = both(tmp_path, *files)
    with pytest.raises(UsageError) as of_seeds:
        list(reader)
    with pytest.raises(UsageError) as of_evaluation:
        read_benchmark(source, "")
    assert words in str(of_seeds.value)
    assert words in str(of_evaluation.value)


@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet", "csv", "tsv", "jsonl.gz"])
def test_a_folder_of_the_hub_is_the_same_in_every_format(tmp_path, ending):
    tables = {
        "queries": [{"_id": "1", "text": "how do bees dance"}],
        "corpus": [{"_id": "d1", "title": "Bees", "text": "They dance."}],
        "qrels/test": [{"query-id": "1", "corpus-id": "d1", "score": 1}],
    }
    (tmp_path / "qrels").mkdir()
    for name, rows in tables.items():
        write_rows(tmp_path / f"{name}.{ending}", rows)
    [seed] = BeirReader(BeirSettings(path=tmp_path, split="test", negatives=0))
    benchmark = read_benchmark(BenchmarkSource(kind="beir", path=tmp_path), "test")
    assert (seed.id, seed.query, seed.positives[0].title, seed.positives[0].text) == (
        "1", "how do bees dance", "Bees", "They dance.")  # fmt: skip
    assert [(query.id, query.query) for query in benchmark.queries] == [("1", "how do bees dance")]
    assert (benchmark.documents, benchmark.qrels) == ({"d1": ("Bees", "They dance.")}, {"1": {"d1": 1}})


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    tab = "," if path.suffix == ".csv" else "\t"
    text = {
        ".jsonl": "".join(json.dumps(row) + "\n" for row in rows),
        ".gz": "".join(json.dumps(row) + "\n" for row in rows),
        ".json": json.dumps(rows),
    }.get(path.suffix, "".join(tab.join(map(str, row)) + "\n" for row in (rows[0], *(row.values() for row in rows))))
    content: bytes | pa.Table = pa.Table.from_pylist(rows) if path.suffix == ".parquet" else text.encode()
    put(path, gzip.compress(text.encode()) if path.suffix == ".gz" else content)


@pytest.mark.parametrize(
    ("content", "prompts"),
    [
        ("one\ntwo\n", ("one", "two")),
        ("one\r\ntwo\r\n", ("one", "two")),
        ("\ufeffone\n\n# no\n two \n", ("one", "two")),
        ("one\u2028still one\ntwo\x85too\n", ("one\u2028still one", "two\x85too")),
        ("one\x0cone\none\ntwo", ("one\x0cone", "one", "two")),
        ("two\none\ntwo\n", ("two", "one")),
    ],
)
def test_only_a_line_break_parts_prompts(tmp_path, content, prompts):
    (tmp_path / "prompts.txt").write_bytes(content.encode())
    assert read_prompts(tmp_path / "prompts.txt") == prompts


# settings that do nothing, or cannot

TABLE = {"kind": "table", "corpus": "c", "path": "rows.jsonl", "columns": COLUMNS}
MODEL = {"kind": "hosted", "model": "m", "url": "http://127.0.0.1:9/v1"}


def asking(recipe: Any = None, models: Any = None, **model: Any) -> dict[str, Any]:
    """A job that asks a model."""
    return {"recipe": {"kind": "infir", **(recipe or {})}, "models": {"writer": {**MODEL, **model}, **(models or {})}}


WITHOUT_EFFECT = {
    "all as it should be": (asking(), 0, ""),
    "a judge that nothing asks": (asking(models={"judge": MODEL}), 0, "models.judge has no effect"),
    "a writer of a recipe without one": ({"models": {"writer": MODEL}}, 0, "models.writer has no effect"),
    "a budget without a price": ({**asking(), "limits": {"budget": {"usd": 1}}}, 2, "needs the `price`"),
    **{
        f"params that nothing reads: {params}": (asking(params=params), 2, words)
        for params, words in (
            ({"n": 4}, "`n: 4` pays for choices that nothing reads; leave it out: `replies.candidates` draws"),
            ({"extra": {"n": 2}}, "`extra.n: 2` pays for choices"),
            ({"extra": {"best_of": 3}}, "`extra.best_of: 3` pays for choices"),
            ({"extra": {"stream": True}}, "`extra.stream: true` changes the form of a reply"),
            ({"logprobs": True}, "`logprobs: true` asks for what nothing reads"),
            ({"top_logprobs": 5}, "`top_logprobs: 5` asks for what nothing reads"),
        )
    },
    "choices of which there is one": (asking(params={"n": 1, "extra": {"n": 1, "stream": False}}), 0, ""),
    "a parameter that Foil sets": (asking(params={"stream": True}), 2, "params.stream"),
    "the messages": (asking(params={"messages": []}), 2, "params.messages"),
    "the model twice": (asking(params={"model": "other"}), 2, "params.model"),
    "no room for an answer": (asking(params={"max_tokens": 0}), 2, "max_tokens"),
    "a passage of one character": (asking(recipe={"passage_chars": 1}), 2, "passage_chars"),
    "a key of another reader": ({"seeds": {**TABLE, "split": "test"}}, 2, "seeds.split: unknown key"),
    "no reader at all": ({"runtime": {"readers": 0}}, 2, "runtime.readers"),
    "engines without actors": (
        {**asking(), "models": {"writer": {"kind": "local_vllm", "model": "m", "engines": 2}}},
        2,
        "engines",
    ),
}
"""What is changed in a job, the exit code, and the words."""


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_a_setting_without_effect_is_told_or_refused(tmp_path, monkeypatch, capsys, caplog, name):
    more, code, words = WITHOUT_EFFECT[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_bytes(b'{"q":"how do bees dance","p":"Bees dance to tell the way."}\n')
    (tmp_path / "job.yaml").write_text(json.dumps({"seeds": TABLE, "recipe": {"kind": "plain"}, "out": "out", **more}))
    ended = run_command(app, ["seeds", "preview", "job.yaml"])
    said = capsys.readouterr().err + caplog.text
    assert (ended, words in said) == (code, True), said
    assert ("has no effect" in said) is ("has no effect" in words)
