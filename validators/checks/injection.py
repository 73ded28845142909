"""Does a passage speak to the model that reads it? Commands to a judge or an assistant, and tokens of chat formats.

It never rejects: a text about prompts may quote such words. Judges do not depend on this list being complete, since
prompts.untrusted_text fences every text that they are shown. Linear in the text.
"""

import re
from collections.abc import Sequence
from typing import Literal

from foil.engine.settings import Settings
from foil.engine.topic import Topic, Verdict
from foil.validators.checks.topic_check import TopicCheck
from foil.validators.findings import Finding, excerpt, texts_of, verdicts_of

_SCANNED_CHARS = 200_000
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
    """Passes with the reason `injection_suspect`."""

    name = "injection"

    def __call__(self, topic: Topic) -> tuple[Topic, Sequence[Verdict]]:
        """The topic as it was, and a finding for each text that seems to address its reader's model."""
        findings = [
            Finding("injection_suspect", text.scope, f"{text.field}: {excerpt(text.text, *match.span())}")
            for text in texts_of(topic)
            if (match := _SUSPECT.search(text.text[:_SCANNED_CHARS]))
        ]
        return topic, verdicts_of(self.name, findings, reject=False)
