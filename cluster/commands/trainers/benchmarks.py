"""`foil benchmarks`: the published benchmarks that `foil evaluate --on` reads, and what each needs."""

from typing import Annotated

import typer

from cluster.terminal import show


def list_benchmarks() -> None:
    """List the benchmarks by the layout of their files."""
    from trainer.benchmarks.catalog import KINDS

    rows = [(name, kind.about, kind.measures, kind.licence) for name, kind in KINDS.items()]
    show(["benchmark", "what it is", "measures", "licence"], rows)


def show_benchmark(name: Annotated[str, typer.Argument(help="One that `foil benchmarks list` names.")]) -> None:
    """Show where a benchmark's files come from, their licence and what to bring."""
    from trainer.benchmarks.catalog import kind_named

    kind = kind_named(name)
    rows = [
        ("what it is", kind.about), ("where it comes from", kind.origin), ("licence", kind.licence),
        ("bring", kind.bring), ("measures", kind.measures), ("average over", kind.average),
        ("use", f"foil evaluate MODEL --on {name}:{kind.place}"),
    ]  # fmt: skip
    show(["", name], rows)
