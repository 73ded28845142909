"""Promptriever's check (sections 2.1, 2.2): is each passage of a topic what the topic says it is? What is not, goes.

    passage by passage, each under every intent that judges it -> P(true), or an enum -> keep, drop, replace, reject

- A generated passage that any of its labels is untrue of is dropped: a negative that obeys its instruction after all
  (`negative_is_relevant`), one that does not answer the bare query (`negative_off_topic`), a positive that is none.
- Where the seed's positive is no longer relevant under an instruction, its label there is turned round, and a generated
  positive judged relevant takes its place; without one the topic is rejected (`positive_lost`). A label that a rule or
  an earlier judge made is not turned round: who contradicts it rejects the topic (`label_disputed`).
- Of the instruction negatives that stand, the first `keep_negatives` are kept and the rest are not paid for.

What the corpus says of the bare query is taken as given; every other label is asked. A label by construction that the
judge confirms becomes the judge's, with its votes; a rule's label stays a rule's. Promise: ids and judgments of the
topic fit each other whatever is dropped, and what is dropped stands in its verdict. Price: one to `votes` calls a judge
and label.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Literal

from pydantic import Field

from engine.protocols import Ask, Cost
from engine.topic import Intent, Judgment, Passage, PassageRole, Topic, Verdict
from prompts.constraints.constraint import body
from validators.judges.canaries import Tally
from validators.judges.panel import NONE, TIE, JudgePanel, PanelSettings, VoteCount, rules
from validators.verdicts import passed, rejected, shown

_NAME = "judge_relevance"
_UNSEEN = ("construction", "mined")
"""Makers of labels that nobody has looked at yet."""
_REVISABLE = (*_UNSEEN, "seed")
"""Makers of labels that an instruction may make untrue; the seed's is of the bare query."""


class JudgeRelevanceSettings(PanelSettings):
    """From when on a passage is relevant, and how many negatives a topic keeps."""

    kind: Literal["judge_relevance"] = "judge_relevance"
    threshold: float = Field(default=0.5, gt=0, lt=1, description="P(true) from which on a passage is relevant")
    logprobs: bool = Field(default=True, description="whether P(true) is asked for; some endpoints refuse logprobs")
    keep_negatives: int = Field(default=3, ge=1, description="instruction negatives kept in a topic")


class JudgeRelevance:
    """Edits as above. Rejects with `positive_lost`, `no_negative_left`, `label_disputed`, `unreadable_judge`."""

    name = _NAME
    cost: Final = Cost.MODEL

    def __init__(self, settings: JudgeRelevanceSettings) -> None:
        self._settings, self._tally = settings, Tally(settings.canaries, self.name)
        self.fingerprint = rules(settings, "judges/relevance", version=2)

    async def __call__(self, topic: Topic, ask: Ask) -> tuple[Topic, Sequence[Verdict]]:
        """The topic without the passages that failed, with a verdict for each label asked."""
        bench = JudgePanel(self.name, self._settings, topic, ask)
        hearing = _Hearing(self._settings, topic, bench)
        await hearing.hear()
        canaries = await bench.canaries(hearing.ballot, self._tally, 1)
        return hearing.result(), [*hearing.verdicts, *canaries] or passed(self.name)


