"""Is a text in another language than it should be? Models drift into one, and corpora hold what nobody expects.

Only what py3langid is sure of counts: code, tables and a few words look like any language, and are left alone.
Promise: a mark names language and probability. Price: about 0.2 ms a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from pydantic import Field

from engine.errors import UsageError
from engine.protocols import Cost
from engine.settings import Settings
from engine.topic import Topic, Verdict
from prompts.languages import identify, languages
from validators.marks import Mark, MarkedText, texts_of, verdicts_of
from validators.verdicts import fingerprint

_LOOKED_AT = 800


class LanguageSettings(Settings):
    """Which languages are expected, and when a text is surely in another."""

    kind: Literal["language"] = "language"
    expected: tuple[str, ...] = Field(
        default=("en",), min_length=1, description="ISO 639 codes of the wanted languages"
    )
    probability: float = Field(default=0.95, gt=0, le=1, description="from which on another language is believed")
    least_letters: int = Field(default=40, ge=1, description="letters that a text needs to be looked at")
    reject: bool = Field(default=False, description="reject such topics instead of marking them")


class Language:
    """Marks with `other_language`."""

    name = "language"
    cost: Final = Cost.TOPIC

    def __init__(self, settings: LanguageSettings) -> None:
        unknown = sorted(set(settings.expected) - set(languages()))
        if unknown:
            raise UsageError(f"language {unknown[0]!r} is not known; use ISO 639 codes such as en, de, zh")
        self._settings = settings
        self.fingerprint = fingerprint(settings, version=1)

    def __call__(self, topic: Topic) -> tuple[Topic, Sequence[Verdict]]:
        """The topic as it was, and a mark for each text in a language that is not expected."""
        marks = [mark for text in texts_of(topic) if (mark := self._mark(text))]
        return topic, verdicts_of(self.name, marks, reject=self._settings.reject)

    def _mark(self, text: MarkedText) -> Mark | None:
        looked_at = text.text[:_LOOKED_AT]
        if sum(map(str.isalpha, looked_at)) < self._settings.least_letters:
            return None
        language, probability = identify(looked_at)
        if language in (*self._settings.expected, "zxx") or probability < self._settings.probability:
            return None
        evidence = f"{text.field} is in {language!r}: {' '.join(looked_at.split())}"
        return Mark("other_language", text.scope, evidence, round(probability, 2))
