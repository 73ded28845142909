"""`foil diff`: what two runs do not share."""

from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption
from foil.cluster.terminal import print_json, print_pages, say
from foil.engine.storage.opening import mirror_of


def diff(
    a: Annotated[Path, typer.Argument(parser=mirror_of, metavar="A", help="The folder of a run.")],
    b: Annotated[Path, typer.Argument(parser=mirror_of, metavar="B", help="The folder of another run.")],
    examples: Annotated[int, typer.Option(min=0, max=1000, help="Examples of each kind of difference.")] = 3,
    parquet: Annotated[Path | None, typer.Option(help="Write every difference as a row to this Parquet file.")] = None,
    snapshot_a: Annotated[str | None, typer.Option(help="A snapshot of A. Default: all that is committed now.")] = None,
    snapshot_b: Annotated[str | None, typer.Option(help="A snapshot of B. Default: all that is committed now.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two runs: seeds, topics, outcomes, instructions and judgments that are in one alone or changed."""
    from foil.datasets_out.diff.run_diff import CHANGES, KINDS, diff_runs

    run_diff = diff_runs(a, b, snapshot_a, snapshot_b)
    if parquet:
        from foil.datasets_out.sql.output_formats import write_parquet

        write_parquet(run_diff.rows, parquet)
    if as_json:
        rows = [row for kind in KINDS for change in CHANGES for row in run_diff.examples(kind, change, examples)]
        reasons = [{"before": before, "after": after, "topics": count} for before, after, count in run_diff.reasons()]
        print_json({"topics": run_diff.topics, "counts": run_diff.counts, "outcomes": reasons, "examples": rows})
    else:
        from foil.cluster.pages.diff_page import diff_page

        names = (_name(a, snapshot_a), _name(b, snapshot_b))
        print_pages(lambda console: diff_page(run_diff, names, examples, console))
    if parquet:
        say(f"{run_diff.rows.num_rows:,} differences are in {parquet}")


def _name(run: Path, snapshot: str | None) -> str:
    return f"{run}#{snapshot}" if snapshot else str(run)
