"""How validators speak: verdicts with short reasons and evidence of bounded length, and one spelling of their rules."""

from __future__ import annotations

from engine.ids import canonical_json
from engine.settings import Settings
from engine.topic import Verdict

EVIDENCE_CHARS = 400
"""The longest quotation in a verdict, in characters."""


def shown(text: str, limit: int = EVIDENCE_CHARS) -> str:
    """The text, or its beginning with a mark of how much is left out."""
    return text if len(text) <= limit else f"{text[:limit]}... (+{len(text) - limit} characters)"


def passed(validator: str) -> tuple[Verdict, ...]:
    """Nothing was found."""
    return (Verdict(validator, "topic", "pass"),)


def rejected(validator: str, scope: str, reason: str, evidence: str, score: float | None = None) -> Verdict:
    """Something was found at `scope`: a topic, or the id of its intent or passage."""
    return Verdict(validator, scope, "reject", reason, shown(evidence, 4 * EVIDENCE_CHARS), score)


def fingerprint(settings: Settings, version: int) -> str:
    """A validator's rules in one spelling: its settings and the version of its code."""
    return canonical_json({**settings.model_dump(mode="json"), "version": version})
