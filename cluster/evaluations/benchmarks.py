"""`foil evaluate SYSTEM... --on BENCHMARK...`: systems on published benchmarks, with BM25 and the base model.

BENCHMARK -> its collections, one at a time -> every system ranks it -> tables, OUT/results.jsonl, OUT/runs/
"""

import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from foil.cluster.evaluations.tables import say_bills, show_lines, show_results
from foil.cluster.extras import PACKAGE, version_of
from foil.cluster.job import read_settings, settings_from
from foil.cluster.terminal import print_json, say
from foil.engine.errors import UsageError
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark
from foil.trainer.evaluate.benchmarks.catalog import benchmarks_of, kind_named, name_of
from foil.trainer.evaluate.comparison.results import InstructionLine, LineKey, Result, instruction_lines, keep, results
from foil.trainer.evaluate.comparison.scores import CollectionScores, score
from foil.trainer.evaluate.interop.model_index import put_results
from foil.trainer.evaluate.measures.catalog import measure_named
from foil.trainer.evaluate.measures.judged import Run
from foil.trainer.evaluate.measures.trec_files import check_field, write_run
from foil.trainer.evaluate.systems.catalog import bills_of, open_system
from foil.trainer.evaluate.systems.system import System, SystemSettings
from foil.trainer.model.checksums import CARD, FACTS, read_facts
from foil.trainer.settings import Instructions
from foil.trainer.train.data.instructions import with_instructions

BESIDE = ("bm25", "base")
"""What every system is compared with; differences are to the last."""
DEFAULT_OUT = Path("evaluation")
"""Where results and vectors go if no `--out` is given."""
LIBRARIES = ("bm25s", "numpy", "sentence-transformers", "torch", "transformers")
SECONDS_BETWEEN_NOTES = 5.0


@dataclass(frozen=True, slots=True)
class EvaluationOrder:
    """What is measured on what, as the command line names it. `first` finds the documents that rerank:MODEL orders."""

    systems: Sequence[str]
    on: Sequence[str]
    overrides: Sequence[str] = ()
    measures: Sequence[str] = ()
    first: str = "bm25"
    out: Path = DEFAULT_OUT


def open_pool(systems: Sequence[str], settings: SystemSettings, vectors: Path, first: str) -> list[System]:
    """BM25, the base model and these systems, each once."""
    names = dict.fromkeys((*BESIDE, *systems))
    return [open_system(name, settings, vectors, first, SlowNotes()) for name in names]


def evaluate_benchmarks(
    order: EvaluationOrder,
    *,
    instructions: Instructions = "given",
    keep_runs: bool = False,
    into_cards: bool = False,
    as_json: bool = False,
    quiet: bool = False,
) -> list[dict[str, Any]]:
    """Evaluates systems on benchmarks, prints tables and keeps the results in OUT/results.jsonl; gives their rows.

    `instructions`: what stands in place of the queries' own. `into_cards`: the cards of the systems that Foil published
    name the results too. `quiet`: no table is printed.
    """
    published = _published(order.systems) if into_cards else []
    settings, sources = settings_from(order.overrides, SystemSettings), list(map(read_source, order.on))
    for name in order.measures:
        measure_named(name)
    systems = open_pool(order.systems, settings, order.out / "vectors", order.first)
    on_run = partial(_write_run, order.out / "runs") if keep_runs else _no_run
    rows: list[dict[str, Any]] = []
    for text, source in zip(order.on, sources, strict=True):
        benchmarks = _announced(benchmarks_of(source), instructions, writable=keep_runs)
        scores = list(score(benchmarks, systems, order.measures, settings.depth, on_run, bare=settings.bare))
        name = name_of(source) + ("" if instructions == "given" else f", {instructions} instructions")
        average, resamples = kind_named(source.kind).average, settings.resamples
        outcomes = list(results(name, scores, BESIDE[-1], average, resamples))
        lines = dict(instruction_lines(scores, average, resamples))
        if not quiet:
            show_lines(text, lines)
            show_results(text, outcomes, BESIDE[-1])
        _say_missing(text, order.measures, outcomes)
        details = _details(name, scores, systems, settings.depth)
        rows += [asdict(each) | _line_fields(each, lines) | details[each.system] for each in outcomes]
        keep(order.out / "results.jsonl", rows)
    _put_cards(published, rows)
    if as_json:
        print_json(rows)
    return rows


