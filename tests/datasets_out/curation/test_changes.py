"""Runs made of other runs: nothing is lost, nothing is changed in place, and every topic is followed to its origin."""

import json
from dataclasses import replace

import pytest

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import load_snapshot
from foil.datasets_out.curation.choosing import Choice, filter_run
from foil.datasets_out.sql.query import run_sql
from foil.datasets_out.training.sources import TopicSource
from foil.datasets_out.training.training_view import SplitSettings, TrainingView
from foil.engine.errors import DifferentJobError
from foil.engine.topic import Call
from tests.support.commands import foil
from tests.support.small_parts import topics
from tests.support.trainer_world import commit, topic


@pytest.fixture
def out(tmp_path):
    """Thirty topics of two corpora and three recipes; one rejected, one failed, one that was paid for."""
    made = [
        replace(topic(n), corpus="big" if n % 3 else "small", recipe=f"r{n % 5 // 2}", licence="CC0-1.0")
        for n in range(30)
    ]
    made[3] = replace(made[3], status="rejected", reason="leak")
    made[4] = replace(made[4], status="failed", reason="unreadable_reply")
    made[9] = replace(made[9], calls=(Call("r1", "task", "m", "t@1", 7, 3, 0.5, "stop", "{}"),))
    return commit(tmp_path / "out", made)


def statuses(out):
    return {each.id: (each.status, each.reason) for each in topics(out)}


def told(capsys, *words, code=0):
    assert run_command(app, [*map(str, words), "--json"]) == code
    return json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.slow
def test_a_filter_rejects_what_does_not_hold_and_loses_nothing(out, tmp_path, capsys):
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    result = told(capsys, "filter", out, tmp_path / "new", "--where", "corpus = 'small'")
    assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    old, new = statuses(out), statuses(tmp_path / "new")
    small = {row["topic_id"] for row in run_sql(out, "FROM topics WHERE corpus = 'small'").to_pylist()}
    assert new.keys() == old.keys()
    for name, outcome in new.items():
        stays = old[name][0] != "accepted" or name in small
        assert outcome == (old[name] if stays else ("rejected", "filtered"))
    assert result["topics"] == {"accepted": 9, "rejected": 20, "failed": 1}
    assert result["changed"] == {"filtered": 19}
    (row,) = run_sql(
        tmp_path / "new", "SELECT validator, evidence FROM rejects WHERE reason = 'filtered' LIMIT 1"
    ).to_pylist()
    assert row == {"validator": "filter", "evidence": "not corpus = 'small'"}
    assert foil("verify", tmp_path / "new").returncode == 0
    status = json.loads(foil("status", tmp_path / "new", "--json").stdout)
    assert (status["complete"], status["cost_usd"], status["accepted"]) == (True, 0, 9)


@pytest.mark.slow
def test_a_balance_keeps_as_many_of_each_value(out, tmp_path, capsys):
    counts = "SELECT corpus, count(*) AS n FROM topics WHERE status = 'accepted' GROUP BY ALL ORDER BY ALL"
    told(capsys, "filter", out, tmp_path / "even", "--balance", "corpus")
    assert [row["n"] for row in run_sql(tmp_path / "even", counts).to_pylist()] == [9, 9]
    told(capsys, "filter", out, tmp_path / "few", "--balance", "corpus", "--at-most", "4")
    assert [row["n"] for row in run_sql(tmp_path / "few", counts).to_pylist()] == [4, 4]
    kept, more = ({name for name, (status, _) in statuses(tmp_path / each).items() if status == "accepted"}
                  for each in ("few", "even"))  # fmt: skip
    assert kept < more
    told(capsys, "filter", out, tmp_path / "both", "--where", "recipe <> 'r2'", "--balance", "recipe || corpus")
    rows = run_sql(
        tmp_path / "both", "SELECT count(*) AS n FROM topics WHERE status = 'accepted' GROUP BY recipe, corpus"
    )
    assert len(set(rows["n"].to_pylist())) == 1
    assert run_command(app, ["filter", str(out), str(tmp_path / "none"), "--balance", "attributes['no']"]) == 2
    assert "nothing to balance" in " ".join(capsys.readouterr().err.split())


