"""`foil benchmarks make SOURCE --into FOLDER`: a run's own topics, or a benchmark that is there, as a new benchmark.

SOURCE -> benchmarks, one at a time -> without queries that runs train on -> sampled -> FOLDER, whole or not at all
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cluster.benchmarks.contamination import contaminated_queries
from cluster.benchmarks.sampling import open_pool, sample
from cluster.evaluation import DEFAULT_OUT, read_source
from cluster.extras import PACKAGE, version_of
from cluster.job import load_job, settings_from
from cluster.terminal import print_json, say, show
from datasets_out.commits.snapshot import Snapshot, load_snapshot, read_accepted
from engine.atomic_files import publish_folder
from engine.errors import UsageError
from trainer.benchmarks.benchmark import Benchmark, checked
from trainer.benchmarks.catalog import KINDS, kind_named, parts_of, read_benchmark
from trainer.benchmarks.making.folder import write_benchmark
from trainer.benchmarks.making.parts import only_queries
from trainer.benchmarks.making.settings import MakingSettings
from trainer.benchmarks.making.topics import benchmark_of, held_out
from trainer.systems.system import System, SystemSettings


@dataclass(frozen=True, slots=True)
class Making:
    """What a benchmark is made from and held against. `refuse`: a contaminated query ends the command. `pool`: the
    systems whose ranking a sample keeps.
    """

    source: str
    settings: MakingSettings
    snapshot: str | None = None
    against: tuple[Snapshot, ...] = ()
    refuse: bool = False
    pool: tuple[System, ...] = ()
    vectors: Path = DEFAULT_OUT / "vectors"


@dataclass(frozen=True, slots=True)
class MadePart:
    """A benchmark as it is written, and what `benchmark.json` says of its making."""

    benchmark: Benchmark
    facts: dict[str, Any] = field(default_factory=dict)


def make_benchmark(
    source: str,
    into: Path,
    overrides: Sequence[str] = (),
    *,
    job: Path | None = None,
    snapshot: str | None = None,
    against: Sequence[str] = (),
    refuse: bool = False,
    systems: Sequence[str] = (),
    first: str = "bm25",
    vectors: Path | None = None,
    as_json: bool = False,
) -> None:
    """Makes the benchmark and prints what is in it. Raises UsageError where nothing is left, or FOLDER is there."""
    if into.exists():
        raise UsageError(f"{into} is there already; name a new folder with --into")
    settings = settings_from(overrides, MakingSettings)
    train = load_job(job).train if job else None
    if train and "split" not in settings.model_fields_set:
        settings = settings.model_copy(update={"split": train.split})
    vectors = vectors or DEFAULT_OUT / "vectors"
    pool = open_pool(systems, settings, vectors, first) if settings.queries or settings.documents else ()
    making = Making(source, settings, snapshot, tuple(map(named_snapshot, against)), refuse, tuple(pool), vectors)
    rows: list[dict[str, Any]] = []
    publish_folder(into, partial(_write, making, rows))
    if as_json:
        print_json(rows)
        return
    columns = dict.fromkeys(name for row in rows for name in row)
    show([*columns], [[row.get(name, "") for name in columns] for row in rows], f"made in {into}")
    say(f"measure systems on it: foil evaluate MODEL --on made:{into}")


def named_snapshot(text: str) -> Snapshot:
    """RUN or RUN#SNAPSHOT."""
    run, _, name = text.partition("#")
    return load_snapshot(Path(run), name or None)


def _write(making: Making, rows: list[dict[str, Any]], draft: Path) -> None:
    for part, made in _parts(making):
        write_benchmark(draft / part, checked(made.benchmark), made.facts)
        counts = {"documents": len(made.benchmark.documents), "queries": len(made.benchmark.queries)}
        rows.append({"benchmark": made.benchmark.name, **counts, **made.facts["counts"]})


def _parts(making: Making) -> Iterator[tuple[str, MadePart]]:
    if making.source.partition(":")[0] not in KINDS:
        own = load_snapshot(Path(making.source), making.snapshot)
        against = (own, *making.against) if making.settings.topics == "heldout" else making.against
        yield "", _made(_of_run(making, own), making, against)
        return
    source = read_source(making.source)
    parts = parts_of(source)
    for part in parts:
        folder = part if len(parts) > 1 and kind_named(source.kind).place == "FOLDER" else ""
        yield folder, _made(read_benchmark(source, part), making, making.against)


def _of_run(making: Making, snapshot: Snapshot) -> Benchmark:
    topics, settings = read_accepted(snapshot), making.settings
    chosen = topics if settings.topics == "all" else held_out(topics, settings.split)
    found = benchmark_of(snapshot.out.resolve().name, chosen)
    if not found.queries:
        raise UsageError(
            f"{snapshot.out} has no accepted topic to make a benchmark of (topics: {settings.topics}); run more seeds, "
            "raise split.heldout_share, or --set topics=all for a run that nobody trains on"
        )
    return found


def _made(benchmark: Benchmark, making: Making, against: Sequence[Snapshot]) -> MadePart:
    clean = _clean(benchmark, making, against)
    counts: dict[str, float] = {"contaminated": len(benchmark.queries) - len(clean.queries)} if against else {}
    small, ranking = sample(clean, making.pool, making.settings, making.vectors) if making.pool else (clean, {})
    if ranking:
        counts["tau"] = ranking["tau"]
    own = set(MakingSettings.model_fields) - set(SystemSettings.model_fields)
    return MadePart(small, {
        "made_from": making.source,
        "name": benchmark.name,
        "of": {"digest": benchmark.digest, "revision": benchmark.revision, "queries": len(benchmark.queries),
               "documents": len(benchmark.documents)},
        "counts": counts,
        "ranking": ranking,
        "against": [{"run": str(each.out), "snapshot": each.name, "digest": each.digest} for each in against],
        "settings": making.settings.model_dump(mode="json", include=own),
        PACKAGE: version_of(PACKAGE),
    })  # fmt: skip


def _clean(benchmark: Benchmark, making: Making, against: Sequence[Snapshot]) -> Benchmark:
    """Without the queries that these runs train on, and the variants of their cores."""
    found = contaminated_queries(benchmark, against, making.settings) if against else set()
    cores = {query.core for query in benchmark.queries if query.id in found}
    clean = only_queries(benchmark, {query.id for query in benchmark.queries if query.core not in cores})
    if found and (making.refuse or not clean.queries):
        advice = "leave out --refuse to drop them" if clean.queries else "none is left: make it of other topics"
        raise UsageError(
            f"{len(found):,} of {len(benchmark.queries):,} queries of {benchmark.name} stand in what these runs train "
            f"on, such as {min(found)!r}; {advice}"
        )
    return clean
