"""Rankings that are there already: the order of a benchmark's own lists, and a TREC run of any other system.

given     the candidates of each query in the order in which the benchmark lists them
run:FILE  the documents of each query by the scores of the file
"""

from collections.abc import Mapping
from pathlib import Path

from foil.engine.errors import UsageError
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark
from foil.trainer.evaluate.measures.judged import Run
from foil.trainer.evaluate.measures.trec_files import read_run
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
