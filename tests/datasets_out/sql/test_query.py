"""The curator's SQL: what its views hold, what its errors say, and how its answers leave."""

import csv
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import load_snapshot, take_snapshot
from foil.datasets_out.notes.notes import put_note
from foil.datasets_out.sql import scans
from foil.datasets_out.sql.audits import AUDITS, put_rows
from foil.datasets_out.sql.output_formats import to_csv, to_json, write_parquet
from foil.datasets_out.sql.query import WITHOUT_PANDAS, run_sql
from foil.datasets_out.sql.query_process import connect
from foil.datasets_out.sql.scans import TRIPLETS, CountedTopics, StoredRows, TripletBatches, may_name, one_topic
from foil.datasets_out.sql.views import VIEWS, dataset, views_script
from foil.engine.errors import CorruptDataError, NoRunError, UsageError
from foil.engine.topic import Verdict
from foil.trainer.evaluate.comparison.prompts import PromptResult
from foil.trainer.evaluate.comparison.results import Result, keep
from tests.support.sample_run import PLOT, SHORT, SORT, make, rejected, topics

ARROW = {"duckdb", "numpy", "pyarrow"}
SLOW = {"asyncio", "openai", "pandas", "psutil", "pydantic", "ray", "torch"}

EVALUATION = {
    **asdict(Result("pir", "mode: reversed", "p-MRR", "it's\u2028ours", 12, 4.5, -0.25, -1.0, 0.5)),
    "collections": {"pir/ours": {"digest": "d", "revision": ""}}, "k": 1000, "base": "b",
    "facts": {"template": "query_instruction"}, "versions": {"torch": None},
}  # fmt: skip

PROMPTED = {
    **asdict(PromptResult("pir", "", "p-MRR", "ours", 12, 4.5, 5.0, 6.0, 4.0, 0.5, 0.5, -1.0, 2.0, ("Be exact.",),
                          {"Be exact.": 5.0, "it's late": 3.0})),
    **{name: EVALUATION[name] for name in ("collections", "k", "base", "facts", "versions")},
}  # fmt: skip


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make(tmp_path_factory.mktemp("run"))
    put_rows(folder, "first", "ann", [dict.fromkeys(AUDITS.names) | {"item": 1, "label": 1, "mark": -1}])
    for _ in range(2):
        keep(folder / "results.jsonl", [EVALUATION])
        keep(folder / "prompts.jsonl", [PROMPTED])
    put_note(folder, topic_id="t", author="ann", flag="bad", note="it's wrong", noted_at="2026-01-01T00:00:00+00:00")
    return folder


def rows(out: Path, sql: str, **options: object) -> list[tuple[object, ...]]:
    table = run_sql(out, sql, **options)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_every_view_is_there_and_counts_what_was_committed(out):
    counts = {view: f"(SELECT count(*) FROM {view}) AS {view}" for view in VIEWS}
    (row,) = run_sql(out, f"SELECT {', '.join(counts.values())}").to_pylist()
    assert row == {
        "topics": 5, "intents": 4, "passages": 6, "judgments": 10, "calls": 2, "runs": 1, "audits": 1,
        "evaluations": 1, "prompt_evaluations": 1, "notes": 1,
        "rejects": 2, "triplets": 6,
        "verdicts": sum(len(topic.verdicts) for partition in topics() for topic in partition),
    }  # fmt: skip


def test_rejects_say_who_rejected_and_why_even_where_no_validator_did(out):
    sql = "SELECT seed_id, reason, validator, scope, evidence, detail FROM rejects ORDER BY seed_id"
    assert rows(out, sql) == [
        ("set", "no_negative", "", "", "", "set does not do"),
        ("tuple", "leak", "leak", "topic", "the instruction says 2001", "tuple does not do"),
    ]


def test_a_topic_with_two_rejecting_verdicts_of_one_reason_is_one_reject(tmp_path):
    twice = tuple(Verdict("leak", scope, "reject", "leak", scope) for scope in ("b", "a"))
    log = CommitLog(tmp_path)
    log.open("f", {})
    log.commit(0, [rejected("tuple", "leak", twice)], {})
    assert rows(tmp_path, "SELECT scope, evidence FROM rejects") == [("a", "a")]


