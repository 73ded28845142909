"""How well a retriever follows instructions, and what plain retrieval lost: every measure, query by query.

    both_views        under I one passage wins and under I' the other (ties fail), of all such pairs of a topic
    should_fall       p-MRR of passages that the instruction makes irrelevant, over the pool, against the bare query
    should_stay       the same for passages that stay relevant: it also rises for a model that merely ranks worse
    net               should_fall - should_stay
    instructed_ndcg   nDCG of instructed intents over the pool
    plain_ndcg/_rr    nDCG and reciprocal rank of bare queries over the pool
    rerank_ndcg       nDCG of re-ranking given candidate lists of another collection, without instructions

The pool is every passage of the topics given, each once. Price: each unique text is encoded once; scoring is a matrix
product a topic, [intents, pool].
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from foil.datasets_out.training.training_view import TopicGroup
from foil.engine.errors import TrainingDivergedError
from foil.engine.texts.text_keys import text_key
from foil.trainer.benchmarks.readers.rank_llm import read_hits
from foil.trainer.evaluation.topic_measures import MEASURES, Floats, TopicScores
from foil.trainer.measures.judged import single_queries
from foil.trainer.measures.ranking.ndcg import NDCG
from foil.trainer.measures.significance import bootstrap_interval, differences
from foil.trainer.measures.trec_files import read_qrels
from foil.trainer.model.encoder import Encoder
from foil.trainer.model.packing import evaluating
from foil.trainer.settings import EvaluateSettings, RerankSettings
from foil.trainer.text_templates import QueryPair, TextTemplate

Scores = dict[str, dict[str, float]]
"""measure -> query or topic -> value in [-1, 1]."""


@dataclass(frozen=True, slots=True)
class MeasureDifference:
    """One line of the comparison, in points (x 100); `low` and `high` bound the difference with 95 % confidence."""

    measure: str
    queries: int
    base: float
    trained: float
    difference: float
    low: float
    high: float


def evaluate(
    encoder: Encoder,
    groups: Sequence[TopicGroup],
    settings: EvaluateSettings,
    pairs: Sequence[Sequence[QueryPair]] | None = None,
) -> Scores:
    """All measures of one model on these topics (and on the re-ranking collection, where one is set).

    `pairs`: what is encoded of each topic's intents in place of them; judgments stay as they are.
    """
    template = encoder.template
    encoded = [group.intents for group in groups] if pairs is None else pairs
    pool = {text_key(body): body for group in groups for body in _bodies(group, template)}
    columns = {key: column for column, key in enumerate(sorted(pool, reverse=True))}
    texts = [pool[key] for key in columns]
    vectors = _Vectors(encoder, texts, [pair for of_group in encoded for pair in of_group])
    passages = vectors.of_passages(texts)
    scores: Scores = defaultdict(dict)
    for group, intents in zip(groups, encoded, strict=True):
        own = np.array([columns[text_key(body)] for body in _bodies(group, template)])
        matrix = vectors.of_pairs(intents) @ passages.T
        topic = TopicScores(group, matrix[:, own], ranks_of(matrix, own), settings.cutoff)
        for measure, values_of in MEASURES.items():
            scores[measure].update(values_of(topic))
    if settings.rerank:
        scores["rerank_ndcg"] = rerank(encoder, settings.rerank, settings.cutoff)
    return dict(scores)


def rerank(encoder: Encoder, lists: RerankSettings, cutoff: int) -> dict[str, float]:
    """nDCG of every judged query after sorting its candidates by cosine."""
    queries, candidates = read_hits(lists.hits)
    texts = [text for documents in candidates.values() for text in documents.values()]
    vectors = _Vectors(encoder, texts, [("", query) for query in queries.values()])
    run = {
        qid: dict(zip(documents, _cosines(vectors, list(documents.values()), queries[qid]), strict=True))
        for qid, documents in candidates.items()
    }
    qrels = {qid: judged for qid, judged in read_qrels(lists.qrels).items() if qid in run}
    return NDCG(cutoff).values(single_queries(qrels), qrels, run)


def _cosines(vectors: _Vectors, texts: Sequence[str], query: str) -> list[float]:
    cosines: list[float] = (vectors.of_passages(texts) @ vectors.of_pairs([("", query)])[0]).tolist()
    return cosines


def means(scores: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Each measure's mean over its queries, in points (x 100)."""
    return {measure: 100 * float(np.mean(list(values.values()))) for measure, values in scores.items() if values}


