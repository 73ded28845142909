"""How well a reranker follows instructions: the measures of topics, over the candidates that a topic's intents share.

The candidates are the topic's passages and those of the next OTHER_TOPICS topics; ranks are among them. An embedder is
measured on the same candidates, so the two can be compared. Price: a forward pass an intent and candidate.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import torch

from foil.datasets_out.training.training_view import TopicGroup
from foil.engine.texts.text_keys import text_key
from foil.trainer.evaluation.evaluate import Scores, finite, means, ranks_of
from foil.trainer.evaluation.topic_measures import MEASURES, Floats, TopicScores
from foil.trainer.model.encoder import Encoder
from foil.trainer.model.packing import evaluating
from foil.trainer.reranker.pair_scorer import PairScorer
from foil.trainer.reranker.ranking_lists import texts_of
from foil.trainer.settings import EvaluateSettings
from foil.trainer.text_templates import QueryPair, TextTemplate

OTHER_TOPICS = 4
ScoreTable = Callable[[Sequence[QueryPair], Sequence[str]], Floats]
"""The scores of every pair with every passage, [pairs, passages]."""


def measure_reranker(scorer: PairScorer, groups: Sequence[TopicGroup]) -> dict[str, float]:
    """The means of all measures of a reranker on these topics, in points."""
    return means(evaluate_lists(table_of_scorer(scorer), scorer.template, groups, EvaluateSettings().cutoff))


def evaluate_lists(table: ScoreTable, template: TextTemplate, groups: Sequence[TopicGroup], cutoff: int) -> Scores:
    """All measures of topics, query by query."""
    scores: Scores = defaultdict(dict)
    texts = [list(dict.fromkeys(texts_of(group, template))) for group in groups]
    for number, group in enumerate(groups):
        near = [texts[(number + step) % len(groups)] for step in range(min(OTHER_TOPICS + 1, len(groups)))]
        pool = {text_key(text): text for passages in near for text in passages}
        columns = {key: column for column, key in enumerate(sorted(pool, reverse=True))}
        matrix = finite(table(group.intents, [pool[key] for key in columns]))
        own = np.array([columns[text_key(text)] for text in texts_of(group, template)])
        topic = TopicScores(group, matrix[:, own], ranks_of(matrix, own), cutoff)
        for measure, values_of in MEASURES.items():
            scores[measure].update(values_of(topic))
    return dict(scores)


def table_of_scorer(scorer: PairScorer) -> ScoreTable:
    """The scores of a cross-encoder."""

    def table(pairs: Sequence[QueryPair], passages: Sequence[str]) -> Floats:
        queries = scorer.texts.format_pairs(pairs)
        scores = scorer.score([(query, passage) for query in queries for passage in passages])
        return np.asarray(scores.numpy().reshape(len(pairs), len(passages)))

    return table


def table_of_encoder(encoder: Encoder) -> ScoreTable:
    """The cosines of an embedder."""

    def table(pairs: Sequence[QueryPair], passages: Sequence[str]) -> Floats:
        with torch.inference_mode(), evaluating(encoder):
            vectors = encoder.encode(passages, pairs).cpu().numpy()
        return np.asarray(vectors[len(passages) :] @ vectors[: len(passages)].T)

    return table