class _Hearing:
    """One topic's passages before the bench: positives first, then negatives, then the rest."""

    def __init__(self, settings: JudgeRelevanceSettings, topic: Topic, bench: JudgePanel) -> None:
        self._keep, self._topic, self._bench = settings.keep_negatives, topic, bench
        self.ballot = partial(bench.rate, threshold=settings.threshold, logprobs=settings.logprobs)
        self.verdicts: list[Verdict] = []
        self._labels = {(label.passage_id, label.intent_id): label for label in topic.judgments}
        self._dropped: set[str] = set()

    async def hear(self) -> None:
        """Asks until every passage has its verdicts, or the topic is rejected."""
        for passage in self._of("seed_positive"):
            if not await self._fits_or_is_replaced(passage):
                return
        for passage in self._of("generated_positive"):
            await self._stands_or_goes(passage)
        if not (self._served() and await self._negatives()):
            return
        for passage in self._of("query_negative", "seed_negative", "mined_negative", "distractor"):
            await self._stands_or_goes(passage)
        self._served()

    def result(self) -> Topic:
        """The topic with what stands."""
        kept = tuple(passage for passage in self._topic.passages if passage.id not in self._dropped)
        labels = tuple(label for label in self._labels.values() if label.passage_id not in self._dropped)
        return replace(self._topic, passages=kept, judgments=labels)

    def _of(self, *roles: PassageRole) -> list[Passage]:
        return [passage for passage in self._topic.passages if passage.role in roles]

    async def _fits_or_is_replaced(self, passage: Passage) -> bool:
        """Turns round each label under an instruction that the passage no longer fits; False if that rejects."""
        for intent, label in self._questions(passage):
            poll = await self._dispute(passage, intent, label)
            if poll is None:
                continue
            if not (_revisable(intent, label) and poll.decision == NONE):
                reason = poll.why_not(()) if poll.decision == TIE else "label_disputed"
                self.verdicts.append(self._bench.verdict(poll, passage.id, "reject", reason))
                return False
            self._settle(replace(label, relevance=-1), poll)
            self.verdicts.append(self._bench.verdict(poll, passage.id, "edit", "positive_lost"))
        return True

    async def _negatives(self) -> bool:
        """Keeps the first instruction negatives that stand; False if there were some and none does."""
        kept, found = 0, self._of("instruction_negative")
        for passage in found:
            if kept < self._keep:
                kept += await self._stands_or_goes(passage)
            else:
                self._drop(passage, Verdict(_NAME, passage.id, "edit", "surplus_negative", _text(passage)))
        if found and not kept:
            self.verdicts.append(rejected(_NAME, "topic", "no_negative_left", f"none of {len(found)} stands"))
        return not found or kept > 0

    async def _stands_or_goes(self, passage: Passage) -> bool:
        """Drops the passage at the first label that is untrue of it."""
        for intent, label in self._questions(passage):
            poll = await self._dispute(passage, intent, label)
            if poll is None:
                continue
            reason = poll.why_not(()) if poll.decision == TIE else _fault(intent, label, passage)
            self._drop(passage, self._bench.verdict(poll, passage.id, "edit", reason, text=_text(passage)))
            return False
        return True

    def _questions(self, passage: Passage) -> Iterator[tuple[Intent, Judgment]]:
        """The passage's labels but for what the corpus says of the bare query, the most doubtful first."""
        for intent in sorted(self._topic.intents, key=_turn):
            label = self._labels.get((passage.id, intent.id))
            if label and (intent.instruction or label.judge != "seed"):
                yield intent, label

    async def _dispute(self, passage: Passage, intent: Intent, label: Judgment) -> VoteCount | None:
        """Asks whether a label is true: the poll that does not confirm it, or None, with what follows noted."""
        poll = await self._bench.poll(self.ballot, intent, [passage])
        if {passage.id: 1, NONE: -1}.get(poll.decision) != label.relevance:
            return poll
        if label.judge in _UNSEEN:
            self._settle(label, poll)
        self.verdicts.append(self._bench.verdict(poll, passage.id))
        return None

    def _settle(self, label: Judgment, poll: VoteCount) -> None:
        """The label is the judge's from now on."""
        key = label.passage_id, label.intent_id
        self._labels[key] = replace(label, judge=self._bench.judge(poll), votes=poll.says(label.passage_id))

    def _drop(self, passage: Passage, verdict: Verdict) -> None:
        self._dropped.add(passage.id)
        self.verdicts.append(verdict)

    def _served(self) -> bool:
        """Whether every intent that had a relevant passage still has one."""
        due = {label.intent_id for label in self._topic.judgments if label.relevance > 0}
        left = {
            label.intent_id
            for label in self._labels.values()
            if label.relevance > 0 and label.passage_id not in self._dropped
        }
        lost = [intent for intent in self._topic.intents if intent.id in due - left]
        self.verdicts += [
            rejected(_NAME, intent.id, "positive_lost", f"no relevant passage of the {intent.role} intent stands")
            for intent in lost
        ]
        return not lost


def _revisable(intent: Intent, label: Judgment) -> bool:
    """Whether a judge may find that the passage is not relevant after all."""
    return label.relevance > 0 and bool(intent.instruction) and label.judge in _REVISABLE


def _turn(intent: Intent) -> int:
    """The order in which labels are asked: what is most likely untrue first."""
    return {"instructed": 0, "original": 1}.get(intent.role, 2)


def _fault(intent: Intent, label: Judgment, passage: Passage) -> str:
    """The reason code of a label that the judge contradicts."""
    if label.relevance < 0:
        return "negative_is_relevant"
    if intent.instruction:
        return "positive_not_relevant"
    return "negative_off_topic" if passage.role == "instruction_negative" else "positive_off_topic"


def _text(passage: Passage) -> str:
    return shown(body(passage))
