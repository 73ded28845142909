"""What `foil benchmarks make` takes: a run, IFEval's prompts with responses, or a benchmark that is there."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from foil.cluster.evaluations.benchmarks import read_source
from foil.datasets_out.commits.snapshot import Snapshot, load_snapshot, read_accepted
from foil.engine.errors import UsageError
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark
from foil.trainer.evaluate.benchmarks.catalog import KINDS, kind_named, parts_of, read_benchmark, told_as_usage
from foil.trainer.evaluate.benchmarks.making import ifeval
from foil.trainer.evaluate.benchmarks.making.settings import MakingSettings
from foil.trainer.evaluate.benchmarks.making.topics import benchmark_of, held_out


@dataclass(frozen=True, slots=True)
class PartToMake:
    """One collection, and the subfolder that it is written into ("" for the folder itself).

    `trained_on`: the run that it is from, where it must not hold what that trains on. `counts`: what was left out.
    """

    folder: str
    benchmark: Benchmark
    trained_on: tuple[Snapshot, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


def parts_to_make(source: str, settings: MakingSettings, snapshot: str | None) -> Iterator[PartToMake]:
    """The collections of RUN, ifeval:FOLDER[#SUBTASK], KIND:PATH[#PART] or a YAML page, one at a time."""
    kind, _, place = source.partition(":")
    is_run = kind != ifeval.KIND and kind not in KINDS and not source.endswith((".yaml", ".yml"))
    if snapshot and not is_run:
        raise UsageError(f"--snapshot names one of a run, and {source} is none; leave it out")
    if kind == ifeval.KIND:
        yield from _of_ifeval(settings, *place.split("#", 1))
    elif not is_run:
        yield from _of_benchmark(source)
    else:
        own = load_snapshot(Path(source), snapshot)
        yield PartToMake("", _of_run(own, settings), (own,) if settings.topics == "heldout" else ())


def _of_benchmark(text: str) -> Iterator[PartToMake]:
    source = read_source(text)
    parts = parts_of(source)
    for part in parts:
        folder = part if len(parts) > 1 and kind_named(source.kind).place == "FOLDER" else ""
        yield PartToMake(folder, read_benchmark(source, part))


def prompts_of_sub_tasks(folder: str, only: str = "") -> dict[str, list[ifeval.VerifiablePrompt]]:
    """IFEval's prompts by sub-task, or those of the one that is named."""
    if only and only not in ifeval.SUB_TASKS:
        raise UsageError(f"IFEval has no sub-task {only!r}; choose one of {', '.join(ifeval.SUB_TASKS)}")
    with told_as_usage():
        prompts = ifeval.read_prompts(Path(folder))
    names = (only,) if only else ifeval.SUB_TASKS
    return {name: [prompt for prompt in prompts if ifeval.sub_task_of(prompt.ids) == name] for name in names}


def _of_ifeval(settings: MakingSettings, folder: str, only: str = "") -> Iterator[PartToMake]:
    """The sub-tasks that have queries, or the one that is named."""
    prompts = prompts_of_sub_tasks(folder, only)
    with told_as_usage():
        responses = ifeval.read_responses(Path(folder))
    usable = 0
    for name, own in prompts.items():
        benchmark, counts = ifeval.sub_task(name, own, responses, settings)
        if benchmark.queries:
            usable += 1
            yield PartToMake("" if only else name, benchmark, counts=counts)
    if not usable:
        raise UsageError(
            f"no prompt in {folder} has both a response that follows its instructions and one that does not; bring "
            "responses of more models, or several of each"
        )


def _of_run(snapshot: Snapshot, settings: MakingSettings) -> Benchmark:
    topics = read_accepted(snapshot)
    chosen = topics if settings.topics == "all" else held_out(topics, settings.split)
    benchmark = benchmark_of(snapshot.out.resolve().name, chosen)
    if not benchmark.queries:
        raise UsageError(
            f"{snapshot.out} has no accepted topic to make a benchmark of (topics: {settings.topics}); run more seeds, "
            "raise split.heldout_share, or --set topics=all for a run that nobody trains on"
        )
    return benchmark
