"""Checks of single texts: refusals and small talk, passages that cannot be used, other languages, words to the judge.

Each looks at one text after the other, in time linear in its length.
"""

import re
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from foil.engine.errors import UsageError
from foil.engine.settings import Settings
from foil.engine.topic import Topic, Verdict
from foil.prompts.languages import identify, languages
from foil.prompts.passages.readable import flaw_of
from foil.prompts.writing.small_talk import small_talk
from foil.validators.verdicts import (
    Finding,
    TopicCheck,
    TopicText,
    excerpt,
    pass_verdicts,
    reject_verdict,
    texts_of,
    verdicts_of,
)


class RefusalSettings(Settings):
    """What becomes of a topic with such a text."""

    kind: Literal["refusal"] = "refusal"
    reject: bool = Field(True, description="reject such topics; false marks them")


class RefusalCheck(TopicCheck[RefusalSettings]):
    """Rejects, or passes, with `refusal`, `speaks_as_model`, `speaks_of_task`, `chatter`: answered, and not written.

    Looks only at generated texts: a passage of the corpus may quote a chatbot. What is looked for stands in
    `prompts.writing.small_talk`: a writer whose reply is checked was corrected before.
    """

    name = "refusal"

    def __call__(self, topic: Topic) -> tuple[Topic, Sequence[Verdict]]:
        """The topic as it was, and a finding for each generated text that is none of the data asked for."""
        findings = [
            Finding(reason, text.scope, f"{text.field}: {excerpt(text.text, *span)}")
            for text in texts_of(topic)
            if text.generated
            for reason, span in small_talk(text.text)
        ]
        return topic, verdicts_of(self.name, findings, reject=self._settings.reject)


class ReadableSettings(Settings):
    """No options: what counts as a flaw is what no reader accepts."""

    kind: Literal["readable"] = "readable"


class ReadableCheck(TopicCheck[ReadableSettings]):
    """Rejects with `unreadable`, and the flaw: a passage of prose that is cut off, a menu, markup, noise, repeated.

    Recipes leave such passages of the corpus out by themselves (`prompts.passages.readable`). This check looks at all
    that stands in a topic, written passages and mined negatives too.
    """

    name = "readable"

    def __call__(self, topic: Topic) -> tuple[Topic, Sequence[Verdict]]:
        flaws = {passage.id: flaw for passage in topic.passages if (flaw := flaw_of(passage))}
        verdicts = [reject_verdict(self.name, scope, "unreadable", flaw) for scope, flaw in flaws.items()]
        return topic, verdicts or pass_verdicts(self.name)


_SCANNED_CHARS = 800


class LanguageSettings(Settings):
    """Which languages are expected, and when a text is surely in another."""

    kind: Literal["language"] = "language"
    expected: tuple[str, ...] = Field(("en",), min_length=1, description="ISO 639 codes of the wanted languages")
    probability: float = Field(0.95, gt=0, le=1, description="from which on another language is believed")
    least_letters: int = Field(40, ge=1, le=10**6, description="letters that a text needs to be looked at")
    reject: bool = Field(False, description="reject such topics instead of marking them")


class LanguageCheck(TopicCheck[LanguageSettings]):
    """Passes, or rejects, with `other_language`: models drift into other languages, and corpora hold some.

    Only what py3langid is sure of counts: code, tables and a few words look like any language. Price: about 0.2 ms a
    text.
    """

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


_INJECTION_CHARS = 200_000
_SUSPECT = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b[^.\n]{0,30}\b(?:previous|above|prior|earlier|preceding|other|system)\b"
    r"[^.\n]{0,20}\b(?:instructions?|prompts?|rules|directions|text|messages?)\b"
    r"|\byou are (?:now )?(?:an? |the )?(?:[a-z]+ )?(?:AI|assistant|judge|grader|evaluator|language model|chatbot)\b"
    r"|\b(?:mark|rate|label|judge|rank|score|classify|choose|select|pick)\b[^.\n]{0,20}"
    r"\bthis (?:passage|document|text|answer)\b[^.\n]{0,30}\b(?:relevant|best|first|highest|true|correct)\b"
    r"|\bthis (?:passage|document|text) is (?:the )?(?:most|highly|definitely|the only) relevant\b"
    r"|\b(?:respond|answer|reply|output) (?:only )?(?:with )?[\"'{]+ ?(?:true|yes|relevant|[A-P]\b)"
    r"|\b(?:judge|grader|evaluator|assistant)s?, (?:your|please|you must|you should|answer|choose)\b"
    r"|<[|｜][\w▁ ]{1,40}[|｜]>|(?-i:\[/?INST\])|<</?SYS>>|</?start_of_turn>|</?passage-[0-9a-f]{6,}"
    r"|[\U000e0020-\U000e007f]{4}",
    re.IGNORECASE,
)


class InjectionSettings(Settings):
    """Nothing to set: it never rejects."""

    kind: Literal["injection"] = "injection"


class InjectionCheck(TopicCheck[InjectionSettings]):
    """Passes with the reason `injection_suspect`: commands to a judge or an assistant, and tokens of chat formats.

    It never rejects: a text about prompts may quote such words. Judges do not depend on this list being complete, since
    prompts.untrusted_text fences every text that they are shown.
    """

    name = "injection"

    def __call__(self, topic: Topic) -> tuple[Topic, Sequence[Verdict]]:
        """The topic as it was, and a finding for each text that seems to address its reader's model."""
        findings = [
            Finding("injection_suspect", text.scope, f"{text.field}: {excerpt(text.text, *match.span())}")
            for text in texts_of(topic)
            if (match := _SUSPECT.search(text.text[:_INJECTION_CHARS]))
        ]
        return topic, verdicts_of(self.name, findings, reject=False)
