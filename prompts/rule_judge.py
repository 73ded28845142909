"""The judge without a model: decides from what is known behind an intent, so its answers are true by construction.

    relevant(intent, passage) = answers(evidence, passage) and all_hold(constraints, passage)

It answers the judges' tasks from their facts: `passages` in the order shown, the `evidence` and `constraints` of the
intent. It is the oracle against which other judges are measured, and the judge of runs that have no model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.errors import RefusedRequestError
from engine.topic import Passage
from prompts.constraints import all_hold
from prompts.evidence import answers
from prompts.judge_answers import LABELS, MostRelevant, Relevance, Relevant

Facts = Mapping[str, Any]


def _verdicts(facts: Facts) -> Sequence[bool]:
    """For each passage shown whether it is relevant."""
    evidence, constraints = facts.get("evidence"), facts.get("constraints")
    if not evidence or (facts["instruction"] and not constraints):
        raise RefusedRequestError(
            "the rule judge can only judge topics whose intents carry `evidence` and, where they have an instruction, "
            "`constraints`; the rule writer makes such topics. Name a hosted or local model as judge for others"
        )
    passages: Sequence[Passage] = facts["passages"]
    return [answers(evidence, passage) and all_hold(constraints or (), passage) for passage in passages]


def _most_relevant(facts: Facts) -> str:
    """The first relevant passage shown; where several are, nothing tells them apart."""
    found = [label for label, relevant in zip(LABELS, _verdicts(facts), strict=False) if relevant]
    return MostRelevant(most_relevant=found[0] if found else "none").model_dump_json()


def _relevance(facts: Facts) -> str:
    return Relevance(relevant=_verdicts(facts)[0]).model_dump_json()


def _relevant(facts: Facts) -> str:
    first, second = _verdicts(facts)
    if first and second:
        return Relevant(relevant="both").model_dump_json()
    return Relevant(relevant="A" if first else "B" if second else "neither").model_dump_json()


TASKS: Mapping[str, Callable[[Facts], str]] = {
    "judges.scenario": _most_relevant,
    "judges.relevance": _relevance,
    "judges.polarity": _relevant,
}
"""By the names of their templates; prompts.rule_writer answers them with its own."""
