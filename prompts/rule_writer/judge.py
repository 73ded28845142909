"""The rule judge: decides from an intent's evidence and constraints, so its answers are true by construction.

    relevant(intent, passage) = answers(evidence, passage) and all_hold(constraints, passage)

It answers the judges' tasks from their facts: the `intent`, which carries evidence and constraints (or a dimension of
InfoSearch that a program decides), and the `passages` in the order shown. Other judges are measured against it, and it
judges runs that have no model. It refuses what it cannot decide. Only in a plan (`imagined`) does it confirm what the
topic claims (`claimed`), so that the plan counts every question of a run.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.errors import RefusedRequestError
from engine.ids import canonical_json
from engine.topic import Intent, Passage
from prompts.constraints.constraint import all_hold, constraints_of
from prompts.constraints.dimensions import is_decidable, obeys
from prompts.judge_answers import LABELS, MostRelevant, Relevance, Relevant
from prompts.parse import StructuredReply
from prompts.passages.answer_evidence import answers, evidence_of

Facts = Mapping[str, Any]


def is_relevant(intent: Intent, passage: Passage) -> bool:
    """Whether the passage answers the intent's query and does what its instruction demands."""
    if not _decidable(intent):
        raise RefusedRequestError(
            f"the rule judge cannot judge this {intent.role} intent, which carries no `evidence`, or an instruction "
            "without `constraints`; only the rule writer's topics have both. Name a hosted or local model as judge"
        )
    complies = obeys(intent, passage) if is_decidable(intent) else all_hold(constraints_of(intent), passage)
    return complies and answers(evidence_of(intent), passage)


def _decidable(intent: Intent) -> bool:
    demands = not intent.instruction or constraints_of(intent) or is_decidable(intent)
    return bool(evidence_of(intent) and demands)


def _verdicts(facts: Facts) -> Sequence[bool]:
    """For each passage shown whether it is relevant."""
    if facts.get("imagined") and not _decidable(facts["intent"]):
        claimed: Sequence[bool] = facts["claimed"]
        return claimed
    return [is_relevant(facts["intent"], passage) for passage in facts["passages"]]


def _most_relevant(facts: Facts) -> str:
    """The first relevant passage shown."""
    labels = [label for label, relevant in zip(LABELS, _verdicts(facts), strict=False) if relevant]
    return _dump(facts, MostRelevant(most_relevant=labels[0] if labels else "none"))


def _relevance(facts: Facts) -> str:
    return _dump(facts, Relevance(relevant=_verdicts(facts)[0]))


def _relevant(facts: Facts) -> str:
    first, second = _verdicts(facts)
    if first and second:
        return _dump(facts, Relevant(relevant="both"))
    return _dump(facts, Relevant(relevant="A" if first else "B" if second else "neither"))


def _dump(facts: Facts, answer: StructuredReply) -> str:
    """The answer as JSON, with a reason where one is asked for."""
    reason = {"reason": "a program has checked evidence and constraints"} if facts.get("rationale") else {}
    return canonical_json({**reason, **answer.model_dump()})


def _demand(facts: Facts) -> str:
    return "true" if _verdicts(facts)[0] else "false"


TASKS: Mapping[str, Callable[[Facts], str]] = {
    "judges.scenario": _most_relevant,
    "judges.relevance": _relevance,
    "judges.polarity": _relevant,
    "judges.demand": _demand,
}
"""By the names of their templates; prompts.rule_writer.model answers them with its own."""
