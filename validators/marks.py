"""What the marking checks share: the texts of a topic, and the verdict that notes something without deciding.

A mark is a verdict that passes with a reason code, so a curator can ask for it in SQL and a trainer can leave it out. A
job that wants the topic gone says `reject: true`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from engine.topic import Outcome, Passage, Topic, Verdict
from validators.verdicts import EVIDENCE_CHARS, passed, shown


class MarkedText(NamedTuple):
    """One text of a topic. `scope` is the id of its intent or passage, or `topic`; `made`: no corpus has it."""

    scope: str
    field: str
    text: str
    made: bool


class Mark(NamedTuple):
    """What was found: a reason code, where, what a reader needs to agree, and how sure or how much it is."""

    reason: str
    scope: str
    evidence: str
    score: float | None = None


def texts_of(topic: Topic) -> Iterator[MarkedText]:
    """The query, the instructions, the queries of other intents, and the titles and texts of the passages."""
    yield MarkedText("topic", "query", topic.query, made=False)
    for intent in topic.intents:
        if intent.query != topic.query:
            yield MarkedText(intent.id, "query", intent.query, made=True)
        if intent.instruction:
            yield MarkedText(intent.id, "instruction", intent.instruction, made=True)
    for passage in topic.passages:
        made = _made(passage)
        yield from (MarkedText(passage.id, field, text, made) for field, text in _parts(passage) if text)


def _parts(passage: Passage) -> tuple[tuple[str, str], ...]:
    return ("title", passage.title), ("passage", passage.text)


def _made(passage: Passage) -> bool:
    return bool(passage.edited_from) or (not passage.source_id and not passage.role.startswith("seed_"))


def verdicts_of(validator: str, marks: Sequence[Mark], *, reject: bool) -> Sequence[Verdict]:
    """A verdict for each mark, or one that nothing was found."""
    outcome: Outcome = "reject" if reject else "pass"
    return [
        Verdict(validator, mark.scope, outcome, mark.reason, shown(mark.evidence, EVIDENCE_CHARS), mark.score)
        for mark in marks
    ] or passed(validator)


def around(text: str, start: int, end: int, margin: int = 40) -> str:
    """A place in a text with what stands beside it, on one line."""
    return " ".join(text[max(0, start - margin) : end + margin].split())
