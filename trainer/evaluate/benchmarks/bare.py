"""The queries of a benchmark without their instructions, so that a system ranks both at once.

query "ferry price" + instruction "Only in dollars."  ->  also "ferry price"
query that says its own demand (PIR)                  ->  also the original query of its core
"""

from collections.abc import Mapping
from dataclasses import replace

from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery


def with_bare(benchmark: Benchmark) -> tuple[Benchmark, Mapping[str, str]]:
    """The benchmark with every bare query once more, each text once; and for each query with an instruction the id of
    its bare one."""
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
