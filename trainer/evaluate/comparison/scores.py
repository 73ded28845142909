"""What systems are worth on a benchmark, query by query: they rank, measures look at the runs.

benchmark, collection by collection -> each system ranks it -> each measure's values -> Scores, without the texts
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery
from foil.trainer.evaluate.measures.catalog import measure_all, measure_named
from foil.trainer.evaluate.measures.judged import Run
from foil.trainer.evaluate.systems.system import System, ranking_of

GROUPED_BY = ("mode", "dimension", "domain")
"""What queries are grouped by, where a benchmark has such groups."""

SCORE = "score"
"""FollowIR's: AP@1000 of Robust04 and Core17, nDCG@5 of News21, under the original instructions (its section 5)."""

Values = Mapping[str, float]
"""Query, or core of queries -> value in [-1, 1]."""


@dataclass(frozen=True, slots=True)
class CollectionScores:
    """All values on one collection: system -> measure -> values. `groups`: attribute -> query or core -> its group.

    `read`: the ledger of its files.
    """

    name: str
    digest: str
    revision: str
    values: Mapping[str, Mapping[str, Values]]
    groups: Mapping[str, Mapping[str, str]]
    read: Mapping[str, Any] = field(default_factory=dict)


def score(
    benchmarks: Iterable[Benchmark],
    systems: Sequence[System],
    measures: Sequence[str],
    depth: int,
    on_run: Callable[[Benchmark, System, Run], None] = lambda *_: None,
) -> Iterator[CollectionScores]:
    """The scores on each collection, by these measures or else by the collection's own."""
    for benchmark in benchmarks:
        chosen = [measure_named(name) for name in measures or benchmark.measures]
        values = {}
        for system in systems:
            run = ranking_of(system, benchmark, depth)
            on_run(benchmark, system, run)
            values[system.name] = measure_all(chosen, benchmark.queries, benchmark.qrels, run)
            if headline := _headline(benchmark, values[system.name]):
                values[system.name] |= {SCORE: headline}
        groups = groups_of(benchmark.queries)
        yield CollectionScores(
            benchmark.name, benchmark.digest, benchmark.revision, values, groups, benchmark.ledger.plain()
        )


def _headline(benchmark: Benchmark, values: Mapping[str, Values]) -> dict[str, float]:
    """The values of the measure of the score, of the queries that are as they were; empty where there are none."""
    as_they_were = {query.id for query in benchmark.queries if query.mode == "original"}
    return {name: value for name, value in values.get(benchmark.headline, {}).items() if name in as_they_were}


def groups_of(queries: Sequence[EvaluationQuery]) -> dict[str, dict[str, str]]:
    """Of each attribute that has a value, the group of every query, and of every core but for its mode.

    >>> groups_of([EvaluationQuery("q1", "", core="q", dimension="length")])
    {'mode': {'q1': 'original'}, 'dimension': {'q': 'length', 'q1': 'length'}}
    """
    groups: dict[str, dict[str, str]] = {}
    for attribute in GROUPED_BY:
        labelled = [(query, getattr(query, attribute)) for query in queries if getattr(query, attribute)]
        by_core = {query.core: group for query, group in labelled} if attribute != "mode" else {}
        if labelled:
            groups[attribute] = by_core | {query.id: group for query, group in labelled}
    return groups
