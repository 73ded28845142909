"""How far a run's judges can be relied on: their canaries, and whether the place of a passage decides.

    verdicts of judges -> right answers to canaries by judge -> Wilson's interval
                       -> the place of the passage that each vote chose, with what chance would give

A vote of `judge_scenarios` saw its passages in an order that follows from topic, intent and slot, so it is found again
here. A vote of `judge_polarity` asks in both orders; it is a tie where the swap changed the answer, or the answer was
`both`. Bias of place in judges: Zheng et al. 2023 (arXiv:2306.05685).
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from foil.engine.topic import Passage
from foil.validators.audits.score import Share, wilson
from foil.validators.judges.panel import shuffle_passages
from foil.validators.judges.votes import TIE

JudgeRow = tuple[str, str, str, str]
"""Topic id, validator, reason and evidence of a verdict."""


@dataclass(frozen=True, slots=True)
class JudgeShare:
    """Of a judge's answers, those that ... `expected`: the share that chance alone would give, None where unknown."""

    judge: str
    measure: str
    share: Share
    expected: float | None


def canary_shares(rows: Iterable[JudgeRow]) -> list[JudgeShare]:
    """The canaries that each judge answered rightly, and those that its provider refused, by validator."""
    right, total, refused = Counter[str](), Counter[str](), Counter[str]()
    for _, validator, reason, evidence in rows:
        if reason.startswith("canary_"):
            for judge, _choice in _facts(evidence).get("votes", ()):
                name = f"{validator} by {judge}"
                refused[name] += reason == "canary_refused"
                total[name] += reason != "canary_refused"
                right[name] += reason == "canary_right"
    shares = [JudgeShare(name, "canaries right", wilson(right[name], total[name]), None) for name in sorted(+total)]
    for name in sorted(+refused):
        share = wilson(refused[name], refused[name] + total[name])
        shares.append(JudgeShare(name, "canaries that the provider refused", share, None))
    return shares


def position_shares(rows: Iterable[JudgeRow]) -> list[JudgeShare]:
    """By judge: votes for the passage that was shown first, and votes that a swap of two passages decided."""
    first, chosen, ties, pairs = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    chance: dict[str, float] = defaultdict(float)
    for topic_id, validator, reason, evidence in rows:
        if reason.startswith("canary_"):
            continue
        for judge, place, of in _places(topic_id, validator, evidence):
            chosen[judge] += 1
            first[judge] += place == 0
            chance[judge] += 1 / of
        for judge, choice in _pair_votes(validator, evidence):
            pairs[judge] += 1
            ties[judge] += choice == TIE
    shares = [
        JudgeShare(judge, "chose the passage shown first", wilson(first[judge], chosen[judge]), chance[judge] / of)
        for judge, of in sorted(chosen.items())
    ]
    tied = [JudgeShare(judge, "a swap decided, or both", wilson(ties[judge], of), None) for judge, of in pairs.items()]
    return shares + sorted(tied, key=lambda share: share.judge)


def _places(topic_id: str, validator: str, evidence: str) -> Iterator[tuple[str, int, int]]:
    """Judge, place of the passage chosen, and how many were shown, of each vote among three passages or more."""
    facts = _facts(evidence)
    passage_ids: list[str] = facts.get("shown", [])
    if validator != "judge_scenarios" or len(passage_ids) < 2:
        return
    slots = Counter[str]()
    for judge, choice in facts.get("votes", ()):
        number = slots[judge]
        slots[judge] += 1
        passages = [Passage("", "distractor", id=passage_id) for passage_id in passage_ids]
        order = [p.id for p in shuffle_passages(passages, topic_id, facts["intent"], str(number))]
        if choice in order:
            yield f"{validator} by {judge}", order.index(choice), len(order)


def _pair_votes(validator: str, evidence: str) -> Iterator[tuple[str, str]]:
    facts = _facts(evidence)
    if validator == "judge_polarity" and len(facts.get("shown", ())) == 2:
        for judge, choice in facts.get("votes", ()):
            yield f"{validator} by {judge}", choice


def _facts(evidence: str) -> dict[str, Any]:
    """The evidence of a vote count; {} where it is none."""
    try:
        facts = json.loads(evidence)
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}
