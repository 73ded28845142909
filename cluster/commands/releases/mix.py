"""`foil mix`: writes the four training mixes of the Dual-View paper."""

from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption, OutArgument, SnapshotOption
from foil.cluster.terminal import print_json, show


def mix(
    out: OutArgument,
    into: Annotated[Path, typer.Argument(help="A folder for the four mixes.")],
    snapshot: SnapshotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write Dual-View's mixes of a run with both views, each as a run: ins_orig, ins_dv, all_orig, all_dv."""
    from foil.datasets_out.commits.snapshot import load_snapshot
    from foil.datasets_out.training.row_mixes import write_mixes

    mixes = write_mixes(load_snapshot(out, snapshot, verify=True), into)
    if as_json:
        print_json(
            {name: {"out": str(run.out), "topics": run.rows("topics"), "digest": run.digest}
             for name, run in mixes.items()}
        )  # fmt: skip
        return
    rows = [(name, run.out, run.rows("topics"), run.rows("intents"), run.digest[:16]) for name, run in mixes.items()]
    show(["mix", "run", "topics", "rows", "digest"], rows)
