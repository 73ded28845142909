"""The lists that a reranker learns to order: an instruction and a query, with passages judged under them.

    topics of a batch -> a list for every intent: what it wants, what it does not, passages of other topics

A bare query is an intent like others, with its plain relevance, so that plain retrieval is learnt too. What nobody
judged under an intent is not in its list. A passage of another topic counts as irrelevant, as in-batch negatives do;
none is taken that the topic holds itself or that a topic with the same query holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foil.datasets_out.training.training_view import TopicGroup
from foil.engine.texts.words import text_key
from foil.trainer.model.pair_scorer import TextPair
from foil.trainer.text_templates import TextForms


@dataclass(frozen=True, slots=True)
class RankingList:
    """The text of one intent and its passages; `relevant` is [passages] bool, with some of both kinds."""

    is_bare: bool
    query: str
    passages: tuple[str, ...]
    relevant: NDArray[np.bool_]

    @property
    def pairs(self) -> list[TextPair]:
        """What the model scores, [passages]."""
        return [(self.query, passage) for passage in self.passages]


def make_lists(groups: Sequence[TopicGroup], forms: TextForms, other_passages: int, seed: int) -> list[RankingList]:
    """The lists of all intents of these topics that have something to order; equal arguments give equal lists."""
    generator = np.random.default_rng(seed)
    texts = [{text_key(text): text for text in texts_of(group, forms)} for group in groups]
    queries = [{text_key(query) for _, query in group.intents} for group in groups]
    lists = []
    for number, group in enumerate(groups):
        foreign: dict[int, str] = {}
        for topic, passages in enumerate(texts):
            if queries[topic].isdisjoint(queries[number]):
                foreign |= passages
        pool = [text for key, text in foreign.items() if key not in texts[number]]
        for row in range(len(group.intents)):
            count = min(other_passages, len(pool))
            negatives = [pool[place] for place in generator.choice(len(pool), count, replace=False)] if count else []
            lists.append(_list_of(group, row, forms, negatives))
    return [each for each in lists if 0 < each.relevant.sum() < len(each.relevant)]


def texts_of(group: TopicGroup, forms: TextForms) -> list[str]:
    """The texts of a topic's passages."""
    return forms.format_passages(group.passages)


def _list_of(group: TopicGroup, row: int, forms: TextForms, negatives: Sequence[str]) -> RankingList:
    instruction, query = group.intents[row]
    relevance: Mapping[str, bool] = {
        text: bool(value > 0)
        for text, value in zip(texts_of(group, forms), group.relevance[row], strict=True)
        if value != 0
    }
    passages = (*relevance, *negatives)
    relevant = np.array([relevance.get(text, False) for text in passages], dtype=bool)
    return RankingList(not instruction, forms.format_pairs([(instruction, query)])[0], passages, relevant)
