"""Did the writer answer instead of writing? Refusals, talk about being a model, and small talk before the text.

    "I'm sorry, but I can't help with that."    refusal
    "As an AI language model, I ..."            speaks_as_model
    "Sure! Here is a passage that ..."          chatter

Looks only at generated texts: a passage of the corpus may quote a chatbot. Refusals and small talk are looked for at
the beginning alone; an instruction may well say "I cannot use passages that ...".
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from engine.settings import Settings
from engine.topic import Topic, Verdict
from validators.checks.topic_check import TopicCheck
from validators.findings import Finding, TopicText, excerpt, texts_of, verdicts_of

_SCANNED_CHARS = 2000
_UNABLE = r"(?:cannot|can ?not|can[’']?t|could not|couldn[’']t|won[’']t|will not|(?:am|[’']m) (?:not able|unable) to)"
_WORK = (
    r"(?:assist|help|comply|fulfil+|satisfy|complete|provide|generate|create|write|produce|answer|respond|continue"
    r"|do that|rewrite)"
)
_SORRY = r"(?:(?:I[’']?m|I am|we[’']?re) (?:very |so |really )?sorry|sorry|(?:my|I) apologi[sz]e?s?|unfortunately)"
_SPEAKER = r"an? (?:AI|artificial intelligence|(?:large )?language model|chatbot|virtual assistant)"
_PATTERNS = (
    (
        "refusal",
        re.compile(
            rf"\W*(?:{_SORRY}\b[^.!?\n]{{0,60}}?\b)?(?:I|we) {_UNABLE} {_WORK}\b|\W*{_SORRY}[,.!]? (?:but )?I\b",
            re.IGNORECASE,
        ),
    ),
    (
        "chatter",
        re.compile(r"\W*(?:sure|certainly|of course|okay|ok)[,.!:]* here(?: is|[’']s| are)\b", re.IGNORECASE),
    ),
)
_AS_MODEL = re.compile(
    rf"\bas {_SPEAKER}\b|\bI(?:[’']m| am) (?:just |only )?{_SPEAKER}\b|\bmy (?:training data|knowledge cutoff)\b",
    re.IGNORECASE,
)


class RefusalSettings(Settings):
    """What becomes of a topic with such a text."""

    kind: Literal["refusal"] = "refusal"
    reject: bool = Field(default=True, description="reject such topics; false marks them")


class RefusalCheck(TopicCheck[RefusalSettings]):
    """Rejects, or passes, with `refusal`, `speaks_as_model`, `chatter`."""

    name = "refusal"

    def __call__(self, topic: Topic) -> tuple[Topic, Sequence[Verdict]]:
        """The topic as it was, and a finding for each generated text that is none of the data asked for."""
        findings = [finding for text in texts_of(topic) if text.generated for finding in _findings(text)]
        return topic, verdicts_of(self.name, findings, reject=self._settings.reject)


def _findings(text: TopicText) -> Iterator[Finding]:
    beginning = text.text[:_SCANNED_CHARS]
    matches = [(reason, pattern.match(beginning)) for reason, pattern in _PATTERNS]
    for reason, match in [*matches, ("speaks_as_model", _AS_MODEL.search(beginning))]:
        if match:
            yield Finding(reason, text.scope, f"{text.field}: {excerpt(beginning, *match.span())}")
