"""Is a text in a language that is not expected? Models drift into other languages, and corpora hold some.

Only what py3langid is sure of counts: code, tables and a few words look like any language. Price: about 0.2 ms a text.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from foil.engine.errors import UsageError
from foil.engine.settings import Settings
from foil.engine.topic import Topic, Verdict
from foil.prompts.languages import identify, languages
from foil.validators.checks.topic_check import TopicCheck
from foil.validators.findings import Finding, TopicText, texts_of, verdicts_of

_SCANNED_CHARS = 800


class LanguageSettings(Settings):
    """Which languages are expected, and when a text is surely in another."""

    kind: Literal["language"] = "language"
    expected: tuple[str, ...] = Field(
        default=("en",), min_length=1, description="ISO 639 codes of the wanted languages"
    )
    probability: float = Field(default=0.95, gt=0, le=1, description="from which on another language is believed")
    least_letters: int = Field(default=40, ge=1, le=10**6, description="letters that a text needs to be looked at")
    reject: bool = Field(default=False, description="reject such topics instead of marking them")


class LanguageCheck(TopicCheck[LanguageSettings]):
    """Passes, or rejects, with `other_language`."""

    name = "language"

    def __init__(self, settings: LanguageSettings) -> None:
        unknown = sorted(set(settings.expected) - set(languages()))
        if unknown:
            raise UsageError(f"language {unknown[0]!r} is not known; use ISO 639 codes such as en, de, zh")
        super().__init__(settings)

    def __call__(self, topic: Topic) -> tuple[Topic, Sequence[Verdict]]:
        """The topic as it was, and a finding for each text in a language that is not expected."""
        findings = [finding for text in texts_of(topic) if (finding := self._finding(text))]
        return topic, verdicts_of(self.name, findings, reject=self._settings.reject)

    def _finding(self, text: TopicText) -> Finding | None:
        beginning = text.text[:_SCANNED_CHARS]
        if sum(map(str.isalpha, beginning)) < self._settings.least_letters:
            return None
        language, probability = identify(beginning)
        if language in (*self._settings.expected, "zxx") or probability < self._settings.probability:
            return None
        evidence = f"{text.field} is in {language!r}: {' '.join(beginning.split())}"
        return Finding("other_language", text.scope, evidence, round(probability, 2))
