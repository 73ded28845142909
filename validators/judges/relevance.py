"""Promptriever's check (sections 2.1, 2.2): is each passage of a topic what the topic says it is? What is not, goes.

    passage by passage, each under every intent that judges it -> P(true), or an enum -> keep, drop, replace, reject

- A generated passage is dropped if any of its labels is untrue: a negative that obeys its instruction after all
  (`negative_is_relevant`), one that does not answer the bare query (`negative_off_topic`), a positive that is none.
- Where the seed's positive is no longer relevant under an instruction, its label there is reversed. A generated
  positive judged relevant takes its place; without one the topic is rejected (`positive_lost`). A label that a rule or
  an earlier judge made is not reversed: whoever contradicts it rejects the topic (`label_disputed`).
- The first `keep_negatives` instruction negatives that pass are kept. The judge is not asked about the rest.

What the corpus says of the bare query is taken as given; every other label is asked. A label by construction that the
judge confirms becomes the judge's, with its votes; a rule's label stays a rule's.

Promise: ids and judgments of the topic fit each other whatever is dropped, and what is dropped stands in its verdict.
Price: one to `votes` calls a judge and label.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Literal

from pydantic import Field

from foil.engine.protocols import Ask, Cost
from foil.engine.topic import Intent, Judgment, Passage, PassageRole, Topic, Verdict
from foil.prompts.constraints.constraint import full_text
from foil.validators.judges.canaries import CanaryMonitor
from foil.validators.judges.panel import JudgePanel, PanelSettings, panel_fingerprint
from foil.validators.judges.votes import NONE, TIE, VoteCount
from foil.validators.verdicts import pass_verdicts, reject_verdict, truncate

_NAME = "judge_relevance"
_UNREVIEWED = ("construction", "mined")
"""Makers of labels that no judge has seen."""
_REVERSIBLE = (*_UNREVIEWED, "seed")
"""Makers of labels that an instruction may make untrue; the seed's is of the bare query."""


class JudgeRelevanceSettings(PanelSettings):
    """From when on a passage is relevant, and how many negatives a topic keeps."""

    kind: Literal["judge_relevance"] = "judge_relevance"
    threshold: float = Field(0.5, gt=0, lt=1, description="P(true) from which on a passage is relevant")
    logprobs: bool = Field(True, description="whether P(true) is asked for; some endpoints refuse logprobs")
    keep_negatives: int = Field(3, ge=1, le=1_000, description="instruction negatives kept in a topic")


class JudgeRelevance:
    """Edits as above. Rejects with `positive_lost`, `no_negative_left`, `label_disputed`, `unreadable_judge`."""

    name = _NAME
    cost: Final = Cost.MODEL

    def __init__(self, settings: JudgeRelevanceSettings) -> None:
        self._settings, self._monitor = settings, CanaryMonitor(settings.canaries, self.name)
        self.fingerprint = panel_fingerprint(settings, "judges/relevance", version=2)

    async def __call__(self, topic: Topic, ask: Ask) -> tuple[Topic, Sequence[Verdict]]:
        """The topic without the passages that failed, with a verdict for each label asked."""
        panel = JudgePanel(self.name, self._settings, topic, ask)
        review = _LabelReview(self._settings, topic, panel)
        await review.run()
        canaries = await panel.ask_canaries(review.question, self._monitor, 1)
        return review.reviewed_topic(), [*review.verdicts, *canaries] or pass_verdicts(self.name)


