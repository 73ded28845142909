"""`foil relabel`: a training set of others through a judge, and out again without its false negatives."""

import csv
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from foil.cluster.releases.relabelled import fates_of
from foil.cluster.seeds.training_set import TrainingSetReader, TrainingSetSettings
from foil.datasets_out.release.row_files import read_rows_of
from foil.datasets_out.training.judge_scores import log_odds
from foil.engine.flow.journal_reading import possibly_paid_twice
from foil.engine.seeds.files.rows import read_rows
from foil.engine.storage.opening import open_store
from foil.prompts.recipes.stored import unpack_topics
from tests.support.commands import calls_sent, foil
from tests.support.models.character import Character
from tests.support.models.fault_server import Behaviour, serving
from tests.support.small_parts import digest
from tests.support.topics.trades import trade_rows

JOB = """\
models: {{writer: {{kind: hosted, model: in-character, url: "{url}"}}}}
validators: [{{kind: judge_demands, canaries: {{share: 0}}}}]
"""
ROWS = trade_rows()[:12]
QUERIES = [row["query"] for row in ROWS]
GOOD = [row["positives"][0]["text"] for row in ROWS]
FALSE = [row["positives"][1]["text"] for row in ROWS]
"""Answers too, which every set has among its negatives."""
BAD = [[negative["text"] for negative in row["negatives"]] for row in ROWS]


def negatives(i):
    """Two, or three with a false one in every third row."""
    return [BAD[i][0], FALSE[i], BAD[i][1]] if i % 3 == 0 else BAD[i]


def flag_rows():
    return [{"query": query, "pos": [GOOD[i]], "neg": negatives(i), "weight": i / 4} for i, query in enumerate(QUERIES)]


def tevatron_rows():
    def passages(texts):
        return [{"docid": text[:9], "title": "", "text": text} for text in texts]

    return [
        {"query_id": str(i), "query": query, "positive_passages": passages([GOOD[i]]),
         "negative_passages": passages(negatives(i))}
        for i, query in enumerate(QUERIES)
    ]  # fmt: skip


def triplets():
    return [
        {"anchor": query, "positive": GOOD[i], "negative": text}
        for i, query in enumerate(QUERIES)
        for text in negatives(i)
    ]


