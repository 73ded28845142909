"""`foil benchmarks`: the published benchmarks that `foil evaluate --on` reads, and what each needs."""

from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption
from foil.cluster.terminal import byte_bars, print_json, print_line, say, show


def list_benchmarks(as_json: JsonOption = False) -> None:
    """List the benchmarks by the layout of their files."""
    from foil.trainer.evaluate.benchmarks.catalog import KINDS

    rows = [(name, kind.about, kind.measures, kind.licence) for name, kind in KINDS.items()]
    columns = ["benchmark", "what it is", "measures", "licence"]
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        show(columns, rows)


def show_benchmark(
    name: Annotated[str, typer.Argument(help="One that `foil benchmarks list` names.")], as_json: JsonOption = False
) -> None:
    """Show where a benchmark's files come from, their licence and what to bring."""
    from foil.trainer.evaluate.benchmarks.catalog import kind_named

    kind = kind_named(name)
    rows = [
        ("what it is", kind.about), ("where it comes from", kind.origin), ("licence", kind.licence),
        ("bring", kind.bring), ("measures", kind.measures), ("average over", kind.average),
        ("use", f"foil evaluate MODEL --on {name}:{kind.place}"),
    ]  # fmt: skip
    if as_json:
        print_json(dict(rows))
    else:
        show(["", name], rows)


def fetch_benchmark(
    name: Annotated[str, typer.Argument(help="followir, infosearch or mair.")],
    to: Annotated[Path | None, typer.Option(help="The folder to put it in. Default: benchmarks/NAME.")] = None,
    only: Annotated[str, typer.Option(help="Files whose path matches, such as '*/LitSearch/*'.")] = "*",
    revision: Annotated[str, typer.Option(help="Of the hub's data sets. Default: as fetched, or newest.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Download a published benchmark from the hub, at one revision, with checksums; goes on where it broke off.

    A task of mteb needs none of this: `mteb:TASK` fetches its pinned revision when it is first read.
    """
    from foil.cluster.extras import need
    from foil.engine.seeds.files import download

    need("huggingface_hub", extra="train")
    from foil.cluster.benchmarks.fetching import benchmark_files

    folder = to or Path("benchmarks") / name
    files = benchmark_files(name, folder, only, revision)
    say(f"licence of {name}: {files.licence}")
    with byte_bars(remote.name for remote in files.files) as show_bytes:
        paths = download.fetch(files, folder, show_bytes)
    if as_json:
        print_json({"files": [str(path) for path in paths]})
    for path in paths:
        print_line(str(path))
    say(f"revisions and checksums are in {folder / download.LOCK}; foil evaluate MODEL --on {name}:{folder}")
