"""What ranks passages for a miner: the protocol of a scorer, and BM25. The scorer of a model is `model_scorer`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from foil.datasets_out.training.candidate_pool import SplitCandidates
from foil.engine.seeds.bm25 import Bm25Index, best_positions, words_of
from foil.trainer.text_templates import QueryPair, TextTemplate, template_named
from foil.trainer.train.mining.settings import MineSettings

Floats = NDArray[np.float32]


class MiningQuery(Protocol):
    """Queries that a scorer has prepared; `rows` are positions among them."""

    def nearest(self, rows: Sequence[int], depth: int) -> list[list[int]]:
        """For each row the positions of its at most `depth` best opened texts, best first, equal ones by position."""

    def scores(self, rows: Sequence[int], positions: Sequence[int]) -> Floats:
        """[rows, positions]; positions of any texts, opened or not."""


class Scorer(Protocol):
    """Scores the texts of one split's candidates."""

    def prepare(self, pairs: Sequence[QueryPair]) -> MiningQuery: ...


@dataclass(frozen=True, slots=True)
class ScorerSource:
    """A kind of scorer: its name in mined passages, its identity in a run's settings, and how it opens candidates."""

    name: str
    identity: str
    open_scorer: Callable[[SplitCandidates], Scorer]


def bm25_source(settings: MineSettings) -> ScorerSource:
    """BM25 over the texts of a split's candidates."""

    def open_scorer(candidates: SplitCandidates) -> Scorer:
        texts = passage_texts(candidates, template_named("query_instruction"))
        return Bm25Scorer(texts, candidates.minable, instruction_words=settings.instruction_words)

    return ScorerSource("bm25", "bm25", open_scorer)


def passage_texts(candidates: SplitCandidates, template: TextTemplate) -> list[str]:
    """The texts of a split's candidates as a scorer reads them, in the order of their positions."""
    passages = (candidate.passage for candidate in candidates.candidates)
    return [template.format_passage(passage.title, passage.text) for passage in passages]


class Bm25Scorer:
    """Okapi BM25 over the texts, of which the first `opened` may be returned by a search.

    By default the words of an instruction do not count. Most of them name a form of passage, and would match any
    passage that mentions this form, on any subject.
    """

    def __init__(self, texts: Sequence[str], opened: int, *, instruction_words: bool = False) -> None:
        self._index, self._opened, self._texts = Bm25Index(texts), opened, len(texts)
        self._instruction_words = instruction_words

    def prepare(self, pairs: Sequence[QueryPair]) -> MiningQuery:
        texts = [f"{query} {instruction if self._instruction_words else ''}" for instruction, query in pairs]
        return _Bm25Query(self, words_of(texts) if texts else [])

    def scores(self, words: Sequence[str]) -> Floats:
        """The scores of all texts, [texts]."""
        scores = self._index.scores(words)
        return np.zeros(self._texts, dtype=np.float32) if scores is None else scores

    def nearest(self, words: Sequence[str], depth: int) -> list[int]:
        return best_positions(self.scores(words)[: self._opened], depth)


class _Bm25Query:
    def __init__(self, scorer: Bm25Scorer, words: Sequence[Sequence[str]]) -> None:
        self._scorer, self._words = scorer, words

    def nearest(self, rows: Sequence[int], depth: int) -> list[list[int]]:
        return [self._scorer.nearest(self._words[row], depth) for row in rows]

    def scores(self, rows: Sequence[int], positions: Sequence[int]) -> Floats:
        row_words = [tuple(self._words[row]) for row in rows]
        scores_of = {words: self._scorer.scores(words)[list(positions)] for words in set(row_words)}
        return np.stack([scores_of[words] for words in row_words])
