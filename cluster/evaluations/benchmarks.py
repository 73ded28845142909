"""`foil evaluate SYSTEM... --on BENCHMARK...`: systems on published benchmarks, with BM25 and the base model.

BENCHMARK -> its collections, one at a time -> every system ranks it -> tables, OUT/results.jsonl, OUT/runs/
"""

import platform
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from foil.cluster.extras import PACKAGE, version_of
from foil.cluster.job import read_settings, settings_from
from foil.cluster.terminal import print_json, say, show
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

REFERENCES = ("bm25", "base")
"""What every system is compared with; differences are to the last, where an order names no other base."""
DEFAULT_OUT = Path("evaluation")  # where results and vectors go if no `--out` is given
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
    base: str = REFERENCES[-1]


def open_pool(systems: Sequence[str], settings: SystemSettings, vectors: Path, first: str) -> list[System]:
    """BM25, the base model and these systems, each once."""
    names = dict.fromkeys((*REFERENCES, *systems))
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
    systems = open_pool((*order.systems, order.base), settings, order.out / "vectors", order.first)
    on_run = partial(_write_run, order.out / "runs") if keep_runs else _no_run
    rows: list[dict[str, Any]] = []
    for text, source in zip(order.on, sources, strict=True):
        benchmarks = _announced(benchmarks_of(source), instructions, writable=keep_runs)
        scores = list(score(benchmarks, systems, order.measures, settings.depth, on_run, bare=settings.bare))
        name = name_of(source) + ("" if instructions == "given" else f", {instructions} instructions")
        average, resamples = kind_named(source.kind).average, settings.resamples
        outcomes = list(results(name, scores, order.base, average, resamples))
        lines = dict(instruction_lines(scores, average, resamples))
        if not quiet:
            show_lines(text, lines)
            show_results(text, outcomes, order.base)
        _say_missing(text, order.measures, outcomes)
        details = _details(name, scores, systems, settings.depth, order.base)
        rows += [asdict(each) | _line_fields(each, lines) | details[each.system] for each in outcomes]
        keep(order.out / "results.jsonl", rows)
    _put_cards(published, rows)
    if as_json:
        print_json(rows)
    return rows


def _details(
    name: str, scores: Sequence[CollectionScores], systems: Sequence[System], depth: int, base: str
) -> dict[str, dict[str, Any]]:
    """Of each system what it is, what its LLMs cost, and whether it was chosen on this benchmark."""
    facts, details = {system.name: system.facts() for system in systems}, {}
    for system in systems:
        chosen, bills = _is_chosen_on(system.name, scores), bills_of(system)
        if chosen:
            say(f"{system.name} was chosen on {name}: its numbers there are no test")
        say_bills(bills)
        replies = {asker: {key: bill[key] for key in bill if key != "sent"} for asker, bill in bills.items()}
        own = about(scores, facts, system.name, base, depth)
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
            example = f"made:{text}" if Path(text).is_dir() else "pir:data/pir"
            raise UsageError(f"{text!r} names no benchmark; write KIND:PATH, such as {example}, or a YAML file")
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


LONGEST_NAME = 22
"""Of a system in a table that fits a terminal of 80 columns."""


def show_lines(title: str, lines: Mapping[LineKey, InstructionLine]) -> None:
    """A line a system: its score with the instructions, without them, what they bring, and p-MRR."""
    own = {key: line for key, line in lines.items() if not key[0]}
    if not any(line.instructed or line.p_mrr is not None or line.unreachable for line in own.values()):
        return
    measure, first = next((key[1], line) for key, line in own.items())
    names = shortened([system for _, _, system in own])
    rows = [(names[system], *cells(line)) for (_, _, system), line in own.items()]
    lost = f"; unreachable judgments: {first.unreachable:,}, relevant {first.unreachable_relevant:,}"
    head = (
        f"{title}: {measure} of {first.instructed:,} queries with their instructions{lost if first.unreachable else ''}"
    )
    show(("system", "with", "without", "the instruction brings", "p-MRR"), rows, head)


def cells(line: InstructionLine) -> tuple[str, str, str, str]:
    """The numbers of a line; in words whether instructions help the system beyond the interval."""
    with_it, without, p_mrr = (
        "" if value is None else f"{value:.1f}"
        for value in (line.with_instruction, line.without_instruction, line.p_mrr)
    )
    if line.gain is None or line.gain_low is None or line.gain_high is None:
        return with_it, without, "", p_mrr
    word = " loses" if line.gain_high < 0 else " wins" if line.gain_low > 0 else ""
    return with_it, without, f"{line.gain:+.1f} [{line.gain_low:+.1f}, {line.gain_high:+.1f}]{word}", p_mrr


def shortened(systems: Sequence[str]) -> dict[str, str]:
    """The ends of names that are too long, where these differ.

    >>> shortened(["base", "datasets_out/data/demo/model"])
    {'base': 'base', 'datasets_out/data/demo/model': '…s_out/data/demo/model'}
    """
    short = {name: name if len(name) <= LONGEST_NAME else f"…{name[1 - LONGEST_NAME :]}" for name in systems}
    times = Counter(short.values())
    return {name: each if times[each] == 1 else name for name, each in short.items()}


def say_bills(bills: Mapping[str, Mapping[str, Any]]) -> None:
    """What each LLM of a system cost, and how many of its replies were of no use."""
    for name, bill in bills.items():
        faults = ", ".join(f"{count:,} {fault}" for fault, count in bill["faults"].items())
        say(
            f"{name}: {bill['requests']:,} replies, {bill['sent']:,} of them new, {bill['prompt_tokens']:,} + "
            f"{bill['completion_tokens']:,} tokens, ${bill['cost_usd']:.4f}"
            + (f"; replies of no use, whose queries stayed as they were: {faults}" if faults else "")
        )


def show_results(title: str, outcomes: Sequence[Result], base: str) -> None:
    """A table of the whole, and one a kind of group: systems below each other, measures next to each other."""
    for kind, rows in groupby(outcomes, key=lambda result: result.group.partition(":")[0]):
        own = list(rows)
        measures = list(dict.fromkeys(result.measure for result in own))
        cells: dict[tuple[str, str], dict[str, str]] = {}
        for result in own:
            cells.setdefault((result.group, result.system), {})[result.measure] = _cell(result, base)
        columns = [*([kind] if kind else []), "in points", *measures]
        lines = [
            (*([group.partition(": ")[2]] if kind else []), system, *(by_measure.get(name, "") for name in measures))
            for (group, system), by_measure in cells.items()
        ]
        show(columns, lines, "" if kind else f"{title}, difference to {base} with its 95 % interval")


def _cell(result: Result, base: str) -> str:
    if result.system == base:
        return f"{result.value:.1f} (n {result.count:,})"
    return f"{result.value:.1f}  {result.difference:+.1f} [{result.low:+.1f}, {result.high:+.1f}]"