@pytest.mark.parametrize(
    "condition",
    [
        "true",
        "partition = 1",
        "partition > 9",
        "partition < 1 AND intent_role = 'original'",
        "topic_id = (SELECT min(topic_id) FROM topics WHERE status = 'accepted')",
        "seed_id = 'list'",
        "seed_id = 'list' AND split <> ''",
        "seed_id IN ('list', 'none') OR split = 'dev'",
        "negative LIKE '%list%'",
    ],
)
def test_triplets_a_range_at_a_time_are_those_of_the_whole_join(out, monkeypatch, condition):
    monkeypatch.setattr(scans, "RANGE_BYTES", 1)
    request = {"runs": {"run": str(out)}, "snapshot": None, "sql": "", "memory_bytes": 1 << 30, "timeout_s": 60}
    connection = connect(request)
    sql = f"FROM {{}}triplets WHERE {condition} ORDER BY ALL"
    ranges, whole = (connection.execute(sql.format(schema)).fetchall() for schema in ("", "joined_1."))
    assert ranges == whole
    assert bool(whole) == (condition != "partition > 9")


def test_a_filter_on_partition_or_topic_leaves_out_ranges(out, monkeypatch):
    monkeypatch.setattr("foil.datasets_out.sql.scans.RANGE_BYTES", 1)
    snapshot = load_snapshot(out, None)
    read: list[tuple[int, int]] = []

    def join(columns: Sequence[str], bounds: tuple[int, int]) -> pa.RecordBatchReader:
        read.append(bounds)
        return pa.RecordBatchReader.from_batches(pa.schema([TRIPLETS.field(name) for name in columns]), [])

    batches = TripletBatches(dataset("topics", snapshot), snapshot, join)
    topic = run_sql(out, "SELECT topic_id FROM topics WHERE partition = 1 LIMIT 1")["topic_id"][0].as_py()
    role = pc.field("intent_role") == "original"
    for condition, ranges in (
        ((pc.field("partition") == 0) & role, [(0, 0)]),
        (pc.field("topic_id") == topic, [(1, 1)]),
        ((pc.field("topic_id") == topic) & role, [(1, 1)]),
        ((pc.field("topic_id") == topic) | role, [(0, 0), (1, 1)]),
        (role, [(0, 0), (1, 1)]),
    ):
        read.clear()
        batches.scanner(columns=["query"], filter=condition).to_table()
        assert read == ranges


@pytest.mark.parametrize(
    "question",
    [
        "SELECT status, count(*) FROM {} GROUP BY status ORDER BY ALL",
        "SELECT count(*) FROM {}",
        "SELECT count(*) FILTER (status = 'accepted') FROM {} WHERE status <> 'failed'",
        "SELECT status FROM {} WHERE status LIKE '%e%' OR status IS NULL ORDER BY ALL LIMIT 3",
        "SELECT status, count(*) FROM {} WHERE partition = 1 GROUP BY status ORDER BY ALL",
        "SELECT status, recipe, count(*) FROM {} GROUP BY ALL ORDER BY ALL",
        "SELECT status, count(*) FROM {} WHERE query > 'status' GROUP BY status ORDER BY ALL",
    ],
)
def test_what_is_counted_from_the_log_is_what_the_files_have(out, question):
    snapshot = load_snapshot(out, None)
    files = dataset("topics", snapshot)
    with duckdb.connect() as connection:
        connection.from_arrow(files.dataset(None)).create_view("files")
        connection.from_arrow(CountedTopics(files, snapshot.sums().counts.topics)).create_view("topics")
        counted, read = (connection.sql(question.format(name)).fetchall() for name in ("topics", "files"))
    assert counted == read != []
    assert rows(out, question.format("topics")) == read


def test_no_two_scans_share_what_one_of_them_forgets(out):
    files = dataset("topics", load_snapshot(out, None))
    made = []
    rows = StoredRows(lambda topic: made.append(files.dataset(topic)) or made[-1], files.schema)
    for _ in range(2):
        assert rows.scanner(columns=["query"]).to_table().num_rows == 5
    assert len({id(each) for each in made}) == 2


def test_a_count_by_status_opens_no_file(out, tmp_path):
    copy = shutil.copytree(out, tmp_path / "copy")
    for path in copy.rglob("*.parquet"):
        path.write_bytes(b"")
    counts = rows(copy, "SELECT status, count(*) FROM topics GROUP BY status ORDER BY status")
    assert counts == [("accepted", 2), ("failed", 1), ("rejected", 2)]
    assert rows(copy, "SELECT count(*) FROM topics") == [(5,)]
    with pytest.raises(CorruptDataError):
        rows(copy, "SELECT recipe, count(*) FROM topics GROUP BY recipe")


