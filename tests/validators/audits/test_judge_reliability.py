"""Canaries and bias of position, from verdicts as a panel writes them."""

from foil.engine.ids import canonical_json
from foil.engine.topic import Passage
from foil.validators.audits.judge_reliability import canary_shares, position_shares
from foil.validators.judges.panel import shuffle_passages

SHOWN = ("a", "b", "c")


def evidence(votes, shown=SHOWN):
    return canonical_json({"intent": "i", "shown": list(shown), "votes": votes})


def first_shown(topic_id, slot):
    return shuffle_passages([Passage("", "distractor", id=each) for each in SHOWN], topic_id, "i", str(slot))[0].id


def test_canaries_are_counted_by_validator_and_judge():
    rows = [
        ("t1", "judge_relevance", "canary_right", evidence([["judge", "a"]])),
        ("t2", "judge_relevance", "canary_wrong", evidence([["judge", "b"]])),
        ("t3", "judge_relevance", "canary_right", evidence([["judge", "none"]])),
        ("t3", "judge_relevance", "", evidence([["judge", "none"]])),
        ("t4", "judge_relevance", "canary_right", "not JSON"),
    ]
    [share] = canary_shares(rows)
    assert (share.judge, share.share.count, share.share.of) == ("judge_relevance by judge", 2, 3)


def test_a_judge_that_takes_the_first_passage_is_found():
    votes = {f"t{n}": [["judge", first_shown(f"t{n}", slot)] for slot in range(3)] for n in range(40)}
    rows = [(topic, "judge_scenarios", "", evidence(own)) for topic, own in votes.items()]
    [share] = position_shares(rows)
    assert (share.share.count, share.share.of) == (120, 120)
    assert abs(share.expected - 1 / 3) < 1e-12
    assert share.share.low > share.expected


def test_a_judge_that_takes_one_passage_wherever_it_stands_has_no_bias():
    rows = [(f"t{n}", "judge_scenarios", "", evidence([["judge", "b"]])) for n in range(300)]
    [share] = position_shares(rows)
    assert share.share.low < share.expected < share.share.high


def test_votes_for_nothing_and_canaries_have_no_position():
    rows = [
        ("t1", "judge_scenarios", "", evidence([["judge", "none"], ["judge", "tie"]])),
        ("t1", "judge_scenarios", "canary_right", evidence([["judge", "a"]])),
        ("t1", "judge_relevance", "", evidence([["judge", "a"]], ["a"])),
    ]
    assert position_shares(rows) == []


def test_ties_of_pairs_are_counted():
    rows = [("t", "judge_polarity", "", evidence([["judge", "tie"], ["judge", "a"]], ["a", "b"]))]
    [share] = position_shares(rows)
    assert (share.share.count, share.share.of, share.expected) == (1, 2, None)
