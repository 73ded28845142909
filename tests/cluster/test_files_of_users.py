"""Files as users bring them, through the command: what each becomes, what is refused, and what is told of the rest."""

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.datasets_out.sql.query import run_sql
from foil.engine.seeds.files.ledger import KINDS
from foil.engine.seeds.table import TableReader, TableSettings
from foil.trainer.evaluate.benchmarks.files import read_document
from foil.trainer.evaluate.comparison.prompts import read_prompts
from foil.trainer.evaluate.measures.trec_files import read_qrels, read_run
from foil.validators.judges.agreement import read_labels
from tests.support.models.fault_server import serving
from tests.support.models.raw_server import answering, http

BOM = b"\xef\xbb\xbf"
HEADER = "query-id\tcorpus-id\tscore\n"
QUERIES = [{"_id": "q1", "text": "how do bees find a meadow"}, {"_id": "q2", "text": "why is slate grey"}]
DOCUMENTS = [
    {"_id": "d1", "title": "", "text": "Bees dance to tell the way."},
    {"_id": "d2", "title": "", "text": "Slate is grey for its carbon."},
    {"_id": "d3", "title": "", "text": "Swifts leave in August."},
]
TRAINS = {"_id": "d1", "title": "", "text": "A wholly other text on trains."}


def lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def beir(queries: Any = QUERIES, documents: Any = DOCUMENTS, qrels: str = "q1\td1\t1\nq2\td2\t1\n") -> dict[str, str]:
    return {"queries.jsonl": lines(*queries), "corpus.jsonl": lines(*documents), "qrels/train.tsv": HEADER + qrels}


Foil = Callable[..., "Ended"]


class Files(NamedTuple):
    """Files, and the seeds that are made of them; of each seed what is in its row."""

    seeds: str
    files: Mapping[str, str | bytes]


TABLE = "{kind: table, corpus: c, path: rows.%s, columns: {query: q, positives: p}}"
BEIR = "{kind: beir, path: .}"
MSMARCO = "{kind: msmarco, collection: c.tsv, queries: q.tsv, qrels: [r.tsv]}"
ROBUST = "{kind: robust04, topics: topics, qrels: [qrels], documents: docs}"
ATTRIBUTES = TABLE.replace("positives: p", "positives: p, attributes: {year: year, split: split}")
SPLIT = ATTRIBUTES.replace("year: year, ", "")
TOPIC = "<top>\n<num> Number: 1\n<title> how do bees dance\n</top>\n"


def trec(*texts: str) -> str:
    return "".join(f"<DOC>\n<DOCNO>d1</DOCNO>\n<TEXT>\n{text}\n</TEXT>\n</DOC>\n" for text in texts)


def tsv(*rows: str) -> Files:
    return Files(TABLE % "tsv", {"rows.tsv": "q\tp\n" + "\n".join(rows)})


def table(*rows: Mapping[str, Any], seeds: str = ATTRIBUTES.replace(", split: split", "")) -> Files:
    return Files(seeds % "jsonl", {"rows.jsonl": lines(*({"q": f"bees {n}", "p": ["x bee."], **row}
                                                         for n, row in enumerate(rows)))})  # fmt: skip


def write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