def test_triplets_are_all_pairs_of_one_intent_with_their_texts(out):
    sql = """SELECT intent_role, instruction, positive_id, positive, positive_role, negative_id, negative
             FROM triplets WHERE seed_id = 'list' ORDER BY ALL"""
    assert rows(out, sql) == sorted(
        [
            ("original", "", SORT.id, SORT.text, "seed_positive", PLOT.id, PLOT.text),
            ("original", "", SHORT.id, SHORT.text, "instruction_negative", PLOT.id, PLOT.text),
            ("instructed", "Give a year.", SORT.id, SORT.text, "seed_positive", SHORT.id, SHORT.text),
        ]
    )


def test_runs_sums_the_commit_entries(out):
    run = run_sql(out, "FROM runs").to_pylist()[0]
    expected = {
        "fingerprint": "f" * 64, "planned_seeds": 5, "planned_partitions": 2, "partitions": 2, "topics_accepted": 2,
        "topics_rejected": 2, "topics_failed": 1, "seeds_failed": 1, "calls": 2, "prompt_tokens": 240,
        "completion_tokens": 80, "cost_usd": 0.004, "passages_rows": 6,
    }  # fmt: skip
    assert expected.items() <= run.items()
    assert json.loads(run["job"])["recipe"] == {"kind": "verifiable"}
    assert run["bytes"] == sum(path.stat().st_size for path in (out / "data").rglob("*.parquet"))


def test_maps_and_lists_can_be_queried(out):
    assert rows(out, "SELECT attributes['style'] FROM intents WHERE role = 'instructed'") == [("plain",), ("plain",)]
    assert rows(out, "SELECT max(len(votes)) FROM judgments") == [(3,)]


@pytest.mark.slow
@pytest.mark.parametrize("sql", ["DESCRIBE topics", "SHOW TABLES", "SUMMARIZE topics",
                                 "EXPLAIN ANALYZE FROM topics", "WITH a AS (FROM topics) FROM a",
                                 "-- a remark\nFROM topics;"])  # fmt: skip
def test_looking_around_is_allowed(out, sql):
    assert run_sql(out, sql).num_rows > 0


def test_show_tables_lists_the_views(out):
    assert {name for (name,) in rows(out, "SHOW TABLES")} == set(VIEWS)


def test_equal_column_names_get_a_number(out):
    assert run_sql(out, "SELECT 1 AS a, 2 AS a, 3 AS a_1, 4 AS a").column_names == ["a", "a_1", "a_1_1", "a_2"]


def test_a_snapshot_answers_as_of_when_it_was_taken(tmp_path):
    log = CommitLog(tmp_path)
    log.open("f", {})
    first, second = topics()
    log.commit(0, first, {})
    take_snapshot(tmp_path, "v1")
    log.commit(1, second, {})
    counts = "SELECT (SELECT count(*) FROM topics), partitions, topics_failed FROM runs"
    assert rows(tmp_path, counts, snapshot="v1") == [(2, 1, 0)]
    assert rows(tmp_path, counts) == [(5, 2, 1)]
    with pytest.raises(UsageError, match=r"no snapshot 'v2'; it has .*v1"):
        run_sql(tmp_path, counts, snapshot="v2")


def test_a_run_without_partitions_has_empty_views_and_one_row_of_zeros(tmp_path):
    CommitLog(tmp_path).open("f", {})
    assert rows(tmp_path, "SELECT count(*), (SELECT count(*) FROM triplets) FROM topics") == [(0, 0)]
    assert rows(tmp_path, "SELECT partitions, planned_seeds, topics_accepted FROM runs") == [(0, None, 0)]


def test_files_that_no_entry_names_are_never_seen(tmp_path):
    make(tmp_path)
    orphan = tmp_path / "data/topics/part-00000009.parquet"
    orphan.write_bytes((tmp_path / "data/topics/part-00000000.parquet").read_bytes())
    assert rows(tmp_path, "SELECT count(*) FROM topics") == [(5,)]


def test_a_folder_that_holds_no_run_is_said_to_hold_none(tmp_path):
    with pytest.raises(NoRunError, match="holds no run"):
        run_sql(tmp_path, "FROM topics")


def test_an_unknown_table_is_answered_with_the_views_that_there_are(out):
    with pytest.raises(UsageError, match=r"name topic does not exist.* The views are topics, intents, .*runs"):
        run_sql(out, "SELECT * FROM topic")


def test_an_unknown_column_is_answered_with_candidates(out):
    with pytest.raises(UsageError, match=r'"statu" not found[\s\S]*"status"'):
        run_sql(out, "SELECT statu FROM topics")


def test_a_syntax_error_shows_its_place(out):
    with pytest.raises(UsageError, match=r'syntax error at or near "topics"\n\nLINE 2: FORM topics\n +\^+'):
        run_sql(out, "SELECT *\nFORM topics")


