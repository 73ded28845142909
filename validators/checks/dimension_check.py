"""Decides the judgments of InfoSearch's Keyword, Format, Language and Length again, from the passages as they are now.

For an intent with a dimension that a program can decide: a passage judged +1 meets the condition (or, where the intent
is reversed, does not), and one judged -1 by `rule` is the other way round. Intents of other recipes, and those of
Audience and Source, pass: there a judge must speak.

Promise: each untrue judgment is a verdict that names condition and passage. Looks at the topic alone; about 0.3 ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from engine.protocols import Cost
from engine.settings import Settings
from engine.topic import Topic, Verdict
from prompts.constraints.dimensions import decided, obeys
from validators.verdicts import fingerprint, passed, rejected


class DimensionCheckSettings(Settings):
    """Nothing to set: the checks are exact."""

    kind: Literal["dimension_check"] = "dimension_check"


class DimensionCheck:
    """Holds every rule-made judgment against the condition of its intent."""

    name = "dimension_check"
    cost: Final = Cost.TOPIC

    def __init__(self, settings: DimensionCheckSettings) -> None:
        self.fingerprint = fingerprint(settings, version=1)

    def __call__(self, topic: Topic) -> tuple[Topic, Sequence[Verdict]]:
        """The topic as it was, and a verdict for each judgment that its condition contradicts."""
        return topic, list(self._wrong(topic)) or passed(self.name)

    def _wrong(self, topic: Topic) -> Iterator[Verdict]:
        passages = {passage.id: passage for passage in topic.passages}
        intents = {i.id: i for i in topic.intents if decided(i)}
        for judgment in topic.judgments:
            intent, passage = intents.get(judgment.intent_id), passages.get(judgment.passage_id)
            if intent is None or passage is None or (judgment.relevance < 0 and judgment.judge != "rule"):
                continue
            if obeys(intent, passage) is not (judgment.relevance > 0):
                asked = f"{intent.attributes['dimension']} {intent.attributes['condition']!r}"
                where = f"{passage.role} {passage.id} under the {intent.role} intent"
                reason = "breaks_condition" if judgment.relevance > 0 else "meets_condition"
                yield rejected(
                    self.name, intent.id, reason, f"{where} ({asked}) is judged {judgment.relevance:+d}: {passage.text}"
                )