def test_topics_are_held_out_by_a_column(out, tmp_path, capsys):
    told(capsys, "filter", out, tmp_path / "new", "--heldout", "corpus = 'small'")
    view = TrainingView(
        [TopicSource(load_snapshot(tmp_path / "new", None))], SplitSettings(heldout_share=0, dev_share=0)
    )
    small = {
        row["topic_id"]
        for row in run_sql(out, "FROM topics WHERE corpus = 'small' AND status = 'accepted'").to_pylist()
    }
    assert {group.topic_id for group in view.read_all("heldout")} == small
    assert not small & {group.topic_id for group in view.read_all("train")}


@pytest.mark.slow
@pytest.mark.parametrize("attack", [
    "true) ; COPY topics TO '{x}' ; SELECT (true", "true) IS TRUE FROM topics; ATTACH '{x}' --",
    "EXISTS (SELECT 1 FROM read_csv('/etc/passwd'))", "no_such_column", "true -- and",
    "true) UNION SELECT topic_id FROM (SELECT (true",
])  # fmt: skip
def test_a_condition_reads_and_does_nothing_else(out, tmp_path, attack, capsys):
    code = run_command(
        app, ["filter", str(out), str(tmp_path / "new"), "--where", attack.format(x=tmp_path / "stolen")]
    )
    assert code == (0 if attack == "true -- and" else 2), capsys.readouterr().err
    assert not (tmp_path / "stolen").exists()


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--where", "--balance", "--heldout"])
@pytest.mark.parametrize(
    "many", ["unnest([true, false])", "unnest([true])) IS TRUE OR (unnest([1, 2]) > 0", "unnest([])"]
)
def test_an_expression_with_many_values_a_topic_is_refused(out, tmp_path, option, many, capsys):
    assert run_command(app, ["filter", str(out), str(tmp_path / "less"), option, many]) == 2
    assert "one value for each topic" in capsys.readouterr().err
    assert not (tmp_path / "less").exists()


def test_the_same_change_gives_the_same_bytes_and_goes_on_after_a_stop(out, tmp_path, monkeypatch):
    choice = Choice(where="corpus = 'small'")
    whole = filter_run(load_snapshot(out, None), tmp_path / "whole", choice)
    commit_partition = CommitLog.commit

    def stop_at_two(log, index, *arguments):
        if index == 2:
            raise KeyboardInterrupt
        return commit_partition(log, index, *arguments)

    with monkeypatch.context() as stopping:
        stopping.setattr(CommitLog, "commit", stop_at_two)
        with pytest.raises(KeyboardInterrupt):
            filter_run(load_snapshot(out, None), tmp_path / "stopped", choice)
    again = filter_run(load_snapshot(out, None), tmp_path / "stopped", choice)
    assert (again.snapshot.digest, again.changed) == (whole.snapshot.digest, whole.changed)
    with pytest.raises(DifferentJobError):
        filter_run(load_snapshot(out, None), tmp_path / "whole", Choice(where="corpus = 'big'"))


@pytest.mark.slow
def test_dropped_topics_stay_with_the_reason(out, tmp_path, capsys):
    (tmp_path / "ids").write_text("topic-011\ntopic-012\n")
    words = ["drop", out, tmp_path / "new", "topic-010", "--ids", tmp_path / "ids", "--reason", "wrong label"]
    assert told(capsys, *words)["changed"] == {"wrong label": 3}
    assert {name for name, found in statuses(tmp_path / "new").items() if found == ("rejected", "wrong label")} == {
        "topic-010", "topic-011", "topic-012",
    }  # fmt: skip
    (row,) = run_sql(tmp_path / "new", "SELECT validator FROM rejects WHERE topic_id = 'topic-010'").to_pylist()
    assert row["validator"] == "curator"
    for wrong in (["topic-01"], ["no-such"], []):
        assert run_command(app, ["drop", str(out), str(tmp_path / "other"), *wrong, "--reason", "x"]) == 2
    assert run_command(app, ["drop", str(out), str(tmp_path / "other"), "topic-010"]) == 2
    assert run_command(app, ["drop", str(out), str(out), "topic-010", "--reason", "x"]) == 2


