"""The measures of one topic, by name: what a retriever's scores say of its intents and passages."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foil.datasets_out.training.training_view import TopicGroup
from foil.trainer.measures.following.both_views import both_views
from foil.trainer.measures.following.p_mrr import rank_change
from foil.trainer.measures.ranking.ndcg import ndcg

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TopicScores:
    """One topic as a retriever scored it; `scores` and `ranks` (from 1, over the pool) are [intents, its passages]."""

    group: TopicGroup
    scores: Floats
    ranks: NDArray[np.int64]
    cutoff: int


def opposite_views(group: TopicGroup) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Pairs of instructed intents of one query with pairs of passages that they judge the opposite way round.

    ((a, b), (x, y)): a wants x and not y, b wants y and not x.
    """
    opposites = []
    for first, second in combinations(range(len(group.intents)), 2):
        (first_instruction, query), (second_instruction, other_query) = group.intents[first], group.intents[second]
        if first_instruction and second_instruction and query == other_query:
            first_wants = (group.relevance[first] > 0) & (group.relevance[second] < 0)
            second_wants = (group.relevance[first] < 0) & (group.relevance[second] > 0)
            passage_pairs = product(np.flatnonzero(first_wants).tolist(), np.flatnonzero(second_wants).tolist())
            opposites += [((first, second), passages) for passages in passage_pairs]
    return opposites


def rank_changes(group: TopicGroup, ranks: NDArray[np.int64]) -> dict[int, list[float]]:
    """How far passages relevant to a bare query move when it gets an instruction, by their relevance under that."""
    changes: dict[int, list[float]] = {-1: [], 1: []}
    for bare, instructed in product(range(len(group.intents)), repeat=2):
        (bare_instruction, query), (instruction, other_query) = group.intents[bare], group.intents[instructed]
        if not bare_instruction and instruction and query == other_query:
            for passage in np.flatnonzero((group.relevance[bare] > 0) & (group.relevance[instructed] != 0)).tolist():
                change = rank_change(int(ranks[bare, passage]), int(ranks[instructed, passage]))
                changes[int(group.relevance[instructed, passage])].append(change)
    return changes


def _mean_of_topic(topic: TopicScores, values: Sequence[Any]) -> Iterator[tuple[str, float]]:
    if values:
        yield topic.group.topic_id, float(np.mean(values))


def _both_views(topic: TopicScores) -> Iterator[tuple[str, float]]:
    return _mean_of_topic(topic, [both_views(topic.scores[np.ix_(*cells)]) for cells in opposite_views(topic.group)])


def _rank_changes_of(relevance: int, topic: TopicScores) -> Iterator[tuple[str, float]]:
    return _mean_of_topic(topic, rank_changes(topic.group, topic.ranks)[relevance])


def _net(topic: TopicScores) -> Iterator[tuple[str, float]]:
    changes = rank_changes(topic.group, topic.ranks)
    if changes[-1] and changes[1]:
        yield topic.group.topic_id, float(np.mean(changes[-1]) - np.mean(changes[1]))


def _judged_rows(topic: TopicScores, *, instructed: bool) -> Iterator[tuple[str, NDArray[Any], NDArray[np.int64]]]:
    """The name, gains and ranks of each intent with a relevant passage, with or without an instruction."""
    for row, (instruction, _) in enumerate(topic.group.intents):
        gains = np.maximum(topic.group.relevance[row], 0)
        if gains.any() and bool(instruction) is instructed:
            yield f"{topic.group.topic_id}/{row}", gains, topic.ranks[row]


def _ndcg(instructed: bool, topic: TopicScores) -> Iterator[tuple[str, float]]:
    for name, gains, ranks in _judged_rows(topic, instructed=instructed):
        yield name, ndcg(gains[gains > 0], ranks[gains > 0], topic.cutoff)


def _plain_rr(topic: TopicScores) -> Iterator[tuple[str, float]]:
    for name, gains, ranks in _judged_rows(topic, instructed=False):
        yield name, 1.0 / int(ranks[gains > 0].min())


MEASURES: Mapping[str, Callable[[TopicScores], Iterator[tuple[str, float]]]] = {
    "both_views": _both_views,
    "should_fall": partial(_rank_changes_of, -1),
    "should_stay": partial(_rank_changes_of, 1),
    "net": _net,
    "plain_ndcg": partial(_ndcg, False),
    "plain_rr": _plain_rr,
    "instructed_ndcg": partial(_ndcg, True),
}
"""measure -> its values of one topic, as (query or topic, value in [-1, 1])."""
