"""The scorer of a model: it encodes every passage once, and searches each query's best passages block by block.

At most QUERIES x PASSAGES scores are held at a time; equal scores are ordered by position. Price: the passages' vectors
are held in memory, 4 D bytes each (1.5 GB for a million of 384 numbers); a query costs 2 D operations a passage.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from foil.datasets_out.training.candidate_pool import SplitCandidates
from foil.engine.errors import UsageError
from foil.engine.ids import canonical_json
from foil.engine.seeds.bm25 import best_positions
from foil.trainer.model.checksums import folder_digest, trained_template
from foil.trainer.model.encoder import Encoder, load_encoder
from foil.trainer.model.late_interaction import need_one_vector
from foil.trainer.model.packaged_minilm import minilm_folder
from foil.trainer.text_templates import QueryPair, template_named
from foil.trainer.train.mining.scorers import Floats, MiningQuery, Scorer, ScorerSource, passage_texts
from foil.trainer.train.mining.settings import MineSettings

QUERIES, PASSAGES = 128, 65_536
"""Vectors multiplied at once: 32 MB of scores."""
TEXTS = 2_048
"""Texts encoded between two reports of progress."""


def model_source(settings: MineSettings, on_progress: Callable[[int, int], None]) -> ScorerSource:
    """Cosines of the model that the settings name; it is loaded when the first candidates is opened."""
    path = settings.model or minilm_folder()
    if not path.is_dir():
        raise UsageError(f"model {path} is no directory; give that of a saved SentenceTransformer, such as OUT/model")
    chosen = template_named(settings.template or "query_instruction")
    template = chosen if settings.template else trained_template(path) or chosen
    digest = folder_digest(path)

    def open_scorer(candidates: SplitCandidates) -> Scorer:
        encoder = load_encoder(path, template, settings.encode)
        need_one_vector(encoder, path, "mining")
        return ModelScorer(encoder, passage_texts(candidates, template), candidates.minable, on_progress)

    return ScorerSource(f"model:{digest[:12]}", canonical_json([digest, template.name]), open_scorer)


class ModelScorer:
    """Cosines over texts, of which a search returns the first `opened`. It calls `on_progress(done, texts)`."""

    def __init__(
        self,
        encoder: Encoder,
        texts: Sequence[str],
        opened: int,
        on_progress: Callable[[int, int], None] = lambda *_: None,
    ) -> None:
        self._encoder, self._opened = encoder, opened
        self._vectors = np.zeros((len(texts), encoder.model.get_embedding_dimension() or 0), dtype=np.float32)
        for start in range(0, len(texts), TEXTS):
            part = texts[start : start + TEXTS]
            self._vectors[start : start + len(part)] = self._encoded(part, [])
            on_progress(start + len(part), len(texts))

    def prepare(self, pairs: Sequence[QueryPair]) -> MiningQuery:
        return _ModelQuery(self._encoded([], pairs), self._vectors, self._opened)

    def _encoded(self, texts: Sequence[str], pairs: Sequence[QueryPair]) -> Floats:
        with torch.inference_mode():
            vectors: Floats = self._encoder.encode(texts, pairs).cpu().numpy()
        return vectors


class _ModelQuery:
    def __init__(self, queries: Floats, vectors: Floats, opened: int) -> None:
        self._queries, self._vectors, self._opened = queries, vectors, opened

    def nearest(self, rows: Sequence[int], depth: int) -> list[list[int]]:
        opened, queries = self._vectors[: self._opened], self._queries[list(rows)]
        parts = (queries[start : start + QUERIES] for start in range(0, len(rows), QUERIES))
        return [positions for part in parts for positions in nearest(part, opened, depth)]

    def scores(self, rows: Sequence[int], positions: Sequence[int]) -> Floats:
        return self._queries[list(rows)] @ self._vectors[list(positions)].T


def nearest(queries: Floats, vectors: Floats, depth: int, block: int = PASSAGES) -> list[list[int]]:
    """For each query, [Q, D], the positions of the `depth` vectors, [P, D], of the highest products, best first.

    >>> nearest(np.eye(2, dtype=np.float32), np.array([[1, 0], [3, 1], [1, 0]], dtype=np.float32), 2, block=2)
    [[1, 0], [1, 0]]
    """
    best_by_query = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)) for _ in queries]
    for start in range(0, len(vectors), block):
        scores = queries @ vectors[start : start + block].T
        best_by_query = [_merged(best, row, start, depth) for best, row in zip(best_by_query, scores, strict=True)]
    return [positions.tolist() for positions, _ in best_by_query]


def _merged(
    best: tuple[NDArray[np.int64], Floats], scores: Floats, start: int, depth: int
) -> tuple[NDArray[np.int64], Floats]:
    """The best of the earlier blocks and of this block's scores; of equal scores the earlier comes first."""
    positions, best_scores = best
    floor = float(best_scores[-1]) if len(best_scores) == depth else -np.inf
    near = np.array(best_positions(scores, depth, floor), dtype=np.int64)
    positions, best_scores = np.concatenate((positions, near + start)), np.concatenate((best_scores, scores[near]))
    order = np.argsort(-best_scores, kind="stable")[:depth]
    return positions[order], best_scores[order]
