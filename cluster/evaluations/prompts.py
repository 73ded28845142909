"""`foil evaluate SYSTEM... --on BENCHMARK... --prompts FILE`: what prompts are worth to each system."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from foil.cluster.evaluations.benchmarks import REFERENCES, EvaluationOrder, about, open_pool, read_source
from foil.cluster.job import settings_from
from foil.cluster.terminal import print_json, say, show
from foil.engine.ids import canonical_json, sha256_hex
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark
from foil.trainer.evaluate.benchmarks.catalog import benchmarks_of, kind_named, name_of
from foil.trainer.evaluate.comparison.prompts import (
    NO_PROMPT,
    PromptedPart,
    PromptResult,
    dev_queries,
    prompt_result,
    read_prompts,
    with_prompt,
)
from foil.trainer.evaluate.comparison.results import keep
from foil.trainer.evaluate.comparison.scores import CollectionScores, score
from foil.trainer.evaluate.systems.system import System, SystemSettings

COLUMNS = ("system", "measure", "n", "no prompt", "selected on dev", "best in hindsight", "mean ± spread")


def search_prompts(order: EvaluationOrder, file: Path, dev_count: int, *, as_json: bool = False) -> None:
    """Tries every prompt on every benchmark, prints what each system gains and keeps the rows in OUT/prompts.jsonl."""
    settings, sources = settings_from(order.overrides, SystemSettings), list(map(read_source, order.on))
    prompts = read_prompts(file)
    systems = open_pool(order.systems, settings, order.out / "vectors", order.first)
    rows: list[dict[str, Any]] = []
    for text, source in zip(order.on, sources, strict=True):
        scored = partial(score, systems=systems, measures=order.measures, depth=settings.depth)
        collections = [_Collection(each, prompts, dev_count, scored) for each in benchmarks_of(source)]
        outcomes = list(_results(source, collections, settings.resamples))
        lines = [_line(result) for result in outcomes if not result.group]
        show(COLUMNS, lines, f"{text}: {len(prompts)} prompts, chosen on {dev_count} queries a collection")
        rows += [_row(result, collections, systems, settings, prompts, dev_count) for result in outcomes]
        keep(order.out / "prompts.jsonl", rows)
    if as_json:
        print_json(rows)


class _Collection:
    """One collection under every prompt: its scores without one, and the values by system, measure and prompt."""

    def __init__(self, benchmark: Benchmark, prompts: Sequence[str], dev_count: int, scored: Any) -> None:
        self.dev = dev_queries(benchmark, dev_count)
        self.by_prompt: dict[str, CollectionScores] = {}
        for place, prompt in enumerate((NO_PROMPT, *prompts)):
            say(f"{benchmark.name}: {f'prompt {place} of {len(prompts)}' if place else 'no prompt'}")
            [self.by_prompt[prompt]] = scored([with_prompt(benchmark, prompt)])

    @property
    def plain(self) -> CollectionScores:
        """Without a prompt."""
        return self.by_prompt[NO_PROMPT]

    def part(self, system: str, measure: str) -> PromptedPart:
        """The values of one system by one measure."""
        values = {prompt: scores.values[system].get(measure, {}) for prompt, scores in self.by_prompt.items()}
        return PromptedPart(values, self.dev)


def _results(source: BenchmarkSource, collections: Sequence[_Collection], resamples: int) -> Iterator[PromptResult]:
    """Of the whole, then of each collection where there are several."""
    groups = {"": list(collections)}
    if len(collections) > 1:
        groups |= {f"part: {each.plain.name.partition('/')[2]}": [each] for each in collections}
    systems = list(collections[0].plain.values)
    for group, members in groups.items():
        for measure in dict.fromkeys(name for each in members for name in each.plain.values[systems[0]]):
            for system in systems:
                parts = [each.part(system, measure) for each in members]
                name = (name_of(source), group, measure, system)
                if result := prompt_result(name, parts, kind_named(source.kind).average, resamples):
                    yield result


def _line(result: PromptResult) -> tuple[str, ...]:
    selected = f"{result.selected:.1f}  {result.difference:+.1f} [{result.low:+.1f}, {result.high:+.1f}]"
    return (result.system, result.measure, f"{result.count:,}", f"{result.none:.1f}", selected,
            f"{result.hindsight:.1f}", f"{result.mean:.1f} ± {result.spread:.1f}")  # fmt: skip


def _row(
    result: PromptResult,
    collections: Sequence[_Collection],
    systems: Sequence[System],
    settings: SystemSettings,
    prompts: Sequence[str],
    dev_count: int,
) -> dict[str, Any]:
    """The result with what it was measured on and with, the prompts among it."""
    own = {"prompts": sha256_hex(canonical_json(list(prompts))), "dev_queries": dev_count}
    facts = {system.name: {**system.facts(), **own} for system in systems}
    plain = [each.plain for each in collections]
    return {**asdict(result), **about(plain, facts, result.system, REFERENCES[-1], settings.depth)}
