"""Runs of a real small model as run folders: each topic ends as it did, and every command reads them."""

import gzip
import json

import pytest

from foil.cluster.desk.measures import agreements
from foil.datasets_out.desk.topics import asker
from foil.validators.audits.judge_reliability import canary_shares, position_shares
from tests.support.commands import foil
from tests.support.desk.browser import Visit, desk_process, headless
from tests.support.topics.llm_runs import JOBS, llm_run

DECIDED = ("quotes_passage", "repeats_passage", "names_source", "other_passage_named")
"""Reasons of validators that ask the same again, here of the stored replies."""


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_each_topic_of_a_real_run_ends_as_it_did_and_the_folder_is_whole(name, tmp_path, shared_data):
    out = llm_run(shared_data, name, tmp_path / "run")
    with gzip.open(shared_data / "llm_runs" / f"{name}.jsonl.gz", "rt") as file:
        rows = {row["topic_id"]: row for row in map(json.loads, file)}
    ask = asker(out)
    ends = ask("SELECT topic_id, status, reason, detail FROM topics")
    assert {e["topic_id"]: (e["status"], e["reason"], e["detail"]) for e in ends} == {
        key: (row["status"], row["reason"], row["detail"]) for key, row in rows.items()
    }
    assert ask("SELECT count(*) AS n FROM calls")[0]["n"] == sum(len(row["calls"]) for row in rows.values())
    rejecting = ask("SELECT topic_id, reason FROM verdicts WHERE outcome = 'reject'")
    assert all(rows[each["topic_id"]]["reason"] == each["reason"] for each in rejecting)
    decided = {key for key, row in rows.items() if row["reason"] in DECIDED}
    assert decided <= {each["topic_id"] for each in rejecting}
    verified = foil("verify", out)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_the_judges_votes_and_canaries_of_a_real_run_are_found_again(tmp_path, shared_data):
    ask = asker(llm_run(shared_data, "infir_rules_off", tmp_path / "run"))
    votes = [
        (row["topic_id"], row["validator"], row["reason"], row["evidence"])
        for row in ask("SELECT topic_id, validator, reason, evidence FROM verdicts WHERE validator = 'judge_scenarios'")
    ]
    [canaries], [first] = canary_shares(votes), position_shares(votes)
    assert (canaries.share.count, canaries.share.of) == (6, 16)
    assert (first.share.count, first.share.of, round(first.expected, 3)) == (513, 1292, 0.201)


def test_a_judge_is_not_held_against_labels_that_are_its_own_word(tmp_path, shared_data):
    assert not agreements(llm_run(shared_data, "promptriever_rules_off", tmp_path / "own"), None)
    [agreement] = agreements(llm_run(shared_data, "infir", tmp_path / "apart"), None)
    assert (agreement.first, agreement.second) == ("judge_scenarios by judge", "labels of the topics")


def test_commands_read_a_real_run(tmp_path, shared_data):
    out = llm_run(shared_data, "promptriever_rules_off", tmp_path / "run")
    topic = asker(out)("SELECT topic_id FROM topics WHERE reason = 'no_negative_left' ORDER BY 1")[0]["topic_id"]
    for command in (["show", out, topic], ["status", out], ["agreement", out], ["plan", out.with_suffix(".yaml")]):
        done = foil(*command)
        assert done.returncode == 0, done.stdout + done.stderr


CAUSES = {
    "infir": (
        "judge_scenarios rejects nearly all that reach it: 50 of 53",
        "no_analysis",
        "112 of 704 seeds of msmarco",
    ),
    "infir_rules_off": (
        "6 of 16 canaries right; kappa -0.0404 with the labels",
        "the passage shown first named in 39.7% of votes, where chance gives 20.1%",
        "The writer fails its rules: 417 of 1,367 topics",
        "248 of 1,615 seeds of msmarco (15.4%) are refused before a call, mostly as unreadable",
    ),
}
"""What is wrong with the judge, the writer and the corpus."""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", CAUSES)
def test_the_causes_stand_on_the_first_screen_of_report_and_desk(name, tmp_path, shared_data):
    out = llm_run(shared_data, name, tmp_path / "run")
    reported, asked = foil("report", out, "--json"), foil("status", out, "--verdict", "--json")
    assert (reported.returncode, asked.returncode) == (0, 0)
    assert all(cause in reported.stderr for cause in CAUSES[name])
    assert json.loads(asked.stdout)["verdict"] == json.loads(reported.stdout)["verdict"]
    with headless() as browser, desk_process("view", out) as desk:
        for url in ((out / "report.html").as_uri(), desk.url):
            visit = Visit(browser, viewport={"width": 1280, "height": 800})
            visit.page.goto(url)
            box = visit.page.locator("#verdict")
            shown = box.bounding_box()
            assert shown["y"] + shown["height"] < 800
            assert all(cause in box.inner_text() for cause in CAUSES[name])
            for link in box.locator("a").all():
                target = link.get_attribute("href")
                assert target.startswith("/sql?query=") or visit.page.locator(target).count() == 1
            visit.page.set_viewport_size({"width": 390, "height": 844})
            assert (visit.overflows(), visit.faults) == (False, [])
