"""A sample of a benchmark's queries and documents that keeps the ranking of systems, or none."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foil.cluster.evaluations.benchmarks import BESIDE
from foil.cluster.terminal import show
from foil.engine.errors import UsageError
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark
from foil.trainer.evaluate.benchmarks.making.sampling import (
    MEASURE,
    core_queries,
    kendall_tau,
    mean_scores,
    sample_documents,
    sample_queries,
)
from foil.trainer.evaluate.benchmarks.making.settings import MakingSettings
from foil.trainer.evaluate.measures.judged import Run
from foil.trainer.evaluate.systems.embedder import embedder
from foil.trainer.evaluate.systems.system import System, ranking_of


def rank_all(benchmark: Benchmark, pool: Sequence[System], depth: int) -> dict[str, Run]:
    """The runs of all systems, by their names."""
    return {system.name: ranking_of(system, benchmark, depth) for system in pool}


def sample(
    benchmark: Benchmark, pool: Sequence[System], settings: MakingSettings, vectors: Path
) -> tuple[Benchmark, dict[str, Any]]:
    """The sample, and the systems' scores on the whole and on it. Raises UsageError where the ranking is not kept."""
    runs = rank_all(benchmark, pool, settings.pool_depth)
    small = benchmark
    if settings.queries:
        small = sample_queries(benchmark, _core_vectors(benchmark, settings, vectors), settings.queries, settings.seed)
    if settings.documents:
        small = sample_documents(small, list(runs.values()), settings.documents, settings.pool_depth, settings.seed)
    full, sampled = mean_scores(benchmark, runs), mean_scores(small, rank_all(small, pool, settings.pool_depth))
    tau = kendall_tau(full, sampled)
    _show(benchmark.name, full, sampled, tau)
    if tau is None or tau < settings.least_tau:
        raise UsageError(
            f"the sample of {benchmark.name} does not keep the ranking of {len(full)} systems by {MEASURE}: Kendall's "
            f"tau is {_words(tau)}, and least_tau {settings.least_tau:g}; take more queries or documents, compare more "
            "systems with --system, or --set least_tau"
        )
    return small, {"measure": MEASURE, "tau": tau, "full": full, "sampled": sampled}


def _core_vectors(benchmark: Benchmark, settings: MakingSettings, vectors: Path) -> Any:
    """The base model's vectors of the cores' queries without instructions, [cores, D]."""
    pairs = [("", text) for text in core_queries(benchmark).values()]
    return embedder(BESIDE[-1], settings, vectors).pair_vectors(pairs)


def _show(name: str, full: Mapping[str, float], sampled: Mapping[str, float], tau: float | None) -> None:
    rows = [(system, f"{100 * full[system]:.1f}", f"{100 * sampled[system]:.1f}") for system in full]
    show([f"{MEASURE}, in points", "whole", "sample"], rows, f"{name}: Kendall's tau {_words(tau)}")


def _words(tau: float | None) -> str:
    return "undefined, since all systems tie" if tau is None else f"{tau:.3f}"
