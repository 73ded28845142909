"""Dual-View's check: under each view of a topic the judge must find its own passage relevant, and the other not.

    d+ and d-, under I and under its dual or reversed I', each asked in both orders -> the same one both times?

If swapping the passages changes the answer, or it names both or neither, the vote is a tie, and a tie rejects. A view
that fails ends the topic. Price: two calls a judge, view and vote, fewer where it fails.
"""

from collections.abc import Sequence
from itertools import permutations, product
from typing import Final, Literal, NamedTuple

from pydantic import Field

from foil.engine.protocols import Ask, Cost
from foil.engine.topic import Intent, IntentRole, Passage, Topic, Verdict, intent_id
from foil.validators.judges.canaries import CanaryMonitor
from foil.validators.judges.panel import JudgePanel, PanelSettings, panel_fingerprint
from foil.validators.verdicts import reject_verdict


class JudgePolaritySettings(PanelSettings):
    """What a pair of passages must pass."""

    kind: Literal["judge_polarity"] = "judge_polarity"
    missing: Literal["reject", "skip"] = Field(
        "reject", description="what becomes of a topic without two views of one pair of passages"
    )
    both_answer: bool = Field(False, description="whether both passages must also answer the bare query")


class PolarityView(NamedTuple):
    """An intent, the passage that is relevant under it, and the one that is not."""

    intent: Intent
    relevant: Passage
    rival: Passage


class JudgePolarity:
    """Rejects with `no_dual_view`, `off_topic`, or the reason of the first failed view: `order_decides`,
    `other_passage_named`, `no_passage_named`, `no_majority`, `unreadable_judge`."""

    name = "judge_polarity"
    cost: Final = Cost.MODEL

    def __init__(self, settings: JudgePolaritySettings) -> None:
        self._settings, self._monitor = settings, CanaryMonitor(settings.canaries, self.name)
        self.fingerprint = panel_fingerprint(settings, "judges/polarity", "judges/relevance", version=1)

    async def __call__(self, topic: Topic, ask: Ask) -> tuple[Topic, Sequence[Verdict]]:
        """The topic as it was, with a verdict for each view asked."""
        views = opposite_views(topic)
        if not views:
            if self._settings.missing == "skip":
                return topic, [Verdict(self.name, "topic", "pass", "no_dual_view")]
            evidence = "no pair of passages is judged both ways"
            return topic, [reject_verdict(self.name, "topic", "no_dual_view", evidence)]
        panel = JudgePanel(self.name, self._settings, topic, ask)
        verdicts = await _judge_views(panel, views)
        if self._settings.both_answer and verdicts[-1].outcome == "pass":
            verdicts += await _judge_answers(panel, _bare_intent(topic, views[0].intent), views[0])
        return topic, [*verdicts, *await panel.ask_canaries(panel.compare_pair, self._monitor, 2)]


async def _judge_views(panel: JudgePanel, views: Sequence[PolarityView]) -> list[Verdict]:
    """A verdict for each view; the first that fails is the last."""
    verdicts: list[Verdict] = []
    for intent, relevant, rival in views:
        count = await panel.collect_votes(panel.compare_pair, intent, [relevant, rival])
        if count.decision != relevant.id:
            return [*verdicts, panel.verdict(count, intent.id, "reject", count.failure_reason({relevant.id}))]
        verdicts.append(panel.verdict(count, intent.id))
    return verdicts


async def _judge_answers(panel: JudgePanel, bare_intent: Intent, view: PolarityView) -> list[Verdict]:
    """Whether both passages answer the query alone; the first that does not is the last."""
    verdicts: list[Verdict] = []
    for passage in (view.relevant, view.rival):
        count = await panel.collect_votes(panel.rate_passage, bare_intent, [passage])
        if count.decision != passage.id:
            return [*verdicts, panel.verdict(count, passage.id, "reject", "off_topic")]
        verdicts.append(panel.verdict(count, passage.id))
    return verdicts


def _bare_intent(topic: Topic, intent: Intent) -> Intent:
    """The intent's query without an instruction: the topic's own such intent, if it has one."""
    for candidate in topic.intents:
        if not candidate.instruction and candidate.query == intent.query:
            return candidate
    evidence = {key: value for key, value in intent.attributes.items() if key == "evidence"}
    return Intent(intent_id(topic.id, "", intent.query), "original", "", intent.query, evidence)


def opposite_views(topic: Topic) -> list[PolarityView]:
    """Both views of the first pair that an instructed intent and a dual or reversed intent judge oppositely."""
    relevance = {(judgment.intent_id, judgment.passage_id): judgment.relevance for judgment in topic.judgments}

    def judges(intent: Intent, plus: Passage, minus: Passage) -> bool:
        return relevance.get((intent.id, plus.id)) == 1 and relevance.get((intent.id, minus.id)) == -1

    views: dict[tuple[str, str, str], PolarityView] = {}
    for first, second in product(_intents_of(topic, "instructed"), _intents_of(topic, "dual", "reversed")):
        for plus, minus in permutations(topic.passages, 2):
            if judges(first, plus, minus) and judges(second, minus, plus):
                for view in (PolarityView(first, plus, minus), PolarityView(second, minus, plus)):
                    views.setdefault((view.intent.id, view.relevant.id, view.rival.id), view)
                break
    return list(views.values())


def _intents_of(topic: Topic, *roles: IntentRole) -> list[Intent]:
    return [intent for intent in topic.intents if intent.role in roles]
