"""Tasks of others as dev sets: what weights retrieve outside of the topics that they learn from.

A choice of step or blend may be made on them, so they are named in foil.json, and `foil evaluate` marks what it
measures on one of them. Price: one encoding of every document and query for each measurement.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from foil.engine.atomic_files import put_json, read_json
from foil.engine.errors import UsageError
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark
from foil.trainer.evaluate.benchmarks.catalog import benchmarks_of, kind_named, name_of
from foil.trainer.evaluate.comparison.results import means
from foil.trainer.evaluate.comparison.scores import score
from foil.trainer.evaluate.systems.dense import DenseSystem, Floats, VectorCache
from foil.trainer.evaluate.systems.embedder import unit_vectors
from foil.trainer.model.encoder import Encoder
from foil.trainer.text_templates import QueryPair

DEPTH = 1_000
"""Documents ranked for a query, as by `foil evaluate`."""


class Outside:
    """The benchmarks of one run, read when they are first needed; their digests are kept in `folder`."""

    def __init__(self, sources: Sequence[BenchmarkSource], folder: Path) -> None:
        self.sources, self._folder = sources, folder

    @cached_property
    def _benchmarks(self) -> list[list[Benchmark]]:
        """Of each source its collections. Raises UsageError where two have one name, or one has changed since."""
        collections = [list(benchmarks_of(source)) for source in self.sources]
        names = [benchmark.name for parts in collections for benchmark in parts]
        if double := {name for name in names if names.count(name) > 1}:
            raise UsageError(f"two of `validation.benchmarks` are called {min(double)}; give each a `name` of its own")
        self._compare({benchmark.name: benchmark.digest for parts in collections for benchmark in parts})
        return collections

    def _compare(self, digests: Mapping[str, str]) -> None:
        path = self._folder / "benchmarks.json"
        if digests and not path.exists():
            put_json(path, digests)
        before = read_json(path) if digests else {}
        if changed := [name for name, digest in digests.items() if before.get(name) != digest]:
            raise UsageError(
                f"{changed[0]} of `validation.benchmarks` has other contents than when the run began; bring those "
                "back, or train into another `out`"
            )

    def digests(self) -> dict[str, str]:
        """The digest of every collection, by its name."""
        return {benchmark.name: benchmark.digest for parts in self._benchmarks for benchmark in parts}

    def means_of(self, encoder: Encoder) -> dict[str, float]:
        """The mean of each measure on each benchmark, in points; `outside` is that of the first measures."""
        means: dict[str, float] = {}
        firsts = []
        for source, parts in zip(self.sources, self._benchmarks, strict=True):
            own = _means(source, parts, encoder)
            if not own:
                raise UsageError(
                    f"{name_of(source)} of `validation.benchmarks` shows no value of its measures; give it others by "
                    "`measures`, or leave it out"
                )
            firsts.append(next(iter(own.values())))
            means |= {f"{name_of(source)} {measure}": mean for measure, mean in own.items()}
        return {**means, "outside": float(np.mean(firsts))} if firsts else {}


def _means(source: BenchmarkSource, parts: Sequence[Benchmark], encoder: Encoder) -> dict[str, float]:
    system = DenseSystem("weights", _Weights(encoder), VectorCache(None, ""))
    return means(list(score(parts, [system], (), DEPTH)), system.name, kind_named(source.kind).average)


class _Weights:
    """The weights of a step as what makes vectors; texts are cut as in training."""

    def __init__(self, encoder: Encoder) -> None:
        self.template, self._encoder = encoder.template, encoder

    def facts(self) -> dict[str, str | float]:
        return {}

    def encode(self, passages: Sequence[str], pairs: Sequence[QueryPair]) -> Floats:
        return unit_vectors(self._encoder, passages, pairs)
