"""Rankings without a model: the order of a benchmark's own lists, a TREC run of any other system, and BM25.

given     the candidates of each query in the order in which the benchmark lists them
run:FILE  the documents of each query by the scores of the file
bm25      the words of query and instruction together, over all documents
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from foil.engine.errors import UsageError
from foil.engine.seeds.bm25 import ALL_WORDS, WITHOUT_STOP_WORDS, Bm25Index, best_positions, words_of
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark
from foil.trainer.evaluate.measures.judged import Run
from foil.trainer.evaluate.measures.trec_files import read_run
from foil.trainer.evaluate.systems.system import Bm25Settings, Progress, positions_of_candidates, quiet
from foil.trainer.model.checksums import digest_of


class GivenOrder:
    """The first stage that a re-ranking benchmark brings along, where its lists are ordered, best first."""

    name = "given"

    def facts(self) -> Mapping[str, str | float]:
        """Its name; the lists are part of the benchmark's digest."""
        return {"system": self.name}

    def rank(self, benchmark: Benchmark, k: int) -> Run:
        """The first `k` candidates, scored by their places. Raises UsageError where there are no lists."""
        if benchmark.candidates is None:
            raise UsageError(f"{benchmark.name} has no lists of candidates, so no order is given; leave out `given`")
        lists = {query.id: benchmark.candidates.get(query.id, ())[:k] for query in benchmark.queries}
        return {query: {name: float(-place) for place, name in enumerate(names)} for query, names in lists.items()}


class TrecRun:
    """The run in a file. Of a query that is not there nothing is retrieved; other candidates than those listed are."""

    def __init__(self, path: str) -> None:
        self.name, self._path = f"run:{path}", Path(path)
        self._run = read_run(self._path)

    def facts(self) -> Mapping[str, str | float]:
        """Its name and the digest of the file."""
        return {"system": self.name, "weights": digest_of(self._path)}

    def rank(self, benchmark: Benchmark, k: int) -> Run:
        """The first `k` of the file, or those among the candidates. Raises UsageError where no query is in the file."""
        ids = [query.id for query in benchmark.queries]
        if not any(query in self._run for query in ids):
            raise UsageError(f"{self._path} has no query of {benchmark.name}, such as {ids[0]}; give the run of it")
        return {query: self._documents(benchmark, query, k) for query in ids}

    def _documents(self, benchmark: Benchmark, query: str, k: int) -> dict[str, float]:
        scores = self._run.get(query, {})
        if benchmark.candidates is not None:
            listed = benchmark.candidates.get(query, ())
            return {document: scores[document] for document in listed if document in scores}
        return dict(sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:k])


class Bm25:
    """`bm25s` in Lucene's form over lower-cased words, not stemmed.

    Without candidate lists, a document that shares no word with the query is not retrieved; candidates all are.
    """

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
