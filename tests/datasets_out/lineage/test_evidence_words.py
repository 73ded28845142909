"""The evidence of judges in words, wherever a command or a page shows it."""

from dataclasses import replace

import pytest

from foil.datasets_out.lineage.evidence_words import evidence_words
from foil.engine.ids import canonical_json
from foil.engine.topic import Passage, Verdict
from foil.validators.judges.votes import Vote, VoteCount
from tests.support.commands import foil
from tests.support.trainer_world import commit, topic


def counted(made, intent, shown, *choices, **more):
    votes = tuple(Vote("judge", choice) for choice in choices)
    return VoteCount(made.intents[intent], tuple(shown), votes, len(votes)).evidence(**more)


def cases():
    made = topic(1)
    first, second, other = made.passages
    return made, {
        counted(made, 1, made.passages, second.id): "the judge named P2 (fails the instruction); the label says P1",
        counted(made, 1, made.passages, "none", "none", other.id): (
            "the judge named no passage (2 of 3 votes); the judge named P3 (distractor) (1 of 3 votes); "
            "the label says P1"
        ),
        counted(made, 1, [first, second], "tie"): (
            "the judge changed its choice with the order of the passages; the label says P1"
        ),
        counted(made, 2, [second], "none"): (
            "the judge found P2 (fails the instruction) not relevant; under I3 the label says relevant"
        ),
        counted(made, 1, [Passage("gone", "distractor")], "none", text="gone"): (
            "the judge found a passage that is not in the topic not relevant; the passage: gone"
        ),
        counted(made, 1, [first], "unreadable_judge"): (
            "the judge gave no answer that could be read; under I2 the label says relevant"
        ),
        canonical_json({"set": "dl19", "item": "q1", "span": "a b"}): "item q1; set dl19; span a b",
        f"no pair of {first.id}": "no pair of P1",
        '{"votes": cut': '{"votes": cut',
    }


def test_votes_are_words_over_the_names_of_the_topic():
    made, words = cases()
    assert {evidence: evidence_words(evidence, made) for evidence in words} == words


@pytest.mark.parametrize("command", ["show", "why"])
def test_commands_show_words_and_no_ids(tmp_path, command):
    made = topic(1)
    evidence = counted(made, 1, made.passages, made.passages[1].id)
    verdict = Verdict("judge_scenarios", made.intents[1].id, "reject", "other_passage_named", evidence, 1.0)
    made = replace(made, status="rejected", reason=verdict.reason, detail=evidence, verdicts=(verdict,))
    out = commit(tmp_path / "out", [made])
    page = " ".join(foil(command, out, made.id, env={"COLUMNS": "200"}).stdout.split())
    assert "the judge named P2 (fails the instruction); the label says P1" in page
    assert '"votes"' not in page