@pytest.mark.parametrize("sql", ["", "-- nothing"])
def test_an_empty_query_is_answered_with_an_example(out, sql):
    with pytest.raises(UsageError, match="query is empty; ask one SELECT"):
        run_sql(out, sql)


def test_a_query_that_fails_halfway_raises_rather_than_answer_half(out):
    with pytest.raises(UsageError, match="Could not convert string"):
        run_sql(out, "SELECT CAST(CASE WHEN i < 500000 THEN '1' ELSE 'x' END AS INT) FROM range(1000000) t(i)")


def test_text_that_is_no_unicode_is_refused(out):
    with pytest.raises(UsageError, match="not valid text"):
        run_sql(out, "SELECT '\udcff'")


def test_a_flipped_bit_in_a_shard_is_noticed(tmp_path):
    make(tmp_path)
    shard = tmp_path / "data/passages/part-00000001.parquet"
    raw = bytearray(shard.read_bytes())
    raw[40] ^= 1
    shard.write_bytes(raw)
    with pytest.raises(CorruptDataError, match=r"[\s\S]*`foil verify` names"):
        run_sql(tmp_path, "SELECT min(topic_id), min(text) FROM passages")


def test_a_missing_shard_is_noticed(tmp_path):
    make(tmp_path)
    (tmp_path / "data/calls/part-00000001.parquet").unlink()
    assert rows(tmp_path, "SELECT count(*) FROM topics") == [(5,)]
    with pytest.raises(CorruptDataError, match=r"part-00000001[\s\S]*`foil verify` names"):
        run_sql(tmp_path, "SELECT sum(cost_usd) FROM calls")


def test_json_holds_every_type_as_something_readable(out):
    sql = """SELECT 1 AS n, NULL AS nothing, 1.5::DECIMAL(3, 1) AS money, DATE '2026-01-02' AS day,
                    '\\xFF'::BLOB AS raw, MAP {'a': 'b'} AS m, [1, 2] AS l, 'é "quoted"' AS t, true AS yes"""
    assert json.loads(to_json(run_sql(out, sql, form="json"))) == [
        {"n": 1, "nothing": None, "money": 1.5, "day": "2026-01-02", "raw": "\\xFF", "m": {"a": "b"}, "l": [1, 2],
         "t": 'é "quoted"', "yes": True}
    ]  # fmt: skip


def test_csv_defuses_formulas_and_leaves_numbers_alone(out):
    sql = """SELECT -1 AS n, '-1' AS "=head", '@x' AS c, '+1' AS d, '\t=1' AS e, 'a=b' AS f, 'x,"y"' AS g,
                    (SELECT attributes['tag'] FROM topics WHERE seed_id = 'dict') AS h, {'a': [1]} AS i, NULL AS j"""
    head, body = csv.reader(io.StringIO(to_csv(run_sql(out, sql, form="text"))))
    assert head == ["n", "'=head", "c", "d", "e", "f", "g", "h", "i", "j"]
    assert body == ["-1", "'-1", "'@x", "'+1", "'\t=1", "a=b", 'x,"y"', "'=1+1", '{"a":[1]}', ""]


def test_parquet_answers_are_new_files_only(out, tmp_path):
    answer = run_sql(out, "SELECT topic_id, attributes FROM topics ORDER BY 1")
    write_parquet(answer, tmp_path / "answer.parquet")
    assert pq.read_table(tmp_path / "answer.parquet").equals(answer)
    shard = out / "data/topics/part-00000000.parquet"
    before = shard.read_bytes()
    with pytest.raises(UsageError, match="File exists; give the path of a new file"):
        write_parquet(answer, shard)
    assert shard.read_bytes() == before


def test_the_views_script_gives_a_plain_duckdb_the_same_answers(out):
    plain = duckdb.connect()
    plain.execute(views_script({"run": out}))
    all_rows = ", ".join(f"(SELECT list({view} ORDER BY {view}) FROM {view}) AS {view}" for view in VIEWS)
    [ours] = run_sql(out, f"SELECT {all_rows}").to_pylist()
    [theirs] = plain.sql(f"SELECT {all_rows}").to_arrow_table().to_pylist()
    assert theirs == ours
    assert [list(rows[0]) for rows in theirs.values()] == [list(rows[0]) for rows in ours.values()]


