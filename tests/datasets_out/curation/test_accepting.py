"""Rejected topics that people or a condition accept: as a run of its own, with who, why, and why they were rejected."""

import json
from dataclasses import replace

import pytest

from foil.datasets_out.desk.topics import asker
from foil.datasets_out.desk.verdict import REJECTS_ALL
from foil.datasets_out.notes.notes import put_note
from foil.engine.topic import Verdict
from tests.support.commands import foil
from tests.support.small_parts import topics
from tests.support.topics.llm_runs import llm_run
from tests.support.trainer_world import commit, topic


@pytest.fixture
def out(tmp_path):
    """Twelve topics; 2 to 5 a judge rejected, of which 5 has no contrast left; 6 failed."""
    made = [topic(n) for n in range(12)]
    for n in (2, 3, 4, 5):
        verdict = Verdict("judge_scenarios", "topic", "reject", "other_passage_named", "the judge's evidence")
        made[n] = replace(made[n], status="rejected", reason=verdict.reason, detail="why", verdicts=(verdict,))
    made[5] = replace(made[5], judgments=tuple(j for j in made[5].judgments if j.relevance > 0))
    made[6] = replace(made[6], status="failed", reason="model_error")
    return commit(tmp_path / "out", made)


def by_id(out):
    return {row.id: row for row in topics(out)}


def accepted(out):
    return {name for name, row in by_id(out).items() if row.status == "accepted"}


def test_named_topics_are_accepted_with_who_and_why(out, tmp_path):
    into, ids = tmp_path / "into", tmp_path / "ids"
    ids.write_text("topic-003\n")
    ended = foil("accept", out, into, "topic-002", "--ids", ids, "--reason", "the judge erred", "--by", "ann", "--json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])["changed"] == {"accepted": 2}
    old, new = by_id(out), by_id(into)
    assert accepted(into) - accepted(out) == {"topic-002", "topic-003"}
    row = new["topic-002"]
    assert (row.reason, row.detail, row.judgments) == ("", "", old["topic-002"].judgments)
    rejecting, deciding = row.verdicts
    assert rejecting == old["topic-002"].verdicts[0]
    assert (deciding.validator, deciding.reason) == ("curator", "accepted")
    assert deciding.evidence == "ann: the judge erred; it was rejected: other_passage_named"
    assert {name: row for name, row in new.items() if name not in ("topic-002", "topic-003")} == {
        name: row for name, row in old.items() if name not in ("topic-002", "topic-003")
    }
    assert foil("verify", into).returncode == 0
    why = foil("why", into, "topic-002").stdout
    assert str(out) in why
    assert "the judge erred" in why
    triplets = foil("sql", into, "SELECT DISTINCT topic_id FROM triplets WHERE topic_id = 'topic-002'", "--csv").stdout
    assert "topic-002" in triplets


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("topic-005", "topic-005: without a contrast"),
        ("topic-006", "topic-006: not rejected"),
        ("topic-001", "topic-001: not rejected"),
        ("nothing", "'nothing' is the beginning of 0 topic ids"),
    ],
)
def test_what_cannot_be_accepted_is_named_and_nothing_is_written(out, tmp_path, name, words):
    ended = foil("accept", out, tmp_path / "into", "topic-002", name, "--reason", "right")
    assert ended.returncode == 2
    assert words in " ".join(ended.stderr.split())
    assert not (tmp_path / "into").exists()


def test_conditions_may_be_about_notes_and_flags(out, tmp_path):
    put_note(out, topic_id="topic-004", author="ann", flag="good", note="fine", noted_at="2026-01-01T00:00:00Z")
    put_note(out, topic_id="topic-005", author="ann", flag="good", note="fine", noted_at="2026-01-01T00:00:00Z")
    put_note(out, topic_id="topic-001", author="ann", flag="bad", note="", noted_at="2026-01-01T00:00:00Z")
    assert foil("accept", out, tmp_path / "a", "--where", "flag = 'good'", "--reason", "r").returncode == 0
    assert accepted(tmp_path / "a") - accepted(out) == {"topic-004"}
    assert foil("filter", out, tmp_path / "f", "--where", "flag <> 'bad'").returncode == 0
    assert accepted(out) - accepted(tmp_path / "f") == {"topic-001"}
    put_note(out, topic_id="topic-007", author="ann", flag="bad", note="", noted_at="2026-01-01T00:00:00Z")
    changed = foil("filter", out, tmp_path / "f", "--where", "flag <> 'bad'")
    assert changed.returncode == 2, "what notes chose is part of the run"
    shown = json.loads(foil("show", out, "--where", "note = 'fine' AND topic_id < 'topic-005'", "--json").stdout)
    assert [each["id"] for each in shown["topics"]] == ["topic-004"]


def test_a_filter_chooses_from_rejected_topics_too(out, tmp_path):
    ended = foil("filter", out, tmp_path / "into", "--where", "topic_id >= 'topic-003'", "--rejected")
    assert ended.returncode == 0, ended.stderr
    assert accepted(tmp_path / "into") == {f"topic-{n:03d}" for n in (3, 4, 7, 8, 9, 10, 11)}
    rows = by_id(tmp_path / "into")
    assert rows["topic-003"].verdicts[-1].evidence.endswith("it was rejected: other_passage_named")
    assert (rows["topic-002"].reason, rows["topic-005"].reason) == ("other_passage_named", "other_passage_named")


def test_a_filter_takes_no_rejected_topics_unasked(out, tmp_path):
    ended = foil("filter", out, tmp_path / "into", "--heldout", "false", "--rejected")
    assert (ended.returncode, "give --where" in ended.stderr) == (2, True), ended.stderr


@pytest.mark.slow
def test_topics_of_a_real_model_are_rescued_by_hand_and_by_cheaper_checks(shared_data, tmp_path):
    """Its judge named the right passage hardly more often than by chance; its models answer no more."""
    out = llm_run(shared_data, "infir_rules_off", tmp_path / "out")
    bill, rejected = run_totals(out), "reason = 'other_passage_named'"
    page = " ".join(foil("show", out, "--where", rejected).stdout.split())
    assert "the judge named P" in page
    assert '"votes"' not in page

    by_hand = tmp_path / "by_hand"
    ended = foil("accept", out, by_hand, "--where", rejected, "--reason", "chance", "--json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])["changed"]["accepted"] == 901
    assert [len(asker(run)(REJECTS_ALL)) for run in (out, by_hand)] == [1, 0], "its verdict says what still holds"
    again = foil("accept", out, by_hand, "--where", f"{rejected} AND length(query) < 30", "--reason", "chance")
    assert again.returncode == 2
    assert "a folder that does not exist" in again.stderr
    assert len(again.stderr) < 500, "not the ids of all topics"

    job, by_check = tmp_path / "job.yaml", tmp_path / "by_check"
    job.write_text(foil("job", out).stdout)
    urls = [f"--set=models.{name}.url=http://127.0.0.1:9/v1" for name in ("writer", "judge")]
    ended = foil("revalidate", out, by_check, "--job", job, *urls, "--set", "validators=[{kind: shape}]", "--json")
    assert ended.returncode == 3, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])["calls"] == 0
    assert len(accepted(by_check) - accepted(out)) > 100
    for into in (by_hand, by_check):
        assert foil("verify", into).returncode == 0
        assert run_totals(into) == {"calls": 0, "tokens": 0, "cost_usd": 0}
    assert run_totals(out) == bill


def run_totals(out):
    said = json.loads(foil("status", out, "--json").stdout)
    return {name: said[name] for name in ("calls", "tokens", "cost_usd")}
