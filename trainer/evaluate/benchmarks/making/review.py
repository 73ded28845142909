"""Judgments that a pool of systems puts in doubt, and a benchmark with what a reader said of them.

    unjudged, ranked high by several systems          perhaps relevant (pooling)
    relevant, found by few (InfoSearch, appendix A.7) perhaps not

InfoSearch looks again at documents that half of its 12 models do not have within the first 50. Its second rule, a score
below 0.5, is left out: scores of different systems have no common scale.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pydantic import Field

from foil.trainer.evaluate.benchmarks.benchmark import Benchmark
from foil.trainer.evaluate.measures.judged import Run, relevant_documents
from foil.trainer.evaluate.measures.ranks import ranked
from foil.trainer.evaluate.systems.system import SystemSettings


class ReviewSettings(SystemSettings):
    """Which judgments are reviewed."""

    high_rank: int = Field(10, ge=1, le=10_000, description="ranks within which an unjudged document is high")
    least_systems: int = Field(2, ge=1, le=1_000, description="systems that rank it so")
    low_rank: int = Field(50, ge=1, le=10**6, description="ranks within which a relevant document is found")
    missed_share: float = Field(0.5, gt=0, le=1, description="share of systems that do not find it")
    items: int = Field(100, ge=1, le=10_000, description="most queries on a sheet, those in most doubt first")
    passages: int = Field(20, ge=1, le=700, description="most documents of a query, those in most doubt first")


def doubtful(benchmark: Benchmark, runs: Sequence[Run], settings: ReviewSettings) -> dict[str, list[str]]:
    """Query -> its documents in doubt, for the queries that have most."""
    doubts = {query.id: _documents(benchmark, query.id, runs, settings) for query in benchmark.queries}
    most = sorted((query for query in doubts if doubts[query]), key=lambda query: (-len(doubts[query]), query))
    return {query: doubts[query] for query in most[: settings.items]}


def _documents(benchmark: Benchmark, query: str, runs: Sequence[Run], settings: ReviewSettings) -> list[str]:
    """In the order of how many systems contradict the judgments."""
    lists = [ranked(run, query) for run in runs]
    against = Counter(_high(benchmark, query, lists, settings)) + Counter(_missed(benchmark, query, lists, settings))
    return [name for name, _ in sorted(against.items(), key=lambda pair: (-pair[1], pair[0]))][: settings.passages]


def _high(benchmark: Benchmark, query: str, lists: Sequence[Sequence[str]], settings: ReviewSettings) -> Iterator[str]:
    judged = benchmark.qrels.get(query, {})
    times = Counter(name for ranking in lists for name in ranking[: settings.high_rank] if name not in judged)
    return (name for name in times.elements() if times[name] >= settings.least_systems)


def _missed(
    benchmark: Benchmark, query: str, lists: Sequence[Sequence[str]], settings: ReviewSettings
) -> Iterator[str]:
    relevant = [name for name in relevant_documents(benchmark.qrels, query) if name in benchmark.documents]
    tops = [set(ranking[: settings.low_rank]) for ranking in lists]
    times = Counter(name for top in tops for name in relevant if name not in top)
    return (name for name in times.elements() if times[name] >= settings.missed_share * len(lists))


def with_judgments(benchmark: Benchmark, marks: Mapping[str, Mapping[str, bool]]) -> Benchmark:
    """The benchmark with a reader's marks (query -> document -> relevant) as judgments; a higher grade stays."""
    qrels = {query: dict(grades) for query, grades in benchmark.qrels.items()}
    for query, own in marks.items():
        grades = qrels.setdefault(query, {})
        grades |= {name: max(1, grades.get(name, 1)) if relevant else 0 for name, relevant in own.items()}
    return replace(benchmark, qrels=qrels)


def changes(before: Benchmark, after: Benchmark) -> dict[str, int]:
    """How many judgments are new, and how many were turned."""
    pairs = [
        (before.qrels.get(query, {}).get(name), grade)
        for query, grades in after.qrels.items()
        for name, grade in grades.items()
    ]
    return {
        "new_relevant": sum(old is None and new > 0 for old, new in pairs),
        "new_not_relevant": sum(old is None and new <= 0 for old, new in pairs),
        "no_longer_relevant": sum(old is not None and old > 0 >= new for old, new in pairs),
    }
