"""InF-IR's check (section 4.1): under each instruction and query of a topic the judge must name the right passage.

    (I+,Q+), (I-,Q+), (I+,Q-), each with P+, P1-, P2- and random distractors -> the most relevant -> judged +1 there?

Of more passages than a judge can name, those that are right in the scenario are shown before all others.

Promise: a topic passes only if every scenario does; each scenario asked has a verdict with its votes. A scenario that
fails ends the topic, so the others are not paid for. Price: one to `votes` calls a judge and scenario.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from pydantic import Field

from engine.protocols import Ask, Cost
from engine.topic import Intent, IntentRole, Passage, Topic, Verdict
from prompts.judge_answers import LABELS
from validators.judges.canaries import Tally
from validators.judges.panel import JudgePanel, PanelSettings, rules, shuffled
from validators.verdicts import rejected

_OTHERS = ("seed_negative", "mined_negative", "distractor")
"""Roles of passages that no scenario needs judged, shown beside those that one does."""


class JudgeScenariosSettings(PanelSettings):
    """Which scenarios a topic must stand."""

    kind: Literal["judge_scenarios"] = "judge_scenarios"
    roles: tuple[IntentRole, ...] = Field(
        default=("instructed", "poisoned_instruction", "poisoned_query"),
        min_length=1,
        description="roles of the intents that are scenarios",
    )
    missing: Literal["reject", "skip"] = Field(
        default="reject", description="what becomes of a topic without an intent of one of the roles"
    )
    distractors: int = Field(default=2, ge=0, le=8, description="other negatives of the seed shown in every scenario")


class JudgeScenarios:
    """Rejects with `no_scenario`, or what the first scenario failed by: `other_passage_named`, `no_passage_named`,
    `no_majority`, `unreadable_judge`."""

    name = "judge_scenarios"
    cost: Final = Cost.MODEL

    def __init__(self, settings: JudgeScenariosSettings) -> None:
        self._settings, self._tally = settings, Tally(settings.canaries, self.name)
        self.fingerprint = rules(settings, "judges/scenario", version=2)

    async def __call__(self, topic: Topic, ask: Ask) -> tuple[Topic, Sequence[Verdict]]:
        """The topic as it was, with a verdict for each scenario asked."""
        absent = [role for role in self._settings.roles if all(intent.role != role for intent in topic.intents)]
        if absent and self._settings.missing == "reject":
            return topic, [rejected(self.name, "topic", "no_scenario", f"the topic has no {absent[0]} intent")]
        scenarios = [intent for role in self._settings.roles for intent in topic.intents if intent.role == role]
        if not scenarios:
            return topic, [rejected(self.name, "topic", "no_scenario", "the topic has no intent of the roles")]
        bench = JudgePanel(self.name, self._settings, topic, ask)
        shown = self._shown(topic, scenarios)
        verdicts: list[Verdict] = []
        for intent in scenarios:
            verdicts.append(await _stand(bench, topic, intent, shown))
            if verdicts[-1].outcome == "reject":
                break
        canaries = await bench.canaries(bench.name_best, self._tally, min(len(shown), len(LABELS)))
        return topic, [*verdicts, *canaries]

    def _shown(self, topic: Topic, scenarios: Sequence[Intent]) -> list[Passage]:
        """The passages judged in any scenario, and a few other negatives of the seed, none the original of an edit."""
        rows = {intent.id for intent in scenarios}
        ids = {judgment.passage_id for judgment in topic.judgments if judgment.intent_id in rows}
        judged = [passage for passage in topic.passages if passage.id in ids]
        known = ids | {passage.edited_from for passage in judged}
        others = [p for p in topic.passages if p.id not in known and p.role in _OTHERS]
        return [*judged, *shuffled(others, topic.id, "distractors")[: self._settings.distractors]]


async def _stand(bench: JudgePanel, topic: Topic, intent: Intent, shown: Sequence[Passage]) -> Verdict:
    wanted = {j.passage_id for j in topic.judgments if j.intent_id == intent.id and j.relevance > 0}
    named = sorted(shown, key=lambda passage: passage.id not in wanted)[: len(LABELS)]
    poll = await bench.poll(bench.name_best, intent, named)
    if poll.decision in wanted:
        return bench.verdict(poll, intent.id)
    return bench.verdict(poll, intent.id, "reject", poll.why_not(wanted))
