"""InF-IR's check (section 4.1): under each instruction and query of a topic the judge must name the right passage.

    (I+,Q+), (I-,Q+), (I+,Q-), each with P+, P1-, P2- and distractors -> the most relevant -> judged +1 there?

The paper's distractors are drawn at random from MS MARCO: name a file of the collection as `passages`. Without one
only the seed's own negatives are shown, which are of the same subject. If there are more passages than a judge can
name, those that are right in the scenario come first.

Promise: a topic passes only if every scenario does. A scenario that fails ends the topic; the others are not asked.
Price: one to `votes` calls a judge and scenario.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from foil.engine.protocols import Ask, Cost
from foil.engine.topic import Intent, IntentRole, Passage, Topic, Verdict
from foil.prompts.judge_answers import LABELS
from foil.validators.judges.canaries import CanaryMonitor
from foil.validators.judges.panel import JudgePanel, PanelSettings, panel_fingerprint, shuffle_passages
from foil.validators.judges.random_passages import RandomPassages
from foil.validators.verdicts import reject_verdict

_DISTRACTOR_ROLES = ("seed_negative", "mined_negative", "distractor")


class JudgeScenariosSettings(PanelSettings):
    """Which scenarios a topic must pass."""

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
    passages: Path | None = Field(
        default=None,
        description="a collection's passages (.jsonl, .tsv or a text a line), of which random ones are shown",
    )
    random: int = Field(default=2, ge=1, le=8, description="how many of them, where `passages` is given")


class JudgeScenarios:
    """Rejects with `no_scenario`, or the reason of the first failed scenario: `other_passage_named`,
    `no_passage_named`, `no_majority`, `unreadable_judge`."""

    name = "judge_scenarios"
    cost: Final = Cost.MODEL

    def __init__(self, settings: JudgeScenariosSettings) -> None:
        self._settings, self._monitor = settings, CanaryMonitor(settings.canaries, self.name)
        self._random = RandomPassages(settings.passages) if settings.passages else None
        apart = settings.model_copy(update={"passages": None})
        drawn_from = self._random.digest if self._random else ""
        self.fingerprint = panel_fingerprint(apart, "judges/scenario", version=2) + drawn_from

    async def __call__(self, topic: Topic, ask: Ask) -> tuple[Topic, Sequence[Verdict]]:
        """The topic as it was, with a verdict for each scenario asked."""
        scenarios = [intent for role in self._settings.roles for intent in topic.intents if intent.role == role]
        missing = [role for role in self._settings.roles if all(intent.role != role for intent in scenarios)]
        if not scenarios or (missing and self._settings.missing == "reject"):
            needed = f"{missing[0]} intent" if self._settings.missing == "reject" else "intent of the roles"
            return topic, [reject_verdict(self.name, "topic", "no_scenario", f"the topic has no {needed}")]
        panel = JudgePanel(self.name, self._settings, topic, ask)
        passages = self._candidates(topic, scenarios)
        verdicts: list[Verdict] = []
        for intent in scenarios:
            verdicts.append(await _judge_scenario(panel, topic, intent, passages))
            if verdicts[-1].outcome == "reject":
                break
        canaries = await panel.ask_canaries(panel.choose_best, self._monitor, min(len(passages), len(LABELS)))
        return topic, [*verdicts, *canaries]

    def _candidates(self, topic: Topic, scenarios: Sequence[Intent]) -> list[Passage]:
        """The passages judged in any scenario, a few other negatives of the seed, none the original of an edit, and a
        few random ones."""
        scenario_ids = {intent.id for intent in scenarios}
        judged_ids = {judgment.passage_id for judgment in topic.judgments if judgment.intent_id in scenario_ids}
        judged = [passage for passage in topic.passages if passage.id in judged_ids]
        excluded = judged_ids | {passage.edited_from for passage in judged}
        distractors = [p for p in topic.passages if p.id not in excluded and p.role in _DISTRACTOR_ROLES]
        chosen = shuffle_passages(distractors, topic.id, "distractors")[: self._settings.distractors]
        random = self._random.draw(self._settings.random, topic.id, topic.passages) if self._random else []
        return [*judged, *chosen, *random]


async def _judge_scenario(panel: JudgePanel, topic: Topic, intent: Intent, passages: Sequence[Passage]) -> Verdict:
    relevant_ids = {j.passage_id for j in topic.judgments if j.intent_id == intent.id and j.relevance > 0}
    candidates = sorted(passages, key=lambda passage: passage.id not in relevant_ids)[: len(LABELS)]
    count = await panel.collect_votes(panel.choose_best, intent, candidates)
    if count.decision in relevant_ids:
        return panel.verdict(count, intent.id)
    return panel.verdict(count, intent.id, "reject", count.failure_reason(relevant_ids))
