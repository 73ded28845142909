"""The comparison of two runs: each kind of difference is found, nothing else, whatever the partitions."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import load_snapshot, read_accepted, take_snapshot
from foil.datasets_out.commits.stored_rows import TablePart, read_columns
from foil.datasets_out.diff.run_diff import CHANGES, DIFFERENCES, KINDS, RunDiff, diff_runs
from foil.engine.errors import CorruptDataError
from foil.engine.topic import Intent, Judgment, Topic, intent_id
from tests.support.fuzzing import fuzzed
from tests.support.sample_run import PLOT, accepted, make, rejected


def run_of(out: Path, *partitions: Sequence[Topic]) -> Path:
    log = CommitLog(out)
    log.open("f", {})
    for number, topics in enumerate(partitions):
        log.commit(number, topics, {})
    return out


def with_instruction(topic: Topic, text: str) -> Topic:
    """The topic with another instruction in the place of its second, judged as it was."""
    old = topic.intents[1]
    new = Intent(intent_id(topic.id, text, old.query), old.role, text, old.query)
    judgments = tuple(replace(j, intent_id=new.id) if j.intent_id == old.id else j for j in topic.judgments)
    return replace(topic, intents=(topic.intents[0], new), judgments=judgments)


def found(diff: RunDiff) -> dict[tuple[str, str], int]:
    return {(kind, how): n for kind, changes in diff.counts.items() for how, n in changes.items() if n}


def test_a_run_is_as_itself_whatever_its_partitions_and_the_order_in_it(tmp_path):
    topics = [accepted(name) for name in ("list", "dict", "set")] + [rejected("tuple", "leak")]
    a = run_of(tmp_path / "a", topics[:2], topics[2:])
    turned = [replace(t, judgments=t.judgments[::-1], intents=t.intents[::-1]) for t in topics[::-1]]
    b = run_of(tmp_path / "b", turned[:1], turned[1:])
    diff = diff_runs(a, b)
    assert found(diff) == {}
    assert diff.topics == {"a": 4, "b": 4, "both": 4, "alike": 4}
    assert diff.rows.schema == DIFFERENCES


def test_each_difference_is_found(tmp_path):
    judged = accepted("dict")
    first, *others = judged.judgments
    more = Judgment(judged.intents[1].id, PLOT.id, -1, "rule")
    a = run_of(tmp_path / "a", [accepted("list"), judged], [accepted("gone"), rejected("tuple", "leak"), accepted("x")])
    b = run_of(
        tmp_path / "b",
        [rejected("tuple", "no_negative"), replace(judged, judgments=(replace(first, relevance=-1), *others, more))],
        [accepted("new"), with_instruction(accepted("list"), "Give a month."), accepted("x")],
    )
    diff = diff_runs(a, b)
    assert found(diff) == {
        ("seed", "only_in_a"): 1, ("seed", "only_in_b"): 1, ("topic", "only_in_a"): 1, ("topic", "only_in_b"): 1,
        ("outcome", "changed"): 1, ("instruction", "changed"): 1, ("judgment", "changed"): 1,
        ("judgment", "only_in_a"): 2, ("judgment", "only_in_b"): 3,
    }  # fmt: skip
    assert diff.topics == {"a": 5, "b": 5, "both": 4, "alike": 1}
    assert diff.reasons() == [("rejected: leak", "rejected: no_negative", 1)]
    (instruction,) = diff.examples("instruction", "changed", 9)
    assert (instruction["before"], instruction["after"]) == (
        "Give a year. [how does list sort?]",
        "Give a month. [how does list sort?]",
    )
    (judgment,) = diff.examples("judgment", "changed", 9)
    assert (judgment["before"], judgment["after"], judgment["topic_id"]) == ("+1 by seed", "-1 by seed", judged.id)


def test_a_seed_whose_topic_another_recipe_made_is_in_both(tmp_path):
    a = run_of(tmp_path / "a", [accepted("list")])
    b = run_of(tmp_path / "b", [replace(accepted("list"), id="0" * 24, recipe="infir")])
    assert found(diff_runs(a, b)) == {("topic", "only_in_a"): 1, ("topic", "only_in_b"): 1}


def test_empty_runs_compare(tmp_path):
    a, b = run_of(tmp_path / "a"), run_of(tmp_path / "b", [accepted("list")])
    assert found(diff_runs(a, a)) == {}
    assert found(diff_runs(a, b)) == {("seed", "only_in_b"): 1, ("topic", "only_in_b"): 1}


EDITS = st.sampled_from(["same", "instruction", "label", "judge", "outcome", "gone"])


@fuzzed(15)
@given(st.lists(EDITS, min_size=1, max_size=8), st.integers(1, 8))
def test_as_many_differences_are_found_as_were_made(tmp_path_factory, edits, size):
    folder = tmp_path_factory.mktemp("edits")
    topics = [accepted(f"seed {n}") for n in range(len(edits))]

    def edited(topic: Topic, edit: str) -> list[Topic]:
        first, *others = topic.judgments
        return {
            "same": [topic],
            "instruction": [with_instruction(topic, "Another.")],
            "label": [replace(topic, judgments=(replace(first, relevance=-first.relevance), *others))],
            "judge": [replace(topic, judgments=(replace(first, judge="judge:x"), *others))],
            "outcome": [replace(topic, status="failed", reason="r")],
            "gone": [],
        }[edit]

    others = [new for topic, edit in zip(topics, edits, strict=True) for new in edited(topic, edit)]
    a = run_of(folder / "a", topics)
    b = run_of(folder / "b", *(others[start : start + size] for start in range(0, len(others), size)))
    diff = diff_runs(a, b)
    assert diff.topics["alike"] == edits.count("same")
    assert diff.counts["topic"]["only_in_a"] == edits.count("gone")
    assert diff.counts["outcome"]["changed"] == edits.count("outcome")
    assert diff.counts["instruction"]["changed"] == edits.count("instruction")
    assert diff.counts["judgment"]["changed"] == edits.count("label") + edits.count("judge")


def test_equal_files_are_not_opened_and_other_partitions_are(tmp_path, monkeypatch):
    topics = [accepted(name) for name in ("list", "dict", "set")]
    a = run_of(tmp_path / "a", topics[:2], topics[2:])
    b = run_of(tmp_path / "b", topics[:2], [replace(topics[2], status="rejected", reason="leak")])
    opened = []

    def read(part: TablePart, *columns: Sequence[str]) -> pa.Table:
        opened.append(part.file.path)
        return read_columns(part, *columns)

    monkeypatch.setattr("foil.datasets_out.diff.differing_topics.read_columns", read)
    diff = diff_runs(a, b)
    assert set(opened) == {"data/topics/part-00000001.parquet"}
    assert found(diff) == {("outcome", "changed"): 1}
    assert diff.topics == {"a": 3, "b": 3, "both": 3, "alike": 2}


def test_texts_are_read_of_examples_alone(tmp_path, monkeypatch):
    topics = [accepted(name) for name in ("list", "dict", "set")]
    a = run_of(tmp_path / "a", *([topic] for topic in topics))
    b = run_of(tmp_path / "b", *([with_instruction(topic, "Give a month.")] for topic in topics))
    diff = diff_runs(a, b)
    opened = []

    def read(part: TablePart, *columns: Sequence[str]) -> pa.Table:
        opened.append(part.file.path)
        return read_columns(part, *columns)

    monkeypatch.setattr("foil.datasets_out.diff.run_diff.read_columns", read)
    (example,) = diff.examples("instruction", "changed", 1)
    assert example["before"].startswith("Give a year. [how does ")
    assert len(opened) == 2
    changed = [row for row in diff.rows.to_pylist() if row["kind"] == "instruction"]
    assert [row["after"].partition(" [")[0] for row in changed] == ["Give a month."] * 3
    assert {row["intent_id"] for row in changed} <= {intent for topic in read_topic_ids(b) for intent in topic}


def read_topic_ids(out: Path) -> list[list[str]]:
    """The intents' ids of each topic."""
    return [[intent.id for intent in topic.intents] for topic in read_accepted(load_snapshot(out, None))]


