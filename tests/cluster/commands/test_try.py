"""`foil try`: the funnel of the first seeds is what is committed, and what was paid once is not paid again."""

import json
from pathlib import Path

import pytest

from tests.support.commands import calls_sent, foil, hosted_job
from tests.support.models.character import Character
from tests.support.models.fault_server import serving
from tests.support.small_parts import topics

SEEDS = 12


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    """A job over forty seeds, tried over twelve against a model that errs: twice as it was, then with a change."""
    folder = tmp_path_factory.mktemp("try")
    with serving(answer=Character(said=0.04, broken=0.04)) as server:
        job = hosted_job(folder, server.url, 40)
        first = foil("try", job, "--seeds", SEEDS, "--json")
        sent = calls_sent(server)
        again = foil("try", job, "--seeds", SEEDS, env={"COLUMNS": "80"})
        changed = foil("try", job, "--seeds", SEEDS, "--json", "--set", "validators=[{kind: shape}, {kind: leak}]")
        more = foil("try", job, "--seeds", SEEDS + 4, "--json")
        assert sent == calls_sent(server) - sum(not call.reused for t in topics_of(more) for call in t.calls)
    return folder, first, again, changed, more


def topics_of(ended):
    return topics(Path(json.loads(ended.stdout)["out"]))


def test_the_funnel_adds_up_to_what_is_committed(tried):
    _, first, _, _, _ = tried
    told, rows = json.loads(first.stdout), topics_of(first)
    assert told["seeds"] == len(rows) == SEEDS
    assert sum(told["topics"].values()) == SEEDS
    assert sum(reason["topics"] for reason in told["reasons"]) == SEEDS - told["topics"]["accepted"]
    calls = [call for row in rows for call in row.calls]
    for stage in told["stages"]:
        of_stage = [call for call in calls if call.task == stage["task"]]
        assert stage["sent"] == stage["valid"] + stage["corrected"] + stage["drawn"] + stage["given_up"]
        assert stage["sent"] == sum(not call.turn for call in of_stage)
        assert stage["calls"] == len(of_stage)
        assert sum(stage["faults"].values()) == sum(bool(call.fault) for call in of_stage)
    assert sum(stage["corrected"] for stage in told["stages"]) > 0
    assert told["tokens"] == sum(call.prompt_tokens + call.completion_tokens for call in calls) == told["paid_tokens"]
    assert told["usd"] == pytest.approx(sum(call.cost_usd for call in calls))
    tasks = [stage["task"] for stage in told["stages"]]
    assert tasks[0] == "writing.questions"
    assert tasks[-1] == "writing.passage"


def test_each_reason_has_an_example_with_its_prompt_and_reply(tried):
    _, first, _, _, _ = tried
    reasons = json.loads(first.stdout)["reasons"]
    assert reasons
    for reason in reasons:
        example = reason["example"]
        row = next(row for row in topics_of(first) if row.seed_id == example["seed"])
        assert (row.reason, row.query) == (reason["reason"], example["query"])
        assert any(example["query"] in turn["content"] for turn in example["prompt"])
        assert example["reply"] in {call.reply_text for call in row.calls if call.task == example["task"]}


def test_replies_are_reused_however_the_job_changed(tried):
    folder, first, _, changed, more = tried
    was, now, further = (json.loads(ended.stdout) for ended in (first, changed, more))
    assert len({was["out"], now["out"], further["out"]}) == 3
    assert {each["out"].rpartition("/")[0] for each in (was, now, further)} == {str(folder / "out.try")}
    assert (now["tokens"], now["paid_tokens"]) == (was["tokens"], 0)
    assert 0 < further["paid_tokens"] < further["tokens"]


def test_the_run_takes_over_what_was_tried(tmp_path):
    with serving(answer=Character()) as server:
        job = hosted_job(tmp_path, server.url, 6)
        tried = json.loads(foil("try", job, "--seeds", 4, "--json").stdout)
        before = calls_sent(server)
        assert foil("run", job, "--reuse", tried["out"]).returncode == 0
        rows = topics(tmp_path / "out")
        assert sum(call.reused for row in rows for call in row.calls) == before
        assert calls_sent(server) - before == sum(not call.reused for row in rows for call in row.calls)
        assert foil("verify", tried["out"]).returncode == 0


def test_a_terminal_of_eighty_columns_has_room_for_all_of_it(tried):
    _, first, again, _, _ = tried
    assert again.returncode in (0, 3), again.stderr
    told = json.loads(first.stdout)
    lines = again.stdout.splitlines()
    assert max(map(len, lines[1:])) <= 80  # the first is the folder
    for stage in told["stages"]:
        line = next(line for line in lines if line.startswith(stage["task"]))
        assert line.split()[1:7] == [
            str(stage[name]) for name in ("sent", "valid", "salvaged", "corrected", "drawn", "given_up")
        ]
    assert "5,000 accepted: about" in again.stdout


def test_the_changes_are_what_the_rows_say(tried):
    """By hand, from the rows: what a reason ended would go on as the others did that got past it."""
    _, first, _, _, _ = tried
    told, rows = json.loads(first.stdout), topics_of(first)
    order = [stage["task"] for stage in told["stages"]]
    assert len(told["changes"]) == min(2, len(told["reasons"]))
    for change in told["changes"]:
        place = order.index(change["after"])
        past = [r for r in rows if r.status == "accepted" or order.index(r.calls[-1].task) > place]
        accepted = sum(row.status == "accepted" for row in rows)
        later = [
            sum(call.prompt_tokens + call.completion_tokens for call in row.calls if order.index(call.task) > place)
            for row in past
        ]
        more = change["topics"] * (accepted / len(past) if past else 1)
        tokens = told["tokens"] + change["topics"] * (sum(later) / len(later) if later else 0)
        assert change["tokens_an_accepted_topic"][1] == pytest.approx(tokens / (accepted + more))
        assert change["measured"] is bool(past)
        assert change["change"]