def compare(base: Scores, trained: Scores, resamples: int, seed: int = 0) -> list[MeasureDifference]:
    """Base against trained, query by query, with paired bootstrap intervals of the difference."""
    return [_difference(m, base[m], trained[m], resamples, seed) for m in base if base[m]]


def compare_corpora(
    groups: Sequence[TopicGroup], base: Scores, trained: Scores, resamples: int
) -> dict[str, list[MeasureDifference]]:
    """The comparison on the topics of each corpus alone, by the corpus; the pool is still that of all topics."""
    corpus_of = {group.topic_id: group.corpus for group in groups}
    return {
        corpus: compare(_of_corpus(base, corpus_of, corpus), _of_corpus(trained, corpus_of, corpus), resamples)
        for corpus in sorted(set(corpus_of.values()))
    }


def _of_corpus(scores: Scores, corpus_of: Mapping[str, str], corpus: str) -> Scores:
    """The values whose name begins with a topic of that corpus."""
    return {
        measure: {name: value for name, value in values.items() if corpus_of.get(name.partition("/")[0]) == corpus}
        for measure, values in scores.items()
    }


def _difference(
    measure: str, base: Mapping[str, float], trained: Mapping[str, float], resamples: int, seed: int
) -> MeasureDifference:
    before, after = ({query: 100 * value for query, value in scores.items()} for scores in (base, trained))
    gained = differences(before, after)
    low, high = bootstrap_interval(gained, resamples, seed=seed)
    start, gain = float(np.mean(list(before.values()))), float(gained.mean())
    return MeasureDifference(measure, len(gained), start, start + gain, gain, low, high)


class _Vectors:
    """The vectors of passages and pairs, each unique one encoded once."""

    def __init__(self, encoder: Encoder, passages: Sequence[str], pairs: Sequence[QueryPair]) -> None:
        self._passage = {text: row for row, text in enumerate(dict.fromkeys(passages))}
        self._pair = {pair: row for row, pair in enumerate(dict.fromkeys(pairs), len(self._passage))}
        with torch.inference_mode(), evaluating(encoder):
            self._vectors: Floats = encoder.encode(list(self._passage), list(self._pair)).cpu().numpy()
        finite(self._vectors)

    def of_passages(self, texts: Sequence[str]) -> Floats:
        return self._vectors[[self._passage[text] for text in texts]]

    def of_pairs(self, pairs: Sequence[QueryPair]) -> Floats:
        return self._vectors[[self._pair[pair] for pair in pairs]]


def finite(values: Floats) -> Floats:
    """The same vectors or scores; TrainingDivergedError where one is no finite number."""
    if not np.isfinite(values).all():
        raise TrainingDivergedError(
            "the model has vectors or scores that are not finite numbers, so nothing can be ranked; its training "
            "diverged: lower `learning_rate`, or take another model"
        )
    return values


def _bodies(group: TopicGroup, template: TextTemplate) -> Iterator[str]:
    return (template.format_passage(*passage) for passage in group.passages)


def ranks_of(matrix: Floats, own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ranks from 1 of the columns `own` in every row, [intents, own]; of equal scores the first column wins."""
    scores = matrix[:, own, None]
    before = np.arange(matrix.shape[1]) < own[:, None]
    ahead = (matrix[:, None, :] > scores) | ((matrix[:, None, :] == scores) & before)
    return 1 + np.asarray(ahead.sum(2))