class _LabelReview:
    """The review of one topic's passages: positives first, then instruction negatives, then the rest."""

    def __init__(self, settings: JudgeRelevanceSettings, topic: Topic, panel: JudgePanel) -> None:
        self._keep_negatives, self._topic, self._panel = settings.keep_negatives, topic, panel
        self.question = partial(panel.rate_passage, threshold=settings.threshold, logprobs=settings.logprobs)
        self.verdicts: list[Verdict] = []
        self._labels = {(label.passage_id, label.intent_id): label for label in topic.judgments}
        self._dropped: set[str] = set()

    async def run(self) -> None:
        """Asks until every passage has its verdicts, or the topic is rejected."""
        for passage in self._passages("seed_positive"):
            if not await self._review_seed_positive(passage):
                return
        for passage in self._passages("generated_positive"):
            await self._keep_or_drop(passage)
        if not (self._check_positives() and await self._review_negatives()):
            return
        for passage in self._passages("query_negative", "seed_negative", "mined_negative", "distractor"):
            await self._keep_or_drop(passage)
        self._check_positives()

    def reviewed_topic(self) -> Topic:
        """The topic without the dropped passages, with the reviewed labels."""
        passages = tuple(passage for passage in self._topic.passages if passage.id not in self._dropped)
        return replace(self._topic, passages=passages, judgments=tuple(self._kept_labels()))

    def _passages(self, *roles: PassageRole) -> list[Passage]:
        return [passage for passage in self._topic.passages if passage.role in roles]

    def _kept_labels(self) -> Iterator[Judgment]:
        return (label for label in self._labels.values() if label.passage_id not in self._dropped)

    async def _review_seed_positive(self, passage: Passage) -> bool:
        """Reverses each label under an instruction that the passage no longer fits; False if that rejects."""
        for intent, label in self._labels_to_ask(passage):
            count = await self._contradiction(passage, intent, label)
            if count is None:
                continue
            if not (_is_reversible(intent, label) and count.decision == NONE):
                reason = count.failure_reason() if count.decision == TIE else "label_disputed"
                self.verdicts.append(self._panel.verdict(count, passage.id, "reject", reason))
                return False
            self._set_label(replace(label, relevance=-1), count)
            self.verdicts.append(self._panel.verdict(count, passage.id, "edit", "positive_lost"))
        return True

    async def _review_negatives(self) -> bool:
        """Keeps the first instruction negatives that pass; False if there were some and none does."""
        kept_count, negatives = 0, self._passages("instruction_negative")
        for passage in negatives:
            if kept_count < self._keep_negatives:
                kept_count += await self._keep_or_drop(passage)
            else:
                self._drop(passage, Verdict(_NAME, passage.id, "edit", "surplus_negative", _evidence(passage)))
        if negatives and not kept_count:
            evidence = f"none of {len(negatives)} stands"
            self.verdicts.append(reject_verdict(_NAME, "topic", "no_negative_left", evidence))
        return not negatives or kept_count > 0

    async def _keep_or_drop(self, passage: Passage) -> bool:
        """Drops the passage at the first label that is untrue of it."""
        for intent, label in self._labels_to_ask(passage):
            count = await self._contradiction(passage, intent, label)
            if count is None:
                continue
            reason = count.failure_reason() if count.decision == TIE else _drop_reason(intent, label, passage)
            self._drop(passage, self._panel.verdict(count, passage.id, "edit", reason, text=_evidence(passage)))
            return False
        return True

    def _labels_to_ask(self, passage: Passage) -> Iterator[tuple[Intent, Judgment]]:
        """The passage's labels but for what the corpus says of the bare query, the most doubtful first."""
        for intent in sorted(self._topic.intents, key=_certainty):
            label = self._labels.get((passage.id, intent.id))
            if label and (intent.instruction or label.judge != "seed"):
                yield intent, label

    async def _contradiction(self, passage: Passage, intent: Intent, label: Judgment) -> VoteCount | None:
        """Asks whether a label is true. Returns the votes if they do not confirm it; else notes that they do."""
        count = await self._panel.collect_votes(self.question, intent, [passage])
        if {passage.id: 1, NONE: -1}.get(count.decision) != label.relevance:
            return count
        if label.judge in _UNREVIEWED:
            self._set_label(label, count)
        self.verdicts.append(self._panel.verdict(count, passage.id))
        return None

    def _set_label(self, label: Judgment, count: VoteCount) -> None:
        """Stores the label as the judge's own, with its votes."""
        judge, votes = self._panel.label_source(count), count.votes_on(label.passage_id)
        self._labels[label.passage_id, label.intent_id] = replace(label, judge=judge, votes=votes)

    def _drop(self, passage: Passage, verdict: Verdict) -> None:
        self._dropped.add(passage.id)
        self.verdicts.append(verdict)

    def _check_positives(self) -> bool:
        """Whether every intent that had a relevant passage still has one; rejects the topic where one has not."""
        before = {label.intent_id for label in self._topic.judgments if label.relevance > 0}
        after = {label.intent_id for label in self._kept_labels() if label.relevance > 0}
        lost = [intent for intent in self._topic.intents if intent.id in before - after]
        self.verdicts += [
            reject_verdict(_NAME, intent.id, "positive_lost", f"no relevant passage of the {intent.role} intent stands")
            for intent in lost
        ]
        return not lost


def _is_reversible(intent: Intent, label: Judgment) -> bool:
    """Whether a judge may find that the passage is not relevant after all."""
    return label.relevance > 0 and bool(intent.instruction) and label.judge in _REVERSIBLE


def _certainty(intent: Intent) -> int:
    """Sort key of the order in which labels are asked: what is most likely untrue first."""
    return {"instructed": 0, "original": 1}.get(intent.role, 2)


def _drop_reason(intent: Intent, label: Judgment, passage: Passage) -> str:
    """The reason code of a label that the judge contradicts."""
    if label.relevance < 0:
        return "negative_is_relevant"
    if intent.instruction:
        return "positive_not_relevant"
    return "negative_off_topic" if passage.role == "instruction_negative" else "positive_off_topic"


def _evidence(passage: Passage) -> str:
    return truncate(full_text(passage))
