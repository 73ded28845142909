"""Decides the judgments of InfoSearch's Keyword, Format, Language and Length again, from the passages as they are now.

Under an intent with a dimension that a program can decide, a passage judged +1 meets the condition, and one judged -1
by `rule` does not; a reversed intent turns this round. Intents of other recipes pass, and so do those of Audience and
Source, which a judge must decide.

Promise: each untrue judgment is a verdict that names condition and passage. Price: about 0.3 ms.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from foil.engine.settings import Settings
from foil.engine.topic import Topic, Verdict
from foil.prompts.constraints.dimensions import is_decidable, obeys
from foil.validators.checks.topic_check import TopicCheck
from foil.validators.verdicts import pass_verdicts, reject_verdict


class DimensionCheckSettings(Settings):
    """Nothing to set: the checks are exact."""

    kind: Literal["dimension_check"] = "dimension_check"


class DimensionCheck(TopicCheck[DimensionCheckSettings]):
    """Compares every rule-made judgment with the condition of its intent."""

    name = "dimension_check"

    def __call__(self, topic: Topic) -> tuple[Topic, Sequence[Verdict]]:
        """The topic as it was, and a verdict for each judgment that its condition contradicts."""
        return topic, list(self._untrue_judgments(topic)) or pass_verdicts(self.name)

    def _untrue_judgments(self, topic: Topic) -> Iterator[Verdict]:
        passages = {passage.id: passage for passage in topic.passages}
        intents = {intent.id: intent for intent in topic.intents if is_decidable(intent)}
        for judgment in topic.judgments:
            intent, passage = intents.get(judgment.intent_id), passages.get(judgment.passage_id)
            if intent is None or passage is None or (judgment.relevance < 0 and judgment.judge != "rule"):
                continue
            if obeys(intent, passage) is not (judgment.relevance > 0):
                condition = f"{intent.attributes['dimension']} {intent.attributes['condition']!r}"
                subject = f"{passage.role} {passage.id} under the {intent.role} intent"
                reason = "breaks_condition" if judgment.relevance > 0 else "meets_condition"
                yield reject_verdict(
                    self.name,
                    intent.id,
                    reason,
                    f"{subject} ({condition}) is judged {judgment.relevance:+d}: {passage.text}",
                )
