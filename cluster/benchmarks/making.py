"""`foil benchmarks make SOURCE --into FOLDER`: a run's own topics, or a benchmark that is there, as a new benchmark.

SOURCE -> benchmarks, one at a time -> without queries that runs train on -> sampled -> FOLDER, whole or not at all
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from foil.cluster.benchmarks.contamination import contaminated_queries
from foil.cluster.benchmarks.sampling import sample
from foil.cluster.benchmarks.sources import PartToMake, parts_to_make
from foil.cluster.evaluations.benchmarks import DEFAULT_OUT, open_pool
from foil.cluster.extras import PACKAGE, version_of
from foil.cluster.job import load_job, settings_beside_job
from foil.cluster.terminal import print_json, say, show
from foil.datasets_out.commits.snapshot import Snapshot, load_snapshot
from foil.engine.atomic_files import publish_folder
from foil.engine.errors import UsageError
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, checked, only_queries
from foil.trainer.evaluate.benchmarks.making.folder import write_benchmark
from foil.trainer.evaluate.benchmarks.making.settings import MakingSettings
from foil.trainer.evaluate.systems.system import System, SystemSettings


@dataclass(frozen=True, slots=True)
class MakingOrder:
    """What a benchmark is made from and held against, as the command line names it; `foil benchmarks make` explains."""

    source: str
    into: Path
    overrides: Sequence[str] = ()
    job: Path | None = None
    snapshot: str | None = None
    against: Sequence[str] = ()
    refuse: bool = False
    systems: Sequence[str] = ()
    first: str = "bm25"
    vectors: Path = DEFAULT_OUT / "vectors"

    def settings(self) -> MakingSettings:
        """Under `--set`, and in the job's splits."""
        return settings_beside_job(self.overrides, MakingSettings, load_job(self.job) if self.job else None, "split")


@dataclass(frozen=True, slots=True)
class Making:
    """An order with what it names, read; `pool`: the systems whose ranking a sample keeps."""

    order: MakingOrder
    settings: MakingSettings
    against: tuple[Snapshot, ...]
    pool: tuple[System, ...]


def make_benchmark(order: MakingOrder, *, as_json: bool = False) -> None:
    """Makes the benchmark and prints what is in it. Raises UsageError where nothing is left, or FOLDER is there."""
    if order.into.exists():
        raise UsageError(f"{order.into} is there already; name a new folder with --into")
    settings = order.settings()
    is_sampled = settings.queries or settings.documents
    pool = open_pool(order.systems, settings, order.vectors, order.first) if is_sampled else ()
    making = Making(order, settings, tuple(map(named_snapshot, order.against)), tuple(pool))
    rows: list[dict[str, Any]] = []
    publish_folder(order.into, partial(_write, making, rows))
    if as_json:
        print_json(rows)
        return
    columns = dict.fromkeys(name for row in rows for name in row)
    show([*columns], [[row.get(name, "") for name in columns] for row in rows], f"made in {order.into}")
    say(f"measure systems on it: foil evaluate MODEL --on made:{order.into}")


def named_snapshot(text: str) -> Snapshot:
    """RUN or RUN#SNAPSHOT."""
    run, _, name = text.partition("#")
    return load_snapshot(Path(run), name or None)


def _write(making: Making, rows: list[dict[str, Any]], draft: Path) -> None:
    for part in parts_to_make(making.order.source, making.settings, making.order.snapshot):
        benchmark, facts = _made(part, making)
        write_benchmark(draft / part.folder, checked(benchmark), facts)
        counts = {"documents": len(benchmark.documents), "queries": len(benchmark.queries)}
        rows.append({"benchmark": benchmark.name, **counts, **facts["counts"]})


def _made(part: PartToMake, making: Making) -> tuple[Benchmark, dict[str, Any]]:
    """The benchmark as it is written, and what `benchmark.json` says of its making."""
    benchmark, against = part.benchmark, (*part.trained_on, *making.against)
    clean = _clean(benchmark, making, against)
    contaminated = {"contaminated": len(benchmark.queries) - len(clean.queries)} if against else {}
    small, ranking = sample(clean, making.pool, making.settings, making.order.vectors) if making.pool else (clean, {})
    tau = {"tau": ranking["tau"]} if ranking else {}
    own = set(MakingSettings.model_fields) - set(SystemSettings.model_fields)
    return small, {
        "made_from": making.order.source,
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
    if dirty and (making.order.refuse or not clean.queries):
        advice = "leave out --refuse to drop them" if clean.queries else "none is left: make it of other topics"
        raise UsageError(
            f"{len(dirty):,} of {len(benchmark.queries):,} queries of {benchmark.name} stand in what these runs train "
            f"on, such as {min(dirty)!r}; {advice}"
        )
    return clean