def test_a_damaged_file_is_named(tmp_path):
    a, b = make(tmp_path / "a"), make(tmp_path / "b")
    log = CommitLog(a)
    log.commit(len(log.partitions()), [accepted("another")], {})
    shard = a / f"data/judgments/part-{len(log.partitions()) - 1:08d}.parquet"
    raw = bytearray(shard.read_bytes())
    raw[40] ^= 1
    shard.write_bytes(raw)
    with pytest.raises(CorruptDataError, match=shard.stem):
        diff_runs(a, b)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("two")
    a = run_of(folder / "a", [accepted("list"), rejected("tuple", "leak"), accepted("gone")])
    b = run_of(folder / "b", [with_instruction(accepted("list"), "Give a month."), rejected("tuple", "\x1b[2J")])
    return a, b


def test_the_command_prints_counts_reasons_and_examples(two, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run_command(app, ["diff", *map(str, two)]) == 0
    shown = capsys.readouterr().out
    assert "2 topics are in both, and 0 of them are the same" in shown
    assert "Give a [-year-]{+month+}. [how does list sort?]" in shown
    assert r"rejected: leak -> rejected: \x1b[2J" in shown
    assert max(map(len, shown.splitlines())) <= 80 + max(0, len(str(two[0])) - 60)


def test_rows_leave_as_json_and_as_parquet(two, capsys, tmp_path):
    file = tmp_path / "rows.parquet"
    assert run_command(app, ["diff", *map(str, two), "--json", "--examples", "1", "--parquet", str(file)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document["counts"]) == set(KINDS)
    assert document["counts"]["topic"] == dict(zip(CHANGES, (1, 0, 0), strict=True))
    assert pq.read_table(file).num_rows == sum(n for changes in document["counts"].values() for n in changes.values())
    assert run_command(app, ["diff", *map(str, two), "--parquet", str(file)]) == 2


def test_snapshots_are_compared(tmp_path, capsys):
    out = run_of(tmp_path / "a", [accepted("list")])
    take_snapshot(out, "early")
    CommitLog(out).commit(1, [accepted("dict")], {})
    take_snapshot(out, "late")
    both = ["diff", str(out), str(out)]
    assert run_command(app, [*both, "--snapshot-a", "early", "--snapshot-b", "late", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["topics"] == {"a": 1, "b": 2, "both": 1, "alike": 1}
    assert run_command(app, [*both, "--snapshot-b", "early"]) == 0
    assert f"Bis{out}#early" in "".join(capsys.readouterr().out.split())
    assert run_command(app, [*both, "--snapshot-a", "none"]) == 2
