"""Decides the judgments of verifiable instructions again, from the passages as they are now.

Labels by rule are exact when they are made. An edit of a passage, a cut or a defect of a recipe can make them
untrue. For an intent with constraints, a passage judged +1 satisfies all of them, and one judged -1 by `rule` breaks at
least one. A -1 by construction or by the seed (a passage that does not answer the query) may satisfy them.

Promise: each untrue judgment is a verdict that names constraint and passage.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from foil.engine.settings import Settings
from foil.engine.topic import Intent, Judgment, Passage, Topic, Verdict
from foil.prompts.constraints.constraint import Constraint, constraints_of
from foil.validators.checks.topic_check import TopicCheck
from foil.validators.verdicts import pass_verdicts, reject_verdict


class ConstraintCheckSettings(Settings):
    """Nothing to set: constraints are exact."""

    kind: Literal["constraint_check"] = "constraint_check"


class ConstraintCheck(TopicCheck[ConstraintCheckSettings]):
    """Compares every rule-made judgment with its constraints."""

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
