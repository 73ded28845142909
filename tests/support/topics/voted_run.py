"""Runs of topics that were voted on or lost, as many as a test wants of each."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.desk.sections import Ask
from foil.datasets_out.desk.topics import asker
from foil.engine.ids import canonical_json
from foil.engine.topic import Topic, Verdict
from tests.support import sample_run


def voted(topic: Topic, *, right: bool = True, canary: str = "", outcome: str = "pass", reason: str = "") -> Topic:
    """The topic with a judge's vote on its dated intent, of which the first passage is relevant."""
    intent, shown = topic.intents[1].id, [passage.id for passage in topic.passages[:2]]
    facts = canonical_json({"intent": intent, "shown": shown, "votes": [["judge", shown[0 if right else 1]]]})
    verdicts = [Verdict("judge_scenarios", intent, outcome, reason, facts)]
    if canary:
        verdicts.append(Verdict("judge_scenarios", "topic", "pass", canary, facts))
    ended = {"status": "rejected", "reason": reason} if outcome == "reject" else {}
    return replace(topic, verdicts=(*topic.verdicts, *verdicts), **ended)


def good(count: int, **facts) -> list[Topic]:
    """Accepted topics, each with a vote of a judge; in every other one the passages change places, so that nothing but
    the instruction says which is relevant."""
    topics = [sample_run.accepted(f"good {n}") for n in range(count)]
    return [voted(turned(topic) if n % 2 else topic, **facts) for n, topic in enumerate(topics)]


def turned(topic: Topic) -> Topic:
    """The topic with its first two passages in the other order, and the other one relevant under its dated intent."""
    (first, second, *rest), dated = topic.passages, topic.intents[1].id
    turn = [replace(j, relevance=-j.relevance) if j.intent_id == dated else j for j in topic.judgments]
    return replace(topic, passages=(second, first, *rest), judgments=tuple(turn))


def lost(count: int, reason: str, *, asked: bool = True, **facts) -> list[Topic]:
    """Topics rejected without a verdict; `asked`: after a call."""
    calls = sample_run.accepted("x").calls if asked else ()
    return [
        replace(sample_run.rejected(f"{reason} {n}", reason), **facts,
                calls=tuple(replace(call, request_id=f"{reason} {n}") for call in calls))
        for n in range(count)
    ]  # fmt: skip


def make(out: Path, topics: Sequence[Topic]) -> Ask:
    """Commits the topics under `out`; returns what answers SQL over them."""
    log = CommitLog(out)
    log.open("f" * 64, {"recipe": {"kind": "verifiable"}})
    log.commit(0, topics, {})
    log.put_plan({"seeds": len(topics), "partitions": 1})
    return asker(out)