def _details(
    name: str, scores: Sequence[CollectionScores], systems: Sequence[System], depth: int
) -> dict[str, dict[str, Any]]:
    """Of each system what it is, what its LLMs cost, and whether it was chosen on this benchmark."""
    facts, details = {system.name: system.facts() for system in systems}, {}
    for system in systems:
        chosen, bills = _is_chosen_on(system.name, scores), bills_of(system)
        if chosen:
            say(f"{system.name} was chosen on {name}: its numbers there are no test")
        say_bills(bills)
        replies = {asker: {key: bill[key] for key in bill if key != "sent"} for asker, bill in bills.items()}
        own = about(scores, facts, system.name, BESIDE[-1], depth)
        details[system.name] = {"chosen_on": chosen, "replies": replies, **own}
    return details


def _line_fields(result: Result, lines: Mapping[LineKey, InstructionLine]) -> dict[str, Any]:
    """What instructions are worth, in the row of the score; nothing in rows of other measures."""
    line = lines.get((result.group, result.measure, result.system))
    return asdict(line) if line else {}


def _say_missing(text: str, measures: Sequence[str], outcomes: Sequence[Result]) -> None:
    for measure in dict.fromkeys(measures):
        if measure_named(measure).name not in {result.measure for result in outcomes}:
            say(f"{text}: {measure} has nothing to compare there")


def _put_cards(published: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    for name in published:
        put_results(Path(name), [row for row in rows if row["system"] == name])
        say(f"{Path(name) / CARD} names the results")


def _is_chosen_on(system: str, scores: Sequence[CollectionScores]) -> bool:
    """Whether step or blend of a model that Foil published were chosen on one of these (`validation.benchmarks`)."""
    facts = read_facts(Path(system)) if (Path(system) / FACTS).is_file() else {}
    return bool({part.digest for part in scores} & set(facts.get("benchmarks", {}).values()))


def _published(systems: Sequence[str]) -> list[str]:
    models = [name for name in dict.fromkeys(systems) if (Path(name) / FACTS).is_file()]
    if not models:
        raise UsageError("--card writes into models that Foil published, and no system is one; give its directory, "
                         "such as out/demo/model")  # fmt: skip
    return models


def read_source(text: str) -> BenchmarkSource:
    """A benchmark by its name on the command line: KIND:PATH, KIND:PATH#PART, or a YAML file."""
    if text.endswith((".yaml", ".yml")):
        source = read_settings(Path(text), BenchmarkSource, "a benchmark")
    else:
        kind, colon, place = text.partition(":")
        if not colon or not place:
            raise UsageError(f"{text!r} names no benchmark; write KIND:PATH, such as pir:data/pir, or a YAML file")
        path, _, part = place.partition("#")
        source = BenchmarkSource(kind=kind, path=Path(path).expanduser(), part=part)
    kind_named(source.kind)
    return source


def about(
    scores: Sequence[CollectionScores],
    facts: Mapping[str, Mapping[str, Any]],
    system: str,
    base: str,
    depth: int | None,
) -> dict[str, Any]:
    """What a result of a system was measured on and with; `facts` are those of each system."""
    versions = {name: version_of(name) for name in (PACKAGE, *LIBRARIES)}
    return {
        "collections": {
            part.name: {"digest": part.digest, "revision": part.revision, "read": dict(part.read)} for part in scores
        },
        "k": depth,
        "base": facts[base].get("digest", ""),
        "facts": dict(facts[system]),
        "versions": {**versions, "python": platform.python_version()},
    }


def _announced(benchmarks: Iterator[Benchmark], instructions: Instructions, *, writable: bool) -> Iterator[Benchmark]:
    """The benchmarks, one by one; `writable`: whose ids can stand in a run, or UsageError before anything ran."""
    for own in benchmarks:
        for name in (*own.documents, *(query.id for query in own.queries)) if writable else ():
            check_field(name)
        benchmark = with_instructions(own, instructions)
        say(f"{benchmark.name}: {len(benchmark.documents):,} documents, {len(benchmark.queries):,} queries")
        yield benchmark


def _write_run(folder: Path, benchmark: Benchmark, system: System, run: Run) -> None:
    write_run(folder / benchmark.name / f"{_file_name(system.name)}.trec", run, _file_name(system.name))


def _file_name(name: str) -> str:
    """The name of a system as one word without slashes."""
    return re.sub(r"[^A-Za-z0-9.@_-]+", "_", name).strip("_")


def _no_run(benchmark: Benchmark, system: System, run: Run) -> None:
    """Keeps nothing."""


class SlowNotes:
    """Tells what takes long: a line when work has gone on for some seconds since the last one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._told_at = clock, clock()

    def __call__(self, activity: str, count: int, total: int) -> None:
        if self._clock() - self._told_at >= SECONDS_BETWEEN_NOTES:
            self._told_at = self._clock()
            say(f"{activity}: {count:,} of {total:,}")
