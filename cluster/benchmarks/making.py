"""`foil benchmarks make SOURCE --into FOLDER`: a run's own topics, or a benchmark that is there, as a new benchmark.

SOURCE -> benchmarks, one at a time -> without queries that runs train on -> sampled -> FOLDER, whole or not at all
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from foil.cluster.benchmarks.contamination import contaminated_queries
from foil.cluster.benchmarks.sampling import open_pool, sample
from foil.cluster.benchmarks.sources import PartToMake, parts_to_make
from foil.cluster.evaluations.benchmarks import DEFAULT_OUT
from foil.cluster.extras import PACKAGE, version_of
from foil.cluster.job import load_job, settings_from
from foil.cluster.terminal import print_json, say, show
from foil.datasets_out.commits.snapshot import Snapshot, load_snapshot
from foil.engine.atomic_files import publish_folder
from foil.engine.errors import UsageError
from foil.trainer.benchmarks.benchmark import Benchmark, checked
from foil.trainer.benchmarks.making.folder import write_benchmark
from foil.trainer.benchmarks.making.parts import only_queries
from foil.trainer.benchmarks.making.settings import MakingSettings
from foil.trainer.systems.system import System, SystemSettings


@dataclass(frozen=True, slots=True)
class Making:
    """What a benchmark is made from and held against.

    `refuse`: a contaminated query ends the command. `pool`: the systems whose ranking a sample keeps.
    """

    source: str
    settings: MakingSettings
    snapshot: str | None = None
    against: tuple[Snapshot, ...] = ()
    refuse: bool = False
    pool: tuple[System, ...] = ()
    vectors: Path = DEFAULT_OUT / "vectors"


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
    for part in parts_to_make(making.source, making.settings, making.snapshot):
        benchmark, facts = _made(part, making)
        write_benchmark(draft / part.folder, checked(benchmark), facts)
        counts = {"documents": len(benchmark.documents), "queries": len(benchmark.queries)}
        rows.append({"benchmark": benchmark.name, **counts, **facts["counts"]})


def _made(part: PartToMake, making: Making) -> tuple[Benchmark, dict[str, Any]]:
    """The benchmark as it is written, and what `benchmark.json` says of its making."""
    benchmark, against = part.benchmark, (*part.trained_on, *making.against)
    clean = _clean(benchmark, making, against)
    contaminated = {"contaminated": len(benchmark.queries) - len(clean.queries)} if against else {}
    small, ranking = sample(clean, making.pool, making.settings, making.vectors) if making.pool else (clean, {})
    tau = {"tau": ranking["tau"]} if ranking else {}
    own = set(MakingSettings.model_fields) - set(SystemSettings.model_fields)
    return small, {
        "made_from": making.source,
        "name": benchmark.name,
        "of": {"digest": benchmark.digest, "revision": benchmark.revision, "queries": len(benchmark.queries),
               "documents": len(benchmark.documents)},
        "counts": {**part.counts, **contaminated, **tau},
        "ranking": ranking,
        "against": [{"run": str(each.out), "snapshot": each.name, "digest": each.digest} for each in against],
        "settings": making.settings.model_dump(mode="json", include=own),
        PACKAGE: version_of(PACKAGE),
    }  # fmt: skip


def _clean(benchmark: Benchmark, making: Making, against: Sequence[Snapshot]) -> Benchmark:
    """Without the queries that these runs train on, and the variants of their cores."""
    dirty = contaminated_queries(benchmark, against, making.settings) if against else set()
    cores = {query.core for query in benchmark.queries if query.id in dirty}
    clean = only_queries(benchmark, {query.id for query in benchmark.queries if query.core not in cores})
    if dirty and (making.refuse or not clean.queries):
        advice = "leave out --refuse to drop them" if clean.queries else "none is left: make it of other topics"
        raise UsageError(
            f"{len(dirty):,} of {len(benchmark.queries):,} queries of {benchmark.name} stand in what these runs train "
            f"on, such as {min(dirty)!r}; {advice}"
        )
    return clean
