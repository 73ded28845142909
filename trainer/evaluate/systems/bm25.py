"""BM25 as a system: the words of query and instruction together, over all documents.

Without candidate lists, a document that shares no word with the query is not retrieved; candidates all are.
"""

import numpy as np

from foil.engine.seeds.bm25 import ALL_WORDS, WITHOUT_STOP_WORDS, Bm25Index, best_positions, words_of
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark
from foil.trainer.evaluate.measures.judged import Run
from foil.trainer.evaluate.systems.system import Bm25Settings, Progress, positions_of_candidates, quiet


class Bm25:
    """`bm25s` in Lucene's form over lower-cased words, not stemmed."""

    name = "bm25"

    def __init__(self, settings: Bm25Settings, on_progress: Progress = quiet) -> None:
        self._settings, self._on_progress = settings, on_progress

    def facts(self) -> dict[str, str | float]:
        """k1 and b."""
        return {"system": self.name, **self._settings.model_dump(), "template": "query_instruction"}

    def rank(self, benchmark: Benchmark, k: int) -> Run:
        """The best documents of each query by their scores."""
        documents, run = list(benchmark.documents), {}
        texts = [" ".join(parts) for parts in benchmark.documents.values()]
        spelling = ALL_WORDS if self._settings.stop_words else WITHOUT_STOP_WORDS
        index = Bm25Index(texts, self._settings.k1, self._settings.b, spelling)
        words = words_of([f"{query.query} {query.instruction}" for query in benchmark.queries], spelling)
        places = positions_of_candidates(benchmark, documents)
        for number, (query, own) in enumerate(zip(benchmark.queries, words, strict=True), start=1):
            matching = index.scores(own)
            scores = np.zeros(len(documents), dtype=np.float32) if matching is None else matching
            best = places[query.id] if places else best_positions(scores, k)
            run[query.id] = {documents[place]: float(scores[place]) for place in best}
            self._on_progress(f"{self.name}: queries", number, len(words))
        return run
