"""The funnel of rows that are known: every prompt has one end, every topic one place."""

from dataclasses import replace

import pytest

from foil.engine.planning.funnel import BEFORE, funnel_of, prompts_of
from foil.engine.topic import Call, Intent, Judgment, Passage, Topic, Verdict


def call(name, task, turn="", *, fault="", salvaged=""):
    return Call(name, task, "m", f"{task}@0", 10, 5, 0.5, "stop", f"reply {name}", False, fault, salvaged, turn)


def topic(seed, *calls, status="accepted", reason="", whole=True, verdicts=(), **attributes):
    passage, intent = Passage(f"text {seed}", "seed_positive"), Intent(f"i{seed}", "instructed", "say more", "q")
    content = ((intent,), (passage,), (Judgment(intent.id, passage.id, 1, "construction"),)) if whole else ((), (), ())
    return Topic(
        f"t{seed}", seed, "c", "r", f"query {seed}", *content, tuple(verdicts), tuple(calls), status, reason,
        f"detail {seed}", attributes=attributes,
    )  # fmt: skip


ROWS = [
    topic("a", call("1", "write"), call("2", "judges.rate"), marks="plain, short",
          verdicts=[Verdict("judge_x", "topic", "pass")]),
    topic("b", call("3", "write", fault="too_long: 9"), call("4", "write", "correction", salvaged="text"),
          call("5", "more"), call("6", "judges.rate"), marks="short",
          verdicts=[Verdict("judge_x", "topic", "reject", "wrong", "because")], status="rejected", reason="wrong"),
    topic("c", call("7", "write", fault="too_long: 9"), call("8", "write", "correction", fault="too_long: 8"),
          call("9", "write", "candidates"), verdicts=[Verdict("leak", "topic", "reject", "leak", "it says so")],
          status="rejected", reason="leak"),
    topic("d", call("10", "write", fault="too_long: 7"), call("11", "write", "correction", fault="empty: nothing"),
          whole=False, status="rejected", reason="empty"),
    topic("e", whole=False, status="rejected", reason="no_positive"),
]  # fmt: skip


def test_every_prompt_is_valid_corrected_drawn_or_given_up():
    funnel = funnel_of(ROWS)
    assert list(funnel.stages) == ["write", "more", "judges.rate"]
    write = funnel.stages["write"]
    assert (write.valid, write.corrected, write.drawn, write.given_up, write.salvaged, write.sent) == (1, 1, 1, 1, 1, 4)
    assert (write.calls, write.faults) == (8, {"too_long": 4, "empty": 1})
    assert [seed.calls for seed in write.seeds] == [1, 2, 3, 2]
    assert write.most == (10, 5)
    assert sum(stage.calls for stage in funnel.stages.values()) == 11
    assert (funnel.tokens, funnel.usd) == (11 * 15, 5.5)


def test_every_topic_ends_at_one_place():
    funnel = funnel_of(ROWS)
    assert (funnel.seeds, funnel.asked, funnel.whole, funnel.accepted) == (5, 4, 3, 1)
    places = {ending.reason: ending.place for ending in funnel.endings}
    assert places == {"wrong": "judge_x", "leak": "leak", "empty": "write", "no_positive": BEFORE}
    calls = {ending.reason: ending.example.call and ending.example.call.request_id for ending in funnel.endings}
    assert calls == {"wrong": "6", "leak": "9", "empty": "11", "no_positive": None}
    assert funnel.marks == {"short": 2, "plain": 1}


def test_what_a_change_brings_follows_from_those_that_got_past_it():
    """One of three got past `write` and was accepted; from there on they took 15, 30 and 0 tokens."""
    changes = {change.ending.reason: change for change in funnel_of(ROWS).changes()}
    empty = changes["empty"]
    assert (empty.accepted, empty.before, empty.measured) == (pytest.approx(1 / 3), 165, True)
    assert empty.after == pytest.approx((165 + 45 / 3) / (1 + 1 / 3))
    assert (changes["wrong"].accepted, changes["wrong"].after, changes["wrong"].measured) == (1, 165 / 2, True)


def test_without_an_accepted_topic_a_change_is_at_best():
    funnel = funnel_of([ROWS[3]])
    [change] = funnel.changes()
    assert (change.before, change.after, change.measured) == (None, 30, False)
    assert funnel.per_accepted(funnel.tokens) is None


def test_the_topics_of_one_seed_share_their_calls():
    first = topic("a", call("1", "write"), call("2", "judges.rate"))
    second = replace(topic("a", call("1", "write"), call("3", "judges.rate")), id="other")
    funnel = funnel_of([first, second])
    assert (funnel.seeds, funnel.topics["accepted"], funnel.tokens) == (1, 2, 45)
    assert funnel.stages["judges.rate"].seeds[0].prompts == 2


def test_prompts_side_by_side_are_told_apart():
    calls = [call("1", "a"), call("2", "a", "correction"), call("3", "a"), call("4", "b"), call("5", "b", "candidates")]
    assert [[one.request_id for one in prompt] for prompt in prompts_of(calls)] == [["1", "2"], ["3"], ["4", "5"]]