def write(path, rows):
    """A file in the form that its name says."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with path.open("w", newline="") as file:
            form = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if path.suffix == ".tsv" else {}
            writer = csv.DictWriter(file, rows[0], lineterminator="\n", **form)
            writer.writeheader()
            writer.writerows(rows)
    return path


def read(path):
    if path.suffix != ".csv":
        return list(read_rows_of(path))
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def fates(into):
    return list(read_rows_of(into / "passages.jsonl"))


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(answer=Character()) as server:
        job = tmp_path_factory.mktemp("job") / "job.yaml"
        job.write_text(JOB.format(url=server.url))
        yield server, job


def relabel(served, path, into, *more):
    ended = foil("relabel", path, into, "--job", served[1], *more)
    assert ended.returncode == 0, ended.stderr
    return ended


def test_lists_lose_their_false_negatives_and_nothing_else(served, tmp_path):
    rows = flag_rows()
    ended = relabel(served, write(tmp_path / "set.jsonl", rows), tmp_path / "into", "--json")
    after = read(tmp_path / "into" / "set" / "set.jsonl")
    assert after == [{**row, "neg": BAD[i]} for i, row in enumerate(rows)]
    assert json.loads(ended.stdout.splitlines()[-1])["passages"] == {"kept": 36, "dropped": 4}
    dropped = [fate for fate in fates(tmp_path / "into") if fate["done"] == "dropped"]
    assert [(fate["line"], fate["column"], fate["place"]) for fate in dropped] == [(n, "neg", 1) for n in (1, 4, 7, 10)]
    assert all(fate["probability"] >= 0.5 and fate["reason"] == "negative_is_relevant" for fate in dropped)
    why = foil("why", tmp_path / "into" / "run", dropped[0]["topic"])
    assert "negative_is_relevant" in why.stdout
    assert foil("verify", tmp_path / "into" / "run").returncode == 0


def test_records_of_parquet_are_turned_and_its_columns_stay(served, tmp_path):
    path = write(tmp_path / "set.parquet", tevatron_rows())
    relabel(served, path, tmp_path / "into", "--false-negatives", "turn")
    after = tmp_path / "into" / "set" / "set.parquet"
    assert pq.read_schema(after).names == pq.read_schema(path).names
    for i, row in enumerate(read(after)):
        assert [each["text"] for each in row["positive_passages"]] == [GOOD[i], *([FALSE[i]] if i % 3 == 0 else [])]
        assert [each["text"] for each in row["negative_passages"]] == BAD[i]


@pytest.mark.parametrize("ending", [".tsv", ".csv"])
def test_triplets_of_one_query_are_judged_once_and_a_turned_one_makes_rows(served, tmp_path, ending):
    path, before = write(tmp_path / f"set{ending}", triplets()), calls_sent(served[0])
    relabel(served, path, tmp_path / "into", "--false-negatives", "turn")
    assert calls_sent(served[0]) - before == 12 * 3 + 4
    after = read(tmp_path / "into" / "set" / path.name)
    first = [(row["positive"], row["negative"]) for row in after if row["anchor"] == QUERIES[0]]
    kept = [(GOOD[0], text) for text in (BAD[0][0], BAD[0][0], BAD[0][1])]
    assert first == [*kept[:2], (FALSE[0], BAD[0][0]), kept[2]]


def test_a_row_of_fixed_columns_repeats_a_negative_in_place_of_a_lost_one(served, tmp_path):
    rows = [{"q": QUERIES[0], "yes": GOOD[0], "no_1": FALSE[0], "no_2": BAD[0][0], "no_3": BAD[0][1]},
            {"q": QUERIES[1], "yes": GOOD[1], "no_1": FALSE[1], "no_2": "", "no_3": ""},
            {"q": "", "yes": GOOD[1], "no_1": BAD[1][0], "no_2": "", "no_3": ""}]  # fmt: skip
    columns = "{query: q, positives: [yes], negatives: [no_1, no_2, no_3]}"
    ended = relabel(served, write(tmp_path / "set.csv", rows), tmp_path / "into", "--columns", columns)
    assert read(tmp_path / "into" / "set" / "set.csv") == [{**rows[0], "no_1": BAD[0][0]}]
    assert "1 bad records were skipped" in ended.stdout
    assert [fate["reason"] for fate in fates(tmp_path / "into")][-2:] == ["no_negative_left", "negative_is_relevant"]


def test_a_doubtful_positive_is_marked_or_takes_its_row_along(served, tmp_path):
    rows = [{"query": QUERIES[0], "pos": [BAD[1][0]], "neg": BAD[0]}, *flag_rows()[1:3]]
    path = write(tmp_path / "set.jsonl", rows)
    relabel(served, path, tmp_path / "marked")
    assert read(tmp_path / "marked" / "set" / "set.jsonl") == rows
    assert fates(tmp_path / "marked")[0]["done"] == "marked"
    relabel(served, path, tmp_path / "dropped", "--positives", "drop", "--reuse", tmp_path / "marked" / "run")
    assert read(tmp_path / "dropped" / "set" / "set.jsonl") == rows[1:]
    assert [fate["done"] for fate in fates(tmp_path / "dropped")][:3] == ["dropped", "left_out", "left_out"]


def test_other_layouts_are_those_of_the_export(served, tmp_path):
    path, before = write(tmp_path / "set.jsonl", flag_rows()), calls_sent(served[0])
    into = tmp_path / "into"
    relabel(served, path, into, "--format", "tevatron")
    paid = calls_sent(served[0]) - before
    [first, *_] = read(into / "set" / "train.jsonl")
    assert [each["text"] for each in first["negative_passages"]] == BAD[0]
    relabel(served, path, into, "--format", "sentence-transformers")
    table, scored = (
        pa.concat_tables(map(pq.read_table, sorted((into / "set" / name).glob("*.parquet"))))
        for name in ("triplets", "scored-triplets")
    )
    assert scored.drop_columns(["scores"]).equals(table)
    assert len(table) == 24
    odds = log_odds([fate["probability"] for fate in fates(into) if fate["done"] == "kept"]).round(4).tolist()
    assert {score for pair in scored["scores"].to_pylist() for score in pair} == set(odds)
    pairs = zip(table["anchor"].to_pylist(), table["negative"].to_pylist(), strict=True)
    assert not {(anchor.split("\n")[-1], text) for anchor, text in pairs} & set(zip(QUERIES, FALSE, strict=True))
    relabel(served, path, into, "--format", "flagembedding")
    again = write(tmp_path / "again.jsonl", read(into / "set" / "train.jsonl"))
    assert calls_sent(served[0]) - before == paid, "the run was finished"
    relabel(served, again, tmp_path / "second")
    assert {fate["done"] for fate in fates(tmp_path / "second")} == {"kept"}


@pytest.mark.parametrize("point", ["ask.answered:7", "flow.committed:1"])
def test_kill_9_pays_nothing_twice_and_resumes_to_equal_bytes(tmp_path, point):
    path, more = write(tmp_path / "set.jsonl", flag_rows()), ("--set", "limits.partition_seeds=4")
    with serving(answer=Character()) as server:
        job = tmp_path / "job.yaml"
        job.write_text(JOB.format(url=server.url))
        killed = foil("relabel", path, tmp_path / "into", "--job", job, *more, env={"FOIL_CRASH_POINT": point})
        assert killed.returncode == -9
        relabel((server, job), path, tmp_path / "into", *more)
        sent = calls_sent(server)
        relabel((server, job), path, tmp_path / "whole", *more)
        assert sent - (calls_sent(server) - sent) <= possibly_paid_twice(open_store(tmp_path / "into" / "run"))
    assert digest(tmp_path / "into" / "run") == digest(tmp_path / "whole" / "run")
    for name in ("passages.jsonl", "set/set.jsonl"):
        assert (tmp_path / "into" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


class Fond(Character):
    """Says true of nearly everything, with these probabilities by the number of the passage."""

    sure_of = (0.8, 0.75, 0.9, 0.3)

    def __call__(self, request, choice):
        number = int(re.search(r"passage number (\d)", request["messages"][-1]["content"])[1])
        true = self.sure_of[number]
        return "true", "stop", {"true": true, "false": 1 - true}


def test_a_negative_is_false_where_it_is_no_less_relevant_than_the_positive(tmp_path):
    texts = [f"passage number {number}" for number in range(4)]
    path = write(tmp_path / "set.jsonl", [{"query": "a query", "pos": texts[:1], "neg": texts[1:]}])
    with serving(answer=Fond()) as server:
        job = tmp_path / "job.yaml"
        job.write_text(JOB.format(url=server.url))
        relabel((server, job), path, tmp_path / "into")
        relabel((server, job), path, tmp_path / "absolute", "--absolute", "--reuse", tmp_path / "into" / "run")
        assert calls_sent(server) == 4
    assert [(fate["probability"], fate["done"]) for fate in fates(tmp_path / "into")] == [
        (0.8, "kept"), (0.75, "kept"), (0.9, "dropped"), (0.3, "kept"),
    ]  # fmt: skip
    assert [fate["done"] for fate in fates(tmp_path / "absolute")] == ["kept", "dropped", "dropped", "kept"]


def test_wrong_use_is_refused_before_anything_is_paid(served, tmp_path):
    path = write(tmp_path / "set.jsonl", [{"question": "q", "answer": "a"}])
    for name in ("e/set", "f/run", "g"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("e/set/mine.txt", "f/run/mine.txt", "g/passages.jsonl"):
        (tmp_path / name).write_text('{"query": "q", "pos": ["a"], "neg": ["b"]}\n')
    (tmp_path / "h").symlink_to(tmp_path / "g")
    for arguments, words in (
        ((path, tmp_path / "a"), "name who judges"),
        ((path, tmp_path / "b", "--job", served[1], "--set", "validators=[{kind: shape}]"), "needs one"),
        ((path, tmp_path / "c", "--job", served[1], "--threshold", "0.1"), "must hold"),
        ((path, tmp_path / "d", "--job", served[1]), "no seeds in"),
        ((path, tmp_path / "e", "--job", served[1]), "give another INTO"),
        ((path, tmp_path / "f", "--job", served[1]), "give another INTO"),
        ((path, tmp_path / "g", "--job", served[1]), "give another INTO"),
        ((tmp_path / "g" / "passages.jsonl", tmp_path / "g", "--job", served[1]), "lies where `foil relabel` writes"),
        ((tmp_path / "g" / "passages.jsonl", tmp_path / "h", "--job", served[1]), "lies where `foil relabel` writes"),
        ((tmp_path / "e" / "set", tmp_path / "e", "--job", served[1]), "lies where `foil relabel` writes"),
        ((tmp_path, tmp_path / "e" / "into", "--job", served[1]), "outside of it"),
    ):
        before = {each: each.is_file() and each.read_bytes() for each in tmp_path.rglob("*")}
        ended = foil("relabel", *arguments)
        assert ended.returncode in (1, 2)
        assert words in ended.stderr
        assert {each: each.is_file() and each.read_bytes() for each in before} == before


def test_a_set_that_changed_after_its_run_is_refused_and_the_last_one_stays(served, tmp_path):
    path, into = write(tmp_path / "set.jsonl", flag_rows()[:4]), tmp_path / "into"
    relabel(served, path, into)
    before = {name: (into / name).read_bytes() for name in ("passages.jsonl", "set/set.jsonl")}
    whole = flag_rows()[:4]
    for changed in (
        [whole[1], whole[0], *whole[2:]],
        [{**whole[0], "neg": [*whole[0]["neg"], "one more"]}, *whole[1:]],
        [{**whole[0], "neg": whole[0]["neg"][1:]}, *whole[1:]],
        [{**whole[0], "prompt": "an instruction"}, *whole[1:]],
        whole[:3],
    ):
        write(path, changed)
        ended = foil("relabel", path, into, "--job", served[1])
        assert ended.returncode == 2
        assert "is not the set that was judged" in ended.stderr
        assert {name: (into / name).read_bytes() for name in before} == before
    assert sorted(each.name for each in into.iterdir()) == [".relabel.lock", "passages.jsonl", "run", "set"]
    write(path, [*whole, flag_rows()[5]])
    ended = relabel(served, path, into)
    assert "WARNING: 1 rows are left out because the run has not their query" in ended.stderr
    assert {fate["reason"] for fate in fates(into) if fate["line"] == 5} == {"not_in_the_run"}
    assert read(into / "set" / "set.jsonl") == [{**row, "neg": BAD[i]} for i, row in enumerate(whole)]


def test_what_a_killed_writer_left_goes_and_other_layouts_leave_nothing(served, tmp_path):
    path, into = write(tmp_path / "set.jsonl", flag_rows()[:4]), tmp_path / "into"
    (into / ".relabelled.dead").mkdir(parents=True)
    relabel(served, path, into, "--format", "tevatron")
    assert sorted(each.name for each in into.iterdir()) == [".relabel.lock", "passages.jsonl", "run", "set"]


def test_rows_of_one_query_may_have_other_columns(served, tmp_path):
    rows = [{"anchor": QUERIES[0], "positive": GOOD[0], "negative": BAD[0][0]},
            {"anchor": QUERIES[0], "positive": GOOD[0], "negative_1": BAD[0][1], "negative_2": FALSE[0]}]  # fmt: skip
    before = calls_sent(served[0])
    relabel(served, write(tmp_path / "set.jsonl", rows), tmp_path / "into")
    assert calls_sent(served[0]) - before == 4
    after = read(tmp_path / "into" / "set" / "set.jsonl")
    assert after == [rows[0], {**rows[1], "negative_2": BAD[0][0]}]


def test_a_query_may_have_thousands_of_passages(tmp_path):
    texts = [f"passage number {number}" for number in range(10_050)]
    path = write(tmp_path / "set.jsonl", [{"query": "a query", "pos": texts[:1], "neg": texts[1:]}])
    [(seed, _)] = TrainingSetReader(TrainingSetSettings(path=path)).groups(read_rows(path, 1 << 24))
    [packed] = unpack_topics(seed)
    assert len(fates_of(packed, None)) == 10_050


def test_one_of_several_positives_is_dropped_and_the_row_stays(served, tmp_path):
    rows = [{"q": QUERIES[0], "yes_1": BAD[1][0], "yes_2": GOOD[0], "no": BAD[0][0]}]
    columns = "{query: q, positives: [yes_1, yes_2], negatives: [no]}"
    path = write(tmp_path / "set.csv", rows)
    relabel(served, path, tmp_path / "into", "--columns", columns, "--positives", "drop")
    assert read(tmp_path / "into" / "set" / "set.csv") == [{**rows[0], "yes_1": GOOD[0]}]


def test_a_turned_passage_takes_the_form_of_the_cell_that_it_joins(served, tmp_path):
    records = [{"title": "", "text": text} for text in (FALSE[0], BAD[0][0])]
    rows = [{"q": QUERIES[0], "yes": GOOD[0], "no": records},
            {"q": QUERIES[1], "yes": [{"docid": "7", "text": GOOD[1]}], "no": [FALSE[1], BAD[1][0]]}]  # fmt: skip
    columns, path = "{query: q, positives: [yes], negatives: [no]}", write(tmp_path / "set.jsonl", rows)
    relabel(served, path, tmp_path / "into", "--columns", columns, "--false-negatives", "turn")
    assert read(tmp_path / "into" / "set" / "set.jsonl") == [
        {**rows[0], "no": records[1:]}, {**rows[0], "yes": FALSE[0], "no": records[1:]},
        {**rows[1], "yes": [*rows[1]["yes"], {"docid": "", "text": FALSE[1]}], "no": BAD[1][:1]},
    ]  # fmt: skip


def test_labels_that_the_judge_did_not_answer_for_stand_and_are_counted(tmp_path):
    rows = [flag_rows()[0], {**flag_rows()[1], "query": QUERIES[1] + " very" * 4000}]
    with serving(Behaviour(longest_prompt=3000), Character()) as server:
        job = tmp_path / "job.yaml"
        job.write_text(JOB.format(url=server.url))
        ended = relabel((server, job), write(tmp_path / "set.jsonl", rows), tmp_path / "into")
    assert "WARNING: 3 labels stand unread" in ended.stderr
    second = [fate for fate in fates(tmp_path / "into") if fate["line"] == 2]
    assert {(fate["done"], fate["reason"], fate["probability"]) for fate in second} == {
        ("kept", "unreadable_judge", None)
    }
    assert read(tmp_path / "into" / "set" / "set.jsonl")[1] == rows[1]
