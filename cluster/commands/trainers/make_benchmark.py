"""`foil benchmarks make`: a new benchmark from a run's held-out topics, or from a benchmark that is there."""

from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption, SetOption, SnapshotOption


def make(
    source: Annotated[
        str, typer.Argument(metavar="RUN | KIND:PATH", help="A run's folder, a benchmark, or ifeval:FOLDER.")
    ],
    into: Annotated[Path, typer.Option("--into", help="A folder for the new benchmark.")],
    overrides: SetOption = None,
    job: Annotated[Path | None, typer.Option(help="The run's job file: its `train.split` is kept.")] = None,
    snapshot: SnapshotOption = None,
    against: Annotated[
        list[str] | None, typer.Option(help="A run that models train on: RUN or RUN#SNAPSHOT. Repeatable.")
    ] = None,
    refuse: Annotated[
        bool, typer.Option("--refuse", help="End where a query is trained on; else it is left out.")
    ] = False,
    system: Annotated[
        list[str] | None, typer.Option(help="A system besides bm25 and base whose rank a sample keeps. Repeatable.")
    ] = None,
    first: Annotated[str, typer.Option(help="What finds the documents that rerank:MODEL orders.")] = "bm25",
    vectors: Annotated[
        Path | None, typer.Option(help="A folder that keeps the systems' vectors. Default: evaluation/vectors.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a benchmark in BEIR's layout, with instructions, that `foil evaluate --on made:FOLDER` and mteb read.

    Of a run it takes the held-out topics. Queries that stand in what the run, or one named by --against, trains on are
    left out, and counted. `--set queries=100 --set documents=10000` samples both, if systems keep their ranking.
    """
    from foil.cluster.benchmarks.making import MakingOrder, make_benchmark
    from foil.cluster.evaluations.benchmarks import DEFAULT_OUT
    from foil.cluster.extras import need

    need("sentence_transformers", extra="train")
    order = MakingOrder(
        source, into, overrides or [], job, snapshot, against or [], refuse, system or [], first,
        vectors or DEFAULT_OUT / "vectors",
    )  # fmt: skip
    make_benchmark(order, as_json=as_json)