def test_the_views_script_needs_something_committed(tmp_path):
    CommitLog(tmp_path).open("f", {})
    with pytest.raises(UsageError, match="no committed partition yet"):
        views_script({"run": tmp_path})


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        (
            "import foil.cluster.pages.rows, foil.cluster.commands.curators.sql, foil.datasets_out.sql.query",
            ARROW | SLOW,
        ),
        (f"{WITHOUT_PANDAS}import foil.datasets_out.sql.query_process", SLOW),
        ("import foil.cluster.__main__ as m, sys; sys.argv = ['foil', '--help']; m.run()", ARROW | SLOW | {"rich"}),
    ],
    ids=["asking", "answering", "help"],
)
def test_a_start_loads_no_library_that_it_does_not_use(code, unwanted):
    code = f"{code}\nimport sys\nprint({unwanted!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


@pytest.mark.slow
@pytest.mark.parametrize("view", ["audits", "evaluations", "prompt_evaluations"])
def test_a_run_without_such_has_an_empty_view_of_the_same_types(out, tmp_path, view):
    folder = make(tmp_path / "run")
    plain = duckdb.connect()
    plain.execute(views_script({"run": folder}))
    ours = run_sql(folder, f"FROM {view}")
    assert ours.num_rows == 0
    assert plain.sql(f"FROM {view}").to_arrow_table().schema == ours.schema == run_sql(out, f"FROM {view}").schema


def test_evaluations_are_rows_with_their_facts_as_json(out):
    json_columns = "facts->>'template', collections->'pir/ours'->>'digest'"
    sql = f"SELECT system, query_group, count, low, {json_columns} FROM evaluations"
    assert rows(out, sql) == [("it's\u2028ours", "mode: reversed", 12, -1.0, "query_instruction", "d")]


def test_what_prompts_are_worth_is_a_row_with_each_prompt_as_json(out):
    sql = "SELECT no_prompt, selected, hindsight, spread, selected_prompts->>0, by_prompt->>'it''s late', k"
    assert rows(out, f"{sql} FROM prompt_evaluations") == [(4.5, 5.0, 6.0, 0.5, "Be exact.", "3.0", 1000)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", ["{", "3", "{}", '{"group": ""}', '{"count": 1e99}', '{"count": "x"}', f'{{"count": {2**70}}}', "[" * 9**5]
)
def test_results_that_do_not_read_stop_their_own_queries_alone(tmp_path, line):
    folder = make(tmp_path / "run")
    known = json.loads(line) if line.startswith('{"count') else None
    (folder / "results.jsonl").write_text(json.dumps(EVALUATION | known) if known else line)
    with pytest.raises(CorruptDataError, match=r"results\.jsonl does not hold rows of `foil evaluate`"):
        run_sql(folder, "FROM Evaluations")
    assert run_sql(folder, "FROM topics").num_rows > 0


FILTERS = [
    ("topic_id = 'aa'", "aa"),
    ("topic_id = 'aa' AND seed_id = 's1'", "aa"),
    ("topic_id = 'aa' OR topic_id = 'bb'", None),
    ("NOT (topic_id = 'aa')", None),
    ("topic_id <> 'aa'", None),
    ("topic_id IN ('aa', 'bb')", None),
    ("seed_id = '((topic_id == \"aa\"))'", None),
    ("seed_id = 's1' AND topic_id = 'bb'", "bb"),
    ("topic_id = 'aa' AND seed_id <> ' or '", "aa"),
    ("topic_id >= 'aa' AND topic_id <= 'aa'", "aa"),
]


@pytest.mark.parametrize(("condition", "only"), FILTERS)
def test_a_filter_names_one_topic_only_where_no_other_can_pass_it(condition, only):
    ids = ["aa", "bb", "cc"]
    stored = pa.table({"topic_id": ids, "seed_id": ["s1", "s2", '((topic_id == "aa"))'], "query": ids})
    seen = []
    rows = StoredRows(lambda topic: seen.append(topic) or ds.dataset(stored), stored.schema)
    with duckdb.connect() as connection:
        connection.from_arrow(rows).create_view("topics")
        connection.from_arrow(stored).create_view("stored")
        found, wanted = (
            connection.sql(f"SELECT topic_id FROM {table} WHERE {condition}").fetchall()
            for table in ("topics", "stored")
        )
    assert found == wanted
    assert set(seen) <= {only, None}


def test_the_id_of_one_topic_and_the_columns_are_read_from_the_words_of_a_filter():
    wanted = (pc.field("topic_id") == "0a1b") & (pc.field("seed_id") == "s")
    assert (one_topic(wanted), one_topic(None)) == ("0a1b", None)
    assert (may_name(wanted, ["seed_id"]), may_name(wanted, ["query"]), may_name(None, ["query"])) == (
        True,
        False,
        False,
    )
