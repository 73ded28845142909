"""What the checks of single texts share: the texts of a topic, and the verdicts on what is found in them.

A finding is a verdict with a reason code that passes: a curator can query for it, and a trainer can leave it out. With
the setting `reject: true` it rejects the topic.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from foil.engine.topic import Outcome, Passage, Topic, Verdict
from foil.validators.verdicts import EVIDENCE_CHARS, pass_verdicts, truncate


class TopicText(NamedTuple):
    """One text of a topic. `scope` is the id of its intent or passage, or `topic`; `generated`: no corpus has it."""

    scope: str
    field: str
    text: str
    generated: bool


class Finding(NamedTuple):
    """A reason code, where it was found, what a reader needs to agree, and how sure or how much it is."""

    reason: str
    scope: str
    evidence: str
    score: float | None = None


def texts_of(topic: Topic) -> Iterator[TopicText]:
    """The query, the instructions, the queries of other intents, and the titles and texts of the passages."""
    yield TopicText("topic", "query", topic.query, generated=False)
    for intent in topic.intents:
        if intent.query != topic.query:
            yield TopicText(intent.id, "query", intent.query, generated=True)
        if intent.instruction:
            yield TopicText(intent.id, "instruction", intent.instruction, generated=True)
    for passage in topic.passages:
        for field, text in (("title", passage.title), ("passage", passage.text)):
            if text:
                yield TopicText(passage.id, field, text, _is_generated(passage))


def _is_generated(passage: Passage) -> bool:
    return bool(passage.edited_from) or (not passage.source_id and not passage.role.startswith("seed_"))


def verdicts_of(validator: str, findings: Sequence[Finding], *, reject: bool) -> Sequence[Verdict]:
    """A verdict for each finding, or one that passes."""
    outcome: Outcome = "reject" if reject else "pass"
    return [
        Verdict(validator, scope, outcome, reason, truncate(evidence, EVIDENCE_CHARS), score)
        for reason, scope, evidence, score in findings
    ] or pass_verdicts(validator)


def excerpt(text: str, start: int, end: int, margin: int = 40) -> str:
    """A span of a text with the words around it, on one line."""
    return " ".join(text[max(0, start - margin) : end + margin].split())
