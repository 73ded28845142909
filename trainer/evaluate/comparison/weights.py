"""Models in memory as systems, for few documents: every document, or every candidate, gets its rank.

EncoderSystem   all texts are encoded together; the scores of a query are worked out when they are asked for
                with late interaction scores are kept in place of vectors: see `late_scores`
ScorerSystem    the candidates that queries share go through the cross-encoder together
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
import torch

from foil.engine.errors import TrainingDivergedError
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery
from foil.trainer.evaluate.measures.judged import Run
from foil.trainer.evaluate.systems.dense import Floats
from foil.trainer.evaluate.systems.embedder import unit_vectors
from foil.trainer.model.encoder import Encoder
from foil.trainer.model.late_interaction import mean_max_sim
from foil.trainer.model.packing import evaluating
from foil.trainer.model.pair_scorer import PairScorer
from foil.trainer.text_templates import QueryPair

Scores = Mapping[str, float]
TEXTS_AT_ONCE = 1_024
"""Passages whose tokens are sorted by length together."""


class _InMemory:
    def facts(self) -> Mapping[str, str | float]:
        """Nothing: whoever holds the model knows it."""
        return {}


class EncoderSystem(_InMemory):
    """An embedder; the run holds no mapping of every query and document, but what gives one."""

    def __init__(self, name: str, encoder: Encoder) -> None:
        self.name, self.template, self._encoder = name, encoder.template, encoder

    def rank(self, benchmark: Benchmark, k: int) -> Run:
        """All documents, or all candidates, by cosine or MeanMaxSim."""
        del k  # a rank is asked of every document
        texts = self.template.format_passages(list(benchmark.documents.values()))
        pairs = {query.id: (query.instruction, query.query) for query in benchmark.queries}
        rows = {pair: row for row, pair in enumerate(dict.fromkeys(pairs.values()))}
        if self._encoder.is_late:
            table = finite(late_scores(self._encoder, texts, list(rows)))
        else:  # in double precision, so that equal ones tie
            vectors = finite(unit_vectors(self._encoder, texts, list(rows))).astype(np.float64)
            passages, pair_vectors = vectors[: len(texts)], vectors[len(texts) :]
        documents, lists = list(benchmark.documents), benchmark.candidates

        def scores_of(query: str) -> Scores:
            row = rows[pairs[query]]
            own = table[row] if self._encoder.is_late else (pair_vectors[row : row + 1] @ passages.T)[0]
            scores = dict(zip(documents, own.tolist(), strict=True))
            return scores if lists is None else {document: scores[document] for document in lists[query]}

        return _LazyRun(tuple(pairs), scores_of)


def late_scores(encoder: Encoder, passages: Sequence[str], pairs: Sequence[QueryPair]) -> Floats:
    """MeanMaxSim of every pair with every passage, [pairs, passages].

    A micro-batch of passages is compared with one of pairs after the other, and its token vectors are dropped. Price: 4
    bytes a score, 4 D a token of a pair, and what one micro-batch of passages takes, however many passages there are.
    """
    scores = torch.empty(len(pairs), len(passages))
    with torch.inference_mode(), evaluating(encoder):
        pair_batches = [(batch.rows, vectors) for batch, vectors in encoder.encode_batches([], pairs)]
        for start in range(0, len(passages), TEXTS_AT_ONCE):
            for batch, vectors in encoder.encode_batches(passages[start : start + TEXTS_AT_ONCE], []):
                for rows, own in pair_batches:
                    scores[rows[:, None], batch.rows + start] = mean_max_sim(own, vectors).cpu()
    return np.asarray(scores.numpy())


class ScorerSystem(_InMemory):
    """A cross-encoder over candidates."""

    def __init__(self, name: str, scorer: PairScorer) -> None:
        self.name, self.template, self._scorer = name, scorer.template, scorer

    def rank(self, benchmark: Benchmark, k: int) -> Run:
        """All candidates by score."""
        del k  # a rank is asked of every document
        assert benchmark.candidates is not None
        sharing: dict[tuple[str, ...], list[EvaluationQuery]] = {}
        for query in benchmark.queries:
            sharing.setdefault(benchmark.candidates[query.id], []).append(query)
        return {
            query.id: dict(zip(documents, row, strict=True))
            for documents, queries in sharing.items()
            for query, row in zip(queries, self._scores(benchmark, documents, queries).tolist(), strict=True)
        }

    def _scores(self, benchmark: Benchmark, documents: tuple[str, ...], queries: list[EvaluationQuery]) -> Floats:
        query_texts = self._scorer.texts.format_pairs([(query.instruction, query.query) for query in queries])
        texts = self.template.format_passages([benchmark.documents[document] for document in documents])
        scores = self._scorer.score([(query, passage) for query in query_texts for passage in texts])
        return finite(np.asarray(scores.numpy().reshape(len(query_texts), len(texts))))


class _LazyRun(Mapping[str, Scores]):
    """A run whose scores are made when they are read; those of the last few queries are kept."""

    def __init__(self, queries: tuple[str, ...], scores_of: Callable[[str], Scores]) -> None:
        self._queries, self._scores_of = dict.fromkeys(queries), lru_cache(maxsize=16)(scores_of)

    def __getitem__(self, query: str) -> Scores:
        return self._scores_of(query)

    def __iter__(self) -> Iterator[str]:
        return iter(self._queries)

    def __len__(self) -> int:
        return len(self._queries)


def finite(values: Floats) -> Floats:
    """The same vectors or scores; TrainingDivergedError where one is no finite number."""
    if not np.isfinite(values).all():
        raise TrainingDivergedError(
            "the model has vectors or scores that are not finite numbers, so nothing can be ranked; its training "
            "diverged: lower `learning_rate`, or take another model"
        )
    return values