class Ended(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def foil(tmp_path, monkeypatch, capsys, caplog):
    """The command, run in the test's folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Ended:
        capsys.readouterr()
        caplog.clear()
        code = run_command(app, [str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Ended(code, said.out, said.err + caplog.text)

    return call


def run(foil: Foil, given: Files, *more: str) -> Ended:
    write(Path(), given.files)
    Path("job.yaml").write_text(
        f"seeds: {given.seeds}\nrecipe: {{kind: plain}}\nout: out\nlimits: {{partition_seeds: 2}}\n"
    )
    return foil("run", "job.yaml", *more)


def sql(query: str) -> list[dict[str, Any]]:
    return run_sql(Path("out"), query).to_pylist()


def queries() -> list[str]:
    return [row["query"] for row in sql("SELECT query FROM topics ORDER BY seed_id")]


HONEST = {
    "a quote at the start": tsv(
        '"twelve monkeys\tA film.', "why is slate grey\tIt holds carbon.", 'who said enough"\tA.'
    ),
    "a quoted phrase": tsv('"twelve monkeys" cast\tA film.', "why\tIt holds carbon.", 'who said "enough"\tA king did.'),
    "a quote in each cell": tsv('"a\t"b', '"c\t"d', '"e\t"f'),
    "a quote at the end of the file": tsv("a\tb", "c\td", 'e\t"f'),
    "doubled quotes": tsv('say ""a""\tb', 'c\td""', '""\tf'),
    "a quote and a byte order mark": Files(TABLE % "tsv", {"rows.tsv": BOM + b'q\tp\r\n"a\tb\r\nc\td\r\n"e\tf"\r\n'}),
}
"""Tables of three rows each, none of which has CSV's quoting."""


@pytest.mark.parametrize("name", HONEST)
def test_three_honest_rows_of_a_tsv_are_three_seeds(foil, name):
    ended = run(foil, HONEST[name])
    assert ended.code == 0, ended.err
    content = HONEST[name].files["rows.tsv"]
    rows = (content if isinstance(content, str) else content.decode("utf-8-sig")).splitlines()[1:]
    assert queries() == [row.split("\t")[0] for row in rows]


TWO_TEXTS = {
    "beir": Files(BEIR, beir(documents=[*DOCUMENTS, TRAINS])),
    "beir, another title": Files(BEIR, beir(documents=[*DOCUMENTS, {**DOCUMENTS[0], "title": "Bees"}])),
    "beir, one query": Files(BEIR, beir(queries=[*QUERIES, {"_id": "q1", "text": "other"}])),
    "msmarco": Files(MSMARCO, {"c.tsv": "d1\tBees dance.\nd2\tSlate.\nd1\tTrains run.\n", "q.tsv": "q1\thow do bees\n",
                               "r.tsv": "q1 0 d1 1\n"}),
    "msmarco, one query": Files(MSMARCO, {"c.tsv": "d1\tBees dance.\n", "q.tsv": "q1\thow\nq1\twhy\n",
                                          "r.tsv": "q1 0 d1 1\n"}),
    "robust04": Files(ROBUST, {"topics": TOPIC, "qrels": "1 0 d1 1\n", "docs": trec("Bees dance.", "Trains run.")}),
    "robust04, two files": Files(ROBUST, {"topics": TOPIC, "qrels": "1 0 d1 1\n", "docs/a": trec("Bees dance."),
                                          "docs/b": trec("Trains run.")}),
    "table": Files(TABLE.replace("query: q", "query: q, id: i") % "jsonl",
                   {"rows.jsonl": lines({"i": 1, "q": "a", "p": "b"}, {"i": 1, "q": "a", "p": "c"})}),
}  # fmt: skip
"""Corpora with two contents of one id."""


@pytest.mark.parametrize("name", TWO_TEXTS)
def test_two_contents_of_one_id_are_refused_with_both_places_or_skipped_and_told(foil, name):
    refused = run(foil, TWO_TEXTS[name])
    assert (refused.code, "of this id" in refused.err) == (2, True), refused.err
    assert " as at " in refused.err
    (told,) = [line for line in refused.err.splitlines() if " as at " in line]
    assert len({part for part in told.replace(",", " ").split() if part.rstrip(":").rsplit(":", 1)[-1].isdigit()}) == 2
    ended = run(foil, TWO_TEXTS[name], "--set", "seeds.on_error=skip")
    assert (ended.code, "1 bad records were skipped (first: " in ended.out) == (0, True), ended.err
    assert "Trains" not in str(sql("SELECT * FROM passages"))


ONCE = {
    "beir": Files(BEIR, beir(documents=[*DOCUMENTS, DOCUMENTS[0]], queries=[*QUERIES, QUERIES[1]])),
    "msmarco": Files(MSMARCO, {"c.tsv": "d1\tBees dance.\n" * 2, "q.tsv": "q1\thow do bees\n" * 2,
                               "r.tsv": "q1 0 d1 1\n"}),
    "robust04": Files(ROBUST, {"topics": TOPIC * 2, "qrels": "1 0 d1 1\n", "docs": trec("Bees.", "Bees.")}),
}  # fmt: skip
"""Corpora that repeat a document and a query as they are."""


@pytest.mark.parametrize("name", ONCE)
def test_an_equal_record_counts_once_and_is_told(foil, name):
    ended = run(foil, ONCE[name])
    assert (ended.code, "2 records repeat one of the same id" in ended.out) == (0, True), ended.err
    assert len(queries()) == (2 if name == "beir" else 1)


LEFT_OUT = {
    "a short row": (tsv("a\tb", "c", "d\te"), {"skipped": 1}),
    "a row that is too long": (tsv("a\tb", "c\td\te\tf", "d\te"), {"skipped": 1}),
    "bytes that are no text": (Files(TABLE % "tsv", {"rows.tsv": b"q\tp\na\tb\nc\t\xff\n"}), {"skipped": 1}),
    "a blank query": (tsv("a\tb", " \tc"), {"skipped": 1}),
    "a judged document that is missing": (Files(BEIR, beir(qrels="q1\td1\t1\nq2\td9\t1\n")), {"missing_documents": 1}),
    "a judged query that is missing": (Files(BEIR, beir(qrels="q1\td1\t1\nq9\td2\t1\n")), {"missing_queries": 1}),
    "both": (Files(BEIR, beir(qrels="q1\td1\t1\nq2\td9\t1\nq9\td2\t1\n")),
             {"missing_documents": 1, "missing_queries": 1}),
    "a document without text": (Files(BEIR, beir(documents=[*DOCUMENTS, {"_id": "d4", "text": " "}],
                                                 qrels="q1\td1\t1\nq2\td4\t1\n")), {"blank_documents": 1}),
    "two grades of a pair": (Files(BEIR, beir(qrels="q1\td1\t0\nq1\td1\t1\nq2\td2\t1\nq2\td2\t0\n")), {"regraded": 2}),
    "no value": (table({"year": None}, {"year": float("nan")}, {"year": float("-inf")}, {"year": 1.5}),
                 {"missing_values": 3}),
    "an empty cell": (Files(ATTRIBUTES.replace(", split: split", "") % "csv",
                            {"rows.csv": "q,p,year\nhow bees dance,Bees do.,\nwhy,It,1990\n"}), {"missing_values": 1}),
    "held out": (table({"split": "heldout"}, {"split": ""}, {"split": None}, seeds=SPLIT),
                 {"held_out": 1, "missing_values": 2}),
}  # fmt: skip
"""What is not taken as it stands, and how often."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "workers"), [*((name, 0) for name in LEFT_OUT), ("a short row", 1), ("no value", 1)])
def test_what_is_left_out_is_counted_told_and_kept(foil, name, workers):
    given, counts = LEFT_OUT[name]
    more = ["--set", f"runtime.workers={workers}"] if workers else []
    ended = run(foil, given, "--set", "seeds.on_error=skip", *more)
    assert ended.code == 0, ended.err
    again = foil("run", "job.yaml", "--set", "seeds.on_error=skip", *more)
    kept = json.loads(foil("status", "out", "--json").out)["read"]
    assert kept.pop("seeds") == len(queries())
    assert {kind: entry["count"] for kind, entry in kept.items()} == counts
    for entry in kept.values():
        assert f"(first: {entry['first']})" in ended.out
        assert f"(first: {entry['first']})" in again.out
        assert f"(first: {entry['first']})" in foil("status", "out").out


@pytest.mark.parametrize("readers", [1, 2])
def test_what_is_counted_adds_up_to_the_rows_of_the_file_for_any_number_of_readers(foil, readers):
    rows = [{"id": i, "split": "heldout" if i % 3 == 0 else "", "note": "x" * 300_000} for i in range(12)]
    seeds, files = table(*rows, seeds=SPLIT.replace("query: q", "query: q, id: id"))
    twice = Files(seeds, {name: content + content for name, content in files.items()})  # other blocks
    ended = run(foil, twice, "--set", f"runtime.readers={readers}")
    assert ended.code == 0, ended.err
    kept = json.loads(foil("status", "out", "--json").out)["read"]
    counts = {kind: kept[kind]["count"] for kind in ("duplicates", "held_out")}
    assert (kept["seeds"], counts) == (12, {"duplicates": 12, "held_out": 4})


def test_a_preview_and_a_plan_tell_what_they_left_out(foil):
    run(foil, LEFT_OUT["a short row"][0], "--set", "seeds.on_error=skip")
    for command in (["seeds", "preview", "job.yaml"], ["plan", "job.yaml"]):
        ended = foil(*command, "--set", "seeds.on_error=skip")
        assert (ended.code, "1 bad records were skipped (first: rows.tsv:3: exp" in ended.out + ended.err) == (0, True)


JUDGED = {name.replace("train", "test"): content for name, content in beir().items()}


def evaluated(foil: Foil, files: Mapping[str, str | bytes], kind: str = "beir") -> tuple[Ended, Any]:
    """How the evaluation of BM25 ended, and what its rows say of the files."""
    write(Path("F"), files)
    ended = foil("evaluate", "bm25", "--on", f"{kind}:F", "--out", "ev")
    rows = [json.loads(line) for line in Path("ev/results.jsonl").read_text().splitlines()] if not ended.code else []
    read = [part["read"] for row in rows for part in row["collections"].values()]
    assert all(part == read[0] for part in read)
    return ended, {kind: entry["count"] for kind, entry in read[0].items()} if read else {}


@pytest.mark.parametrize(
    ("qrels", "documents", "counts"),
    [
        ("q1\td1\t1\nq2\td9\t1\nq9\td2\t1\n", DOCUMENTS, {"missing_documents": 1, "missing_queries": 1}),
        ("q1\td1\t0\nq1\td1\t1\nq2\td2\t1\n", DOCUMENTS, {"regraded": 1}),
        ("q1\td1\t1\nq2\td2\t1\n", [*DOCUMENTS, DOCUMENTS[0]], {"duplicates": 1}),
        ("q1\td1\t1\nq2\td2\t1\n", DOCUMENTS, {}),
    ],
)
def test_results_say_what_of_a_benchmark_was_left_out(foil, qrels, documents, counts):
    files = {**JUDGED, "corpus.jsonl": lines(*documents), "qrels/test.tsv": HEADER + qrels}
    ended, found = evaluated(foil, files)
    assert (ended.code, found) == (0, counts), ended.err
    for kind in counts:
        assert KINDS[kind] in ended.err


@pytest.mark.parametrize("kind", ["beir", "trec", "trec tables"])
def test_an_evaluation_refuses_two_texts_of_one_id_as_seeds_do(foil, kind):
    files = {
        "beir": {**JUDGED, "corpus.jsonl": lines(*DOCUMENTS, TRAINS)},
        "trec": {"topics": TOPIC, "qrels": "1 0 d1 1\n", "docs": trec("Bees dance.", "Trains run.")},
        "trec tables": {"topics.tsv": "1\thow do bees\n", "qrels": "1 0 d1 1\n", "c.tsv": "d1\tBees.\nd1\tTrains.\n"},
    }[kind]
    ended, _ = evaluated(foil, files, kind.partition(" ")[0])
    assert (ended.code, "expected one document of the id 'd1', as at F/" in ended.err) == (2, True), ended.err


def test_a_file_that_is_mined_has_one_text_an_id(foil):
    run(foil, Files(BEIR, beir()))
    mine = ["mine", "out", "mined", "--set", "corpus=file", "--set", "file=c.jsonl"]
    write(Path(), {"c.jsonl": lines(*DOCUMENTS, TRAINS)})
    refused = foil(*mine)
    assert (refused.code, "as at c.jsonl:1" in refused.err) == (2, True), refused.err
    write(Path(), {"c.jsonl": lines(*DOCUMENTS, DOCUMENTS[2])})
    ended = foil(*mine)
    assert (ended.code, "c.jsonl: 1 records repeat one of the same id" in ended.err) == (0, True), ended.err


def test_a_list_of_ids_may_have_a_byte_order_mark(foil):
    run(foil, Files(BEIR, beir()))
    (topic,) = sql("SELECT topic_id FROM topics WHERE seed_id = 'q1'")
    write(Path(), {"ids.txt": BOM + topic["topic_id"].encode() + b"\r\n"})
    ended = foil("drop", "out", "new", "--ids", "ids.txt", "--reason", "wrong")
    assert ended.code == 0, ended.err


@pytest.mark.parametrize(
    ("read", "content", "expected"),
    [
        (read_prompts, "one\ntwo\n", ("one", "two")),
        (read_qrels, "q 0 d 1\n", {"q": {"d": 1}}),
        (read_qrels, HEADER + "q\td\t1\n", {"q": {"d": 1}}),
        (read_run, "q Q0 d 1 0.5 tag\n", {"q": {"d": 0.5}}),
        (read_document, '{"a": 1}', {"a": 1}),
    ],
)
def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path, read, content, expected):
    for mark in (b"", BOM):
        (tmp_path / "f.tsv").write_bytes(mark + content.encode())
        assert read(tmp_path / "f.tsv") == expected


@pytest.mark.parametrize("name", ["l.jsonl", "l.csv", "l.tsv", "l.json", "l.csv.gz"])
def test_labels_are_a_table_like_any_other(tmp_path, name):
    row = {"topic_id": "t", "intent_id": "i", "passage_id": "p", "relevance": "1"}
    tab = "\t" if "tsv" in name else ","
    text = {"l.jsonl": lines(row), "l.json": json.dumps([row])}.get(
        name, f"{tab.join(row)}\n{tab.join(row.values())}\n"
    )
    content = BOM + text.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert read_labels(tmp_path / name) == {"human": {("t", "i", "p"): 1}}


def test_values_of_every_type_come_into_prompts_as_they_are(tmp_path):
    rows = {
        "q": ["a", "b", "c"], "p": ["x.", "y.", "z."],
        "at": pa.array([0, None, 86_400_000_000], pa.timestamp("us")), "tags": [["x", "y"], [], None],
        "box": [{"a": 1.5, "b": None}, None, {"a": float("nan"), "b": "t"}], "n": [1, 2, 3],
    }  # fmt: skip
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    columns = {"query": "q", "positives": "p", "attributes": {name: name for name in ("at", "tags", "box", "n")}}
    settings = TableSettings(corpus="c", path=tmp_path / "rows.parquet", columns=columns, negatives=0)
    reader = TableReader(settings)
    assert [dict(seed.attributes) for seed in reader] == [
        {"at": "1970-01-01 00:00:00", "tags": "x\ny", "box": '{"a": 1.5, "b": null}', "n": "1"},
        {"n": "2"},
        {"at": "1970-01-02 00:00:00", "box": '{"a": null, "b": "t"}', "n": "3"},
    ]
    assert reader.ledger["missing_values"] == 4


@pytest.mark.parametrize("split", ["test", "validation", "train", "HELDOUT", 1])
def test_a_column_called_split_decides_nothing_but_what_is_held_out(foil, split):
    given = table({"split": split}, seeds=SPLIT)
    refused = run(foil, given)
    assert (refused.code, f"has {str(split)!r} as its attribute 'split'" in refused.err) == (2, True)
    assert "give the column another name" in refused.err
    assert run(foil, Files(given.seeds.replace("split: split", "part: split"), given.files)).code == 0


def custom_job(url: str, template: bytes, rows: str, *, passage_chars: int = 4_000) -> Path:
    write(Path(), {"templates/ask.j2": template, "rows.jsonl": rows})
    Path("job.yaml").write_text(
        f"seeds: {ATTRIBUTES.replace(', split: split', '') % 'jsonl'}\n"
        f"recipe:\n  kind: custom\n  templates: templates\n  passage_chars: {passage_chars}\n"
        "  stages: [{name: ask, answer: {text: {type: string, most: 500}}}]\n"
        "  rows: {question: query, text: ask.text}\n"
        f"models: {{writer: {{kind: hosted, model: m, url: '{url}'}}}}\nout: out\nruntime: {{window: 2}}\n"
    )
    return Path("job.yaml")


def replying(prompt_tokens: int, body: str = '{"text": "fine"}') -> Any:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": body}}
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 9}
    reply = json.dumps({"model": "m", "choices": [choice], "usage": usage}).encode()
    return answering(lambda first: http(reply if first.startswith(b"POST") else b'{"data": []}'))


ROWS = lines(*({"q": f"how do bees {n}", "p": ["Bees dance to tell the way."], "year": n} for n in range(3)))
RULES = "".join(f"Rule {n}: write plainly and do not repeat rule number {n}.\n" for n in range(640))


@pytest.mark.parametrize(
    ("template", "prompt_tokens", "ending"),
    [
        (RULES, 2048, ("failed", "cut_prompt", 3)), (RULES, 512, ("failed", "cut_prompt", 3)),
        (RULES, 1, ("accepted", "", 0)), (RULES, 6_400, ("accepted", "", 0)), ("Short.", 2, ("accepted", "", 0)),
    ],
)  # fmt: skip
def test_no_reply_to_a_prompt_that_the_server_cut_is_taken(foil, template, prompt_tokens, ending):
    with replying(prompt_tokens) as server:
        job = custom_job(server.url, f"=== user ===\n{template}\n{{{{ query }}}}".encode(), ROWS)
        ended = foil("run", job)
    found = {(row["status"], row["reason"]) for row in sql("SELECT status, reason FROM topics")}
    assert (*next(iter(found)), ended.code) == ending, ended.err
    assert len(found) == 1
    assert ("it cuts what does not fit its context" in ended.err) == (ending[1] == "cut_prompt")
    assert ("tells no usage, or one that cannot be" in ended.err) == (prompt_tokens == 1)
    if ending[1]:
        detail = sql("SELECT detail FROM topics LIMIT 1")[0]["detail"]
        assert f"the server read {prompt_tokens:,} tokens of a prompt of 7," in detail
        assert server.requests < 9


def test_a_template_with_a_byte_order_mark_is_read(foil):
    with replying(40) as server:
        job = custom_job(server.url, BOM + b"=== user ===\nOne sentence: {{ query }}", ROWS)
        ended = foil("run", job)
    assert ended.code == 0, ended.err


def test_a_template_that_needs_a_value_which_a_row_lacks_names_it(foil):
    rows = lines({"q": "a", "p": ["b."], "year": float("nan")}, {"q": "c", "p": ["d."], "year": [1]})
    with replying(40) as server:
        job = custom_job(server.url, b"=== user ===\nYear {{ attributes.year }}: {{ query }}", rows)
        ended = foil("run", job)
    assert ended.code == 0, ended.err
    first, second = sql("SELECT status, reason, detail FROM topics ORDER BY seed_id")
    assert (first["status"], first["reason"]) == ("rejected", "no_value")
    assert "there is no value 'year'" in first["detail"]
    assert second["status"] == "accepted"
    assert "1 attributes have no value in their row (first: rows.jsonl:1, column 'year')" in ended.out


@pytest.mark.parametrize("chars", [60_000, 10_000, 4_000])
def test_passage_chars_are_the_characters_that_are_sent(foil, chars):
    prompts: list[str] = []

    def answer(request: Mapping[str, Any], _: int) -> str:
        prompts.append(request["messages"][0]["content"])
        return '{"text": "fine"}'

    text = " ".join(f"Bees of meadow {n} dance to tell the way to flower {n}." for n in range(700))
    rows = lines({"q": "how do bees dance", "p": [text], "year": 1})
    with serving(answer=answer) as server:
        job = custom_job(server.url, b"=== user ===\n{{ positive.text }}", rows, passage_chars=chars)
        ended = foil("run", job)
    assert ended.code == 0, ended.err
    least = {60_000: len(text), 10_000: 9_500, 4_000: 2_500}[chars]
    assert least <= len(prompts[0]) <= chars + 200  # with the line that names the keys
