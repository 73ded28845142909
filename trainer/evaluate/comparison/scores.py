"""What systems are worth on a benchmark, query by query: they rank, measures look at the runs.

benchmark, collection by collection -> each system ranks it -> each measure's values -> Scores, without the texts
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery, unreachable
from foil.trainer.evaluate.measures.catalog import Measure, measure_all, measure_named
from foil.trainer.evaluate.measures.following.p_mrr import PMRR
from foil.trainer.evaluate.measures.judged import Run
from foil.trainer.evaluate.measures.ranking import RankingMeasure
from foil.trainer.evaluate.systems.model_free import GivenOrder, TrecRun
from foil.trainer.evaluate.systems.system import System, ranking_of

GROUPED_BY = ("mode", "dimension", "domain")
"""What queries are grouped by, where a benchmark has such groups."""

SCORE = "score"
"""FollowIR's: AP@1000 of Robust04 and Core17, nDCG@5 of News21, under the original instructions (its section 5)."""

Values = Mapping[str, float]
"""Query, or core of queries -> value in [-1, 1]."""


@dataclass(frozen=True, slots=True)
class BothWays:
    """The values of one measure by the same judgments, of the same queries: with their instructions, and without.

    `p_mrr`: by core, where queries have variants. `bare` is empty where a system has no ranking of bare queries.
    """

    measure: str
    instructed: Values
    bare: Values
    p_mrr: Values


@dataclass(frozen=True, slots=True)
class CollectionScores:
    """All values on one collection: system -> measure -> values. `groups`: attribute -> query or core -> its group.

    `read`: the ledger of its files. `both_ways`: by system, where it was asked for. `unreachable`: judgments that no
    system can rank, and the relevant ones of them.
    """

    name: str
    digest: str
    revision: str
    values: Mapping[str, Mapping[str, Values]]
    groups: Mapping[str, Mapping[str, str]]
    read: Mapping[str, Any] = field(default_factory=dict)
    both_ways: Mapping[str, BothWays] = field(default_factory=dict)
    unreachable: tuple[int, int] = (0, 0)


def score(
    benchmarks: Iterable[Benchmark],
    systems: Sequence[System],
    measures: Sequence[str],
    depth: int,
    on_run: Callable[[Benchmark, System, Run], None] = lambda *_: None,
    *,
    bare: bool = False,
) -> Iterator[CollectionScores]:
    """The scores on each collection, by these measures or else by the collection's own.

    `bare`: every query with an instruction is ranked without it too, by systems that read queries: no order that was
    there before has the bare ones.
    """
    for benchmark in benchmarks:
        chosen = [measure_named(name) for name in measures or benchmark.measures]
        both, bare_of = with_bare(benchmark) if bare else (benchmark, {})
        values, both_ways = {}, {}
        for system in systems:
            reads = bare and not isinstance(system, GivenOrder | TrecRun)
            run = ranked = ranking_of(system, both if reads else benchmark, depth)
            if len(ranked) > len(benchmark.queries):  # a run may be lazy, so no other is copied
                run = {query.id: ranked[query.id] for query in benchmark.queries}
            on_run(benchmark, system, run)
            values[system.name] = measure_all(chosen, benchmark.queries, benchmark.qrels, run)
            if headline := _headline(benchmark, values[system.name]):
                values[system.name] |= {SCORE: headline}
            if measure := _headline_measure(benchmark, chosen) if bare else None:
                both_ways[system.name] = _both_ways(benchmark, measure, ranked, bare_of, reads=reads)
        yield CollectionScores(
            benchmark.name, benchmark.digest, benchmark.revision, values, groups_of(benchmark.queries),
            benchmark.ledger.plain(), both_ways, unreachable(benchmark),
        )  # fmt: skip


def _headline_measure(benchmark: Benchmark, chosen: Sequence[Measure]) -> Measure | None:
    """The measure that the benchmark calls its score, if it is chosen; else the first of ranked lists."""
    of_lists = [measure for measure in chosen if isinstance(measure, RankingMeasure)]
    return next((measure for measure in of_lists if measure.name == benchmark.headline), next(iter(of_lists), None))


def _both_ways(
    benchmark: Benchmark, measure: Measure, run: Run, bare_of: Mapping[str, str], *, reads: bool
) -> BothWays:
    """With and, where the system `reads` queries, without the instruction; by the headline, queries as they were."""
    name, queries, qrels = measure.name, benchmark.queries, benchmark.qrels
    counted = [query for query in queries if query.id in bare_of]
    if name == benchmark.headline:
        counted, name = [query for query in counted if query.mode == "original"], SCORE
    without = {query.id: run[bare_of[query.id]] for query in counted} if reads else {}
    return BothWays(
        name,
        measure.values(counted, qrels, run),
        measure.values(counted, qrels, without) if without else {},
        PMRR().values(queries, qrels, run),
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


def with_bare(benchmark: Benchmark) -> tuple[Benchmark, Mapping[str, str]]:
    """The benchmark with every bare query once more, each text once; and of each query with an instruction its bare
    one's id. So a system ranks both at once.

    query "ferry price" + instruction "Only in dollars."  ->  also "ferry price"
    query that says its own demand (PIR)                  ->  also the original query of its core
    """
    lists, excluded = benchmark.candidates, benchmark.excluded
    names: dict[tuple[object, ...], str] = {}

    def name_of(text: str, like: str, name: str) -> str:
        return names.setdefault((text, lists and lists.get(like), excluded.get(like)), name)

    for query in benchmark.queries:
        if not query.instruction:
            name_of(query.query, query.id, query.id)
    texts = bare_texts(benchmark)
    bare_of = {query: name_of(text, query, f"{query}\0bare") for query, text in texts.items()}
    added = {name: query for query, name in bare_of.items() if name == f"{query}\0bare"}
    queries = (*benchmark.queries, *(EvaluationQuery(name, texts[query], core=name) for name, query in added.items()))
    both = replace(
        benchmark,
        queries=queries,
        candidates=lists and {**lists, **{name: lists[query] for name, query in added.items() if query in lists}},
        excluded={**excluded, **{name: excluded[query] for name, query in added.items() if query in excluded}},
    )
    return both, bare_of


def bare_texts(benchmark: Benchmark) -> dict[str, str]:
    """Of each judged query with an instruction the query alone; of one that says its demand itself, its original."""
    originals = {
        query.core: query.query
        for query in benchmark.queries
        if query.core and query.mode == "original" and not query.instruction
    }
    return {
        query.id: query.query if query.instruction else originals[query.core]
        for query in benchmark.queries
        if benchmark.qrels.get(query.id)
        and (query.instruction or originals.get(query.core, query.query) != query.query)
    }
