"""How validators write verdicts: evidence of bounded length, one spelling of settings; what their checks share."""

from collections.abc import Iterator, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from foil.engine.ids import canonical_json
from foil.engine.protocols import Cost
from foil.engine.settings import Settings
from foil.engine.topic import Outcome, Passage, Topic, Verdict

EVIDENCE_CHARS = 400
"""The longest quotation in a verdict, in characters."""


def truncate(text: str, limit: int = EVIDENCE_CHARS) -> str:
    """The text, or its beginning and how much is left out."""
    return text if len(text) <= limit else f"{text[:limit]}... (+{len(text) - limit} characters)"


def pass_verdicts(validator: str) -> tuple[Verdict, ...]:
    """The one verdict of a validator that has nothing to say."""
    return (Verdict(validator, "topic", "pass"),)


def reject_verdict(validator: str, scope: str, reason: str, evidence: str, score: float | None = None) -> Verdict:
    """Rejects the topic. `scope` is `topic`, or the id of the intent or passage at fault."""
    return Verdict(validator, scope, "reject", reason, truncate(evidence, 4 * EVIDENCE_CHARS), score)


def fingerprint(settings: Settings, version: int) -> str:
    """A validator's rules in one spelling: its settings and the version of its code."""
    return canonical_json({**settings.model_dump(mode="json"), "version": version})


S = TypeVar("S", bound=Settings)


class TopicCheck(Generic[S]):
    """An engine.protocols.Check of one topic. A subclass raises `version` when it would judge the same otherwise."""

    cost: Final = Cost.TOPIC
    version = 1

    def __init__(self, settings: S) -> None:
        self._settings = settings
        self.fingerprint = fingerprint(settings, self.version)


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
