"""Decides judgments by rule again, from the passages as they are now.

Labels by rule are exact when they are made. An edit of a passage, a cut or a defect of a recipe can make them untrue.

Promise: each untrue judgment is a verdict that names what it contradicts, and the passage. Price: about 0.3 ms.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from foil.engine.settings import Settings
from foil.engine.topic import Intent, Judgment, Passage, Topic, Verdict
from foil.prompts.constraints.constraint import Constraint, constraints_of
from foil.prompts.constraints.dimensions import is_decidable, obeys
from foil.validators.verdicts import TopicCheck, pass_verdicts, reject_verdict


class ConstraintCheckSettings(Settings):
    """Nothing to set: constraints are exact."""

    kind: Literal["constraint_check"] = "constraint_check"


class ConstraintCheck(TopicCheck[ConstraintCheckSettings]):
    """Compares every rule-made judgment of a verifiable instruction with its constraints.

    A passage judged +1 satisfies all of them, and one judged -1 by `rule` breaks at least one. A -1 by construction or
    by the seed (a passage that does not answer the query) may satisfy them.
    """

    name = "constraint_check"

    def __call__(self, topic: Topic) -> tuple[Topic, Sequence[Verdict]]:
        """The topic as it was, and a verdict for each judgment that its constraints contradict."""
        passages = {passage.id: passage for passage in topic.passages}
        verdicts = []
        for intent in topic.intents:
            constraints = constraints_of(intent)
            judged = [j for j in topic.judgments if j.intent_id == intent.id and j.passage_id in passages]
            for judgment in judged if constraints else ():
                faults = _faults(intent, constraints, passages[judgment.passage_id], judgment)
                verdicts += [reject_verdict(self.name, intent.id, *fault) for fault in faults]
        return topic, verdicts or pass_verdicts(self.name)


def _faults(
    intent: Intent, constraints: Sequence[Constraint], passage: Passage, judgment: Judgment
) -> Iterator[tuple[str, str]]:
    broken = [constraint for constraint in constraints if not constraint.holds(passage)]
    subject = f"{passage.role} {passage.id} under the {intent.role} intent"
    if judgment.relevance > 0 and broken:
        yield "breaks_constraint", f"{subject} is judged relevant and does not {_named(broken[:1])}"
    if judgment.relevance < 0 and judgment.judge == "rule" and not broken:
        yield "satisfies_constraints", f"{subject} is judged not relevant by rule, yet it does {_named(constraints)}"


def _named(constraints: Sequence[Constraint]) -> str:
    return " and ".join(f"{constraint.render()!r} ({constraint.to_json()})" for constraint in constraints)


class DimensionCheckSettings(Settings):
    """Nothing to set: the checks are exact."""

    kind: Literal["dimension_check"] = "dimension_check"


class DimensionCheck(TopicCheck[DimensionCheckSettings]):
    """Compares the judgments of InfoSearch's Keyword, Format, Language and Length with the condition of their intent.

    A passage judged +1 meets the condition, and one judged -1 by `rule` does not; a reversed intent turns this round.
    Intents of other recipes pass, and so do those of Audience and Source, which a judge must decide.
    """

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