def test_a_topic_is_followed_into_the_run_that_made_it(out, tmp_path, capsys):
    told(capsys, "filter", out, tmp_path / "one", "--where", "corpus = 'small'")
    told(capsys, "drop", tmp_path / "one", tmp_path / "two", "topic-012", "--reason", "bad")
    commit(tmp_path / "more", [topic(number) for number in range(30, 40)])
    told(capsys, "merge", tmp_path / "two", tmp_path / "more", tmp_path / "all")
    assert run_command(app, ["why", str(tmp_path / "all"), "topic-012"]) == 0
    text = capsys.readouterr().out
    order = [text.index(f"in {tmp_path / name}") for name in ("two", "one", "out")]
    assert order == sorted(order)
    assert "wrong" not in text
    assert f"in {tmp_path / 'more'}" not in text
    (tmp_path / "one").rename(tmp_path / "moved")
    assert run_command(app, ["why", str(tmp_path / "all"), "topic-012"]) == 0
    assert "does not read here" in capsys.readouterr().out


def test_near_duplicates_of_another_run_are_left_out_and_counted(tmp_path, capsys):
    first = [topic(number) for number in range(12)]
    second = [replace(topic(number), id=f"again-{number:03d}", seed_id=f"again-{number}") for number in range(6)]
    words = "the {} of {} was built of stone by many hands over a long and hard time and stands there to this day"
    second += [
        replace(topic(number, text=words.format(number, number)), id=f"new-{number}") for number in range(20, 24)
    ]
    twins = [replace(second[-1], id="twin-1"), replace(second[-1], id="twin-2")]  # alike within one run: kept
    runs = [commit(tmp_path / "a", first), commit(tmp_path / "b", [*second, *twins])]
    plain = told(capsys, "merge", *runs, tmp_path / "plain")
    assert (plain["topics"], plain["left_out"]) == (24, {})
    merged = told(capsys, "merge", *runs, tmp_path / "merged", "--near-duplicates", "0.8")
    assert merged["left_out"] == {"duplicate": 6}
    assert {each.id for each in topics(tmp_path / "merged")} >= {"twin-1", "twin-2"}
    close = [replace(topic(0, text=words.format(20, 20) + " still"), id="close", query=second[6].query)]
    third = commit(
        tmp_path / "c", [replace(each, intents=(replace(each.intents[0], query=each.query),)) for each in close]
    )
    nearly = told(capsys, "merge", runs[1], third, tmp_path / "near", "--near-duplicates", "0.6")
    assert nearly["left_out"] == {"near_duplicate": 1}
    counts = [entry.facts["left_out"] for entry in CommitLog(tmp_path / "merged").entries()]
    assert sum(count.get("duplicate", 0) for count in counts) == 6
    assert told(capsys, "merge", *runs, tmp_path / "merged", "--near-duplicates", "0.8") == merged
    assert run_command(app, ["merge", *map(str, runs), str(tmp_path / "plain"), "--near-duplicates", "0.8"]) == 2


def test_snapshots_are_taken_listed_and_compared(out, capsys):
    assert run_command(app, ["snapshot", str(out), "first"]) == 0
    digest = json.loads(capsys.readouterr().out)["digest"]
    log = CommitLog(out)
    log.commit(7, [replace(topic(50), status="rejected", reason="leak"), topic(51)], {})
    assert run_command(app, ["snapshot", "create", str(out), "second"]) == 0
    capsys.readouterr()
    listed = told(capsys, "snapshot", "list", out)
    assert [(each["name"], each["topics"]) for each in listed] == [("", 32), ("first", 30), ("second", 32)]
    assert listed[1]["digest"] == digest
    for names in (["first", "second"], ["first"]):
        found = told(capsys, "snapshot", "diff", out, *names)
        assert found["rows"]["topics"] == [30, 32]
        assert found["outcomes"] == {"accepted": [0, 1], "rejected leak": [0, 1]}
        assert (found["only_first"], len(found["only_second"])) == ([], 1)
    assert run_command(app, ["snapshot", "diff", str(out), "first"]) == 0
    assert "+2" in capsys.readouterr().out
    for wrong in (["list"], ["create", str(out)], ["diff", str(out)], ["diff", str(out), "none"]):
        assert run_command(app, ["snapshot", *wrong]) == 2
