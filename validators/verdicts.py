"""How validators write verdicts: evidence of bounded length, one spelling of settings; what their checks share."""

from typing import Final, Generic, TypeVar

from foil.engine.ids import canonical_json
from foil.engine.protocols import Cost
from foil.engine.settings import Settings
from foil.engine.topic import Verdict

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
