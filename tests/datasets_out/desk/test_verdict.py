"""What is said first of a run: each rule speaks of a run that shows its cause, and of a healthy run none does."""

from dataclasses import replace

import pytest

from foil.datasets_out.desk import verdict
from foil.datasets_out.desk.verdict import HEALTH, RULES, verdict_of
from tests.support import sample_run
from tests.support.topics.voted_run import good, lost, make, voted

PLACES = {"judge": "judge_scenarios by judge", "of": 120, "share": 0.4, "low_share": 0.35, "expected_share": 0.2}


CAUSES = {
    "nothing": (lost(30, "wrong_length"), "Nothing was accepted: 30 calls, 4,800 tokens and US$ 0.0600 went into 30"),
    "judge": (good(60, right=False), 'judge "judge" of judge_scenarios cannot be relied on: kappa -1.0000 with the'),
    "rejects_all": (
        [*good(4), *(voted(each, outcome="reject", reason="other") for each in
                     (sample_run.accepted(f"bad {n}") for n in range(36)))],
        "judge_scenarios rejects nearly all that reach it: 36 of 40 topics (90.0%), mostly for other",
    ),
    "writer": ([*good(60), *lost(40, "no_analysis")], "The writer fails its rules: 40 of 100 topics with a call (40"),
    "copies": ([*good(85), *lost(15, "near_copy")], "The writer copies: 15 of 100 topics with a call (15.0%)"),
    "corpus": ([*good(300), *lost(20, "wrong_length", corpus="kites")], "The corpus kites yields nothing: none of its"),
    "unfit": ([*good(80), *lost(20, "unreadable", asked=False)], "20 of 100 seeds of docs (20.0%) are refused"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("cause", CAUSES)
def test_each_cause_is_said_in_a_sentence_with_its_numbers(cause, tmp_path):
    topics, words = CAUSES[cause]
    said = verdict_of(make(tmp_path, topics))
    assert said.kind == "amiss"
    sentences = {finding.rule: finding.sentence for finding in said.findings}
    assert words in sentences[cause]
    others = {"rejects_all": {"judge"}, "nothing": {"writer"}}.get(cause, set())
    assert set(sentences) <= {cause, *others}


def test_of_a_healthy_run_no_rule_speaks(tmp_path):
    topics = [*good(90, canary="canary_right"), *lost(6, "wrong_length"), *lost(4, "unreadable", asked=False)]
    said = verdict_of(make(tmp_path, topics), [{**PLACES, "share": 0.22, "low_share": 0.15}])
    assert (said.kind, said.findings) == ("healthy", ())
    assert said.headline.startswith("90 of 100 topics accepted (90.0%), and nothing stands out")


def test_a_judge_that_fails_canaries_or_looks_at_the_place_is_named(tmp_path):
    wrong = [voted(sample_run.accepted(f"wrong {n}"), canary="canary_wrong") for n in range(10)]
    ask = make(tmp_path / "canaries", [*good(60, canary="canary_right")[:6], *wrong, *good(60)[6:]])
    [finding] = verdict_of(ask).findings
    assert "6 of 16 canaries right; kappa 1.0000" in finding.sentence
    ask = make(tmp_path / "places", good(60))
    [finding] = verdict_of(ask, [PLACES]).findings
    assert "the passage shown first named in 40.0% of votes, where chance gives 20.0%" in finding.sentence
    assert finding.sections == ("canaries", "agreement", "position")


def test_labels_of_the_judge_itself_are_no_evidence_for_it(tmp_path):
    own = [replace(t, judgments=tuple(replace(j, judge="judge:qwen") for j in t.judgments)) for t in good(60)]
    [row] = make(tmp_path, [voted(t, canary="canary_right") for t in own])(RULES[1].sql)
    assert (row["canaries"], row["pairs"], row["kappa"]) == (60, None, None)


def test_a_clue_that_gives_labels_away_is_named_once_it_is_sure(tmp_path):
    """In 36 of 60 topics the relevant passage is the longer one, that of the corpus, and the one with a title: at 60 %
    that may be chance, at 80 % it is not."""
    always = [voted(sample_run.accepted(f"always {n}")) for n in range(36)]
    said = {n: verdict_of(make(tmp_path / str(n), [*good(120 - 2 * n), *always[: 2 * n - 60]])) for n in (36, 48)}
    assert said[36].kind == "healthy"
    clues = {finding.sentence for finding in said[48].findings if finding.rule == "shortcut"}
    head = "Labels of verifiable can be guessed without its instructions: of a passage that is relevant and one that"
    assert clues == {
        f"{head} is not, the one that {clue} is the {side} one in 80.0% of pairs, over 60 topics."
        for clue, side in (("is longer", "relevant"), ("has a title", "relevant"), ("is written or edited", "other"))
    }
    assert {finding.sections for finding in said[48].findings} == {("shortcuts",)}


@pytest.mark.parametrize("count", [0, 3])
def test_of_few_topics_nothing_is_said_but_how_many_there_are(count, tmp_path):
    said = verdict_of(make(tmp_path, lost(count, "wrong_length")))
    assert said.kind == ("small" if count else "empty")
    assert not said.findings


def test_the_sql_of_each_rule_answers_the_numbers_of_its_sentence(tmp_path):
    ask = make(tmp_path, CAUSES["writer"][0])
    [finding] = verdict_of(ask).findings
    [row] = ask(finding.sql)
    assert (row["lost"], row["made"], row["reason"]) == (40, 100, "no_analysis")
    assert ask(HEALTH) == [{"made": 100, "accepted": 60, "share": 0.6}]


def test_in_a_large_run_each_rule_is_asked_apart_and_says_the_same(tmp_path, monkeypatch):
    ask = make(tmp_path, [*CAUSES["copies"][0], *lost(20, "unreadable", asked=False)])
    at_once = verdict_of(ask)
    monkeypatch.setattr(verdict, "_TOGETHER", 0)
    asked = []
    assert verdict_of(ask=lambda sql: (asked.append(sql), ask(sql))[1]) == at_once
    assert [finding.rule for finding in at_once.findings] == ["copies", "unfit"]
    assert len(asked) == 1 + len(RULES)


def test_of_very_many_votes_some_are_held_against_the_labels(tmp_path, monkeypatch):
    ask = make(tmp_path, good(60))
    few = verdict.JUDGES.replace(f"LIMIT {verdict.MOST_VOTES}", "LIMIT 10")
    assert [row["pairs"] for row in (*ask(verdict.JUDGES), *ask(few))] == [120, 20]


def test_a_hostile_name_stays_a_text_in_a_sentence(tmp_path):
    name = "{made} <b>kites</b>"
    said = verdict_of(make(tmp_path, [*good(300), *lost(20, "wrong_length", corpus=name)]))
    assert f"The corpus {name} yields nothing" in said.findings[0].sentence
