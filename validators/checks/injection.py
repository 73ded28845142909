"""Does a passage speak to the model that reads it? Commands to a judge or an assistant, and tokens of chat formats.

Only a mark, never a decision: a text about prompts may quote one, and what a judge is shown is fenced and made inert
(prompts.untrusted_text), so that nothing depends on this list being complete. Linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from engine.protocols import Cost
from engine.settings import Settings
from engine.topic import Topic, Verdict
from validators.marks import Mark, around, texts_of, verdicts_of
from validators.verdicts import fingerprint

_LOOKED_AT = 200_000
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
    """Nothing to set: it only marks."""

    kind: Literal["injection"] = "injection"


class Injection:
    """Marks with `injection_suspect`."""

    name = "injection"
    cost: Final = Cost.TOPIC

    def __init__(self, settings: InjectionSettings) -> None:
        self.fingerprint = fingerprint(settings, version=1)

    def __call__(self, topic: Topic) -> tuple[Topic, Sequence[Verdict]]:
        """The topic as it was, and a mark for each text that seems to address its reader's model."""
        marks = []
        for text in texts_of(topic):
            found = _SUSPECT.search(text.text[:_LOOKED_AT])
            if found:
                evidence = f"{text.field}: {around(text.text, *found.span())}"
                marks.append(Mark("injection_suspect", text.scope, evidence))
        return topic, verdicts_of(self.name, marks, reject=False)
