"""Dual-View's check: under each view of a topic the judge must find its own passage relevant, and the other not.

    d+ and d-, under I and under its dual or reversed I', each asked in both orders -> the same one both times?

An answer that changes with the order, and one that names both or neither, is a tie, and a tie rejects. Promise: the
order cannot decide. A view that fails ends the topic. Price: two calls a judge, view and vote, fewer where it fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, permutations, product
from typing import Final, Literal, NamedTuple

from pydantic import Field

from engine.protocols import Ask, Cost
from engine.topic import Intent, IntentRole, Passage, Topic, Verdict
from validators.judges.canaries import Tally
from validators.judges.panel import JudgePanel, PanelSettings, bare, rules
from validators.verdicts import rejected


class JudgePolaritySettings(PanelSettings):
    """What a pair must stand."""

    kind: Literal["judge_polarity"] = "judge_polarity"
    missing: Literal["reject", "skip"] = Field(
        default="reject", description="what becomes of a topic without two views of one pair of passages"
    )
    both_answer: bool = Field(default=False, description="whether both passages must also answer the bare query")


class Side(NamedTuple):
    """One view: an intent, the passage that is relevant under it, and the one that is not."""

    intent: Intent
    wanted: Passage
    other: Passage


class JudgePolarity:
    """Rejects with `no_dual_view`, `off_topic`, or what the first view failed by: `order_decides`,
    `other_passage_named`, `no_passage_named`, `no_majority`, `unreadable_judge`."""

    name = "judge_polarity"
    cost: Final = Cost.MODEL

    def __init__(self, settings: JudgePolaritySettings) -> None:
        self._settings, self._tally = settings, Tally(settings.canaries, self.name)
        self.fingerprint = rules(settings, "judges/polarity", "judges/relevance", version=1)

    async def __call__(self, topic: Topic, ask: Ask) -> tuple[Topic, Sequence[Verdict]]:
        """The topic as it was, with a verdict for each view asked."""
        sides = views(topic)
        if not sides:
            if self._settings.missing == "skip":
                return topic, [Verdict(self.name, "topic", "pass", "no_dual_view")]
            return topic, [rejected(self.name, "topic", "no_dual_view", "no pair of passages is judged both ways")]
        bench = JudgePanel(self.name, self._settings, topic, ask)
        verdicts = await self._views(bench, sides)
        if self._settings.both_answer and verdicts[-1].outcome == "pass":
            verdicts += await _answering(bench, bare(topic, sides[0].intent), sides[0])
        return topic, [*verdicts, *await bench.canaries(bench.compare, self._tally, 2)]

    async def _views(self, bench: JudgePanel, sides: Sequence[Side]) -> list[Verdict]:
        verdicts: list[Verdict] = []
        for side in sides:
            poll = await bench.poll(bench.compare, side.intent, [side.wanted, side.other])
            stands = poll.decision == side.wanted.id
            reason = "" if stands else poll.why_not({side.wanted.id})
            verdicts.append(bench.verdict(poll, side.intent.id, "pass" if stands else "reject", reason))
            if not stands:
                break
        return verdicts


async def _answering(bench: JudgePanel, query: Intent, side: Side) -> list[Verdict]:
    """Whether both passages answer the query alone; the first that does not ends it."""
    verdicts: list[Verdict] = []
    for passage in (side.wanted, side.other):
        poll = await bench.poll(bench.rate, query, [passage])
        if poll.decision != passage.id:
            return [*verdicts, bench.verdict(poll, passage.id, "reject", "off_topic")]
        verdicts.append(bench.verdict(poll, passage.id))
    return verdicts


def views(topic: Topic) -> list[Side]:
    """Both views of the first pair that each instructed intent and each dual or reversed one judge oppositely."""
    judged = {(judgment.intent_id, judgment.passage_id): judgment.relevance for judgment in topic.judgments}
    sides: dict[tuple[str, str, str], Side] = {}
    for view, turned in product(_of(topic, "instructed"), _of(topic, "dual", "reversed")):
        pairs = (
            (plus, minus)
            for plus, minus in permutations(topic.passages, 2)
            if (judged.get((view.id, plus.id)), judged.get((view.id, minus.id))) == (1, -1)
            and (judged.get((turned.id, plus.id)), judged.get((turned.id, minus.id))) == (-1, 1)
        )
        for plus, minus in islice(pairs, 1):
            for side in (Side(view, plus, minus), Side(turned, minus, plus)):
                sides.setdefault((side.intent.id, side.wanted.id, side.other.id), side)
    return list(sides.values())


def _of(topic: Topic, *roles: IntentRole) -> list[Intent]:
    return [intent for intent in topic.intents if intent.role in roles]
