"""The topics of a release: what a trainer sees of each split, and no more.

    a training view --separation--> topics with the intents and passages of their split --> rows of a format

Promise: a topic lies in the split, and has the intents and passages, that a training run on the same snapshot and
settings gives it. What else a topic carries goes too where it could tell a protected text: verdicts of removed parts,
their evidence, attributes that are such a text. Replies of models are never part of a release.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, compress

from foil.datasets_out.commits.snapshot import read_partitions
from foil.datasets_out.training.judge_scores import Probabilities, log_odds, probabilities_of
from foil.datasets_out.training.training_view import KeptTopic, Split, TrainingView
from foil.engine.topic import Intent, Passage, Topic


@dataclass(frozen=True, slots=True)
class ReleasedTopic:
    """A topic as one split may hold it, and what a judge said of its cells."""

    topic: Topic
    split: Split
    probabilities: Probabilities = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JudgedIntent:
    """An intent with the passages that are judged relevant and not relevant under it."""

    intent: Intent
    positives: tuple[Passage, ...]
    negatives: tuple[Passage, ...]
    probabilities: Mapping[str, float]

    def scored(self) -> Iterator["JudgedIntent"]:
        """The intent with the passages that have a P(relevant), by their ids, where some of either kind have one."""
        positives, negatives = (
            tuple(p for p in of if p.id in self.probabilities) for of in (self.positives, self.negatives)
        )
        if positives and negatives:
            yield replace(self, positives=positives, negatives=negatives)

    def scores(self, passages: Iterable[Passage]) -> list[float]:
        """The log odds of passages that have a P(relevant)."""
        return [round(odds, 4) for odds in log_odds([self.probabilities[p.id] for p in passages]).tolist()]


def released_topics(view: TrainingView, splits: Collection[Split]) -> Iterator[ReleasedTopic]:
    """The topics of these splits, in the order of the partitions; one partition is in memory."""
    partitions = chain.from_iterable(read_partitions(source.snapshot) for source in view.sources)
    for number, partition in enumerate(partitions):
        topics = {topic.id: topic for topic in partition}
        for choice in view.kept(number):
            if choice.split in splits:
                topic = topics[choice.topic_id]
                yield ReleasedTopic(_separated(topic, choice, view), choice.split, probabilities_of(topic.verdicts))


def judged_intents(released: ReleasedTopic) -> Iterator[JudgedIntent]:
    """Each intent with its judged passages, in the order of the topic's passages."""
    topic = released.topic
    for intent in topic.intents:
        marks = {j.passage_id: j.relevance for j in topic.judgments if j.intent_id == intent.id}
        positives, negatives = (tuple(p for p in topic.passages if marks.get(p.id, 0) * sign > 0) for sign in (1, -1))
        own = {passage: chance for (of, passage), chance in released.probabilities.items() if of == intent.id}
        yield JudgedIntent(intent, positives, negatives, own)


def _separated(topic: Topic, choice: KeptTopic, view: TrainingView) -> Topic:
    def open_only(attributes: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in attributes.items() if not view.protects(choice.split, value)}

    intents = tuple(compress(topic.intents, choice.intents))
    passages = tuple(compress(topic.passages, choice.passages))
    ids = {intent.id for intent in intents} | {passage.id for passage in passages}
    whole = bool(choice.intents.all() and choice.passages.all())
    verdicts = (verdict for verdict in topic.verdicts if verdict.scope in ids or verdict.scope == "topic")
    return replace(
        topic,
        query="" if view.protects(choice.split, topic.query) else topic.query,
        intents=tuple(replace(intent, attributes=open_only(intent.attributes)) for intent in intents),
        passages=tuple(replace(passage, attributes=open_only(passage.attributes)) for passage in passages),
        judgments=tuple(j for j in topic.judgments if j.intent_id in ids and j.passage_id in ids),
        verdicts=tuple(verdict if whole else replace(verdict, evidence="") for verdict in verdicts),
        calls=tuple(replace(call, reply_text="") for call in topic.calls),
        attributes=open_only(topic.attributes),
    )
