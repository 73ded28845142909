"""`foil mine`: adds mined hard negatives to a run, as a new run."""

from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption, OutArgument, SetOption, SnapshotOption


def mine(
    out: OutArgument,
    into: Annotated[Path, typer.Argument(help="A folder for the new run.")],
    overrides: SetOption = None,
    job: Annotated[
        Path | None, typer.Option(help="The run's job file: its `train.split` is kept, its seeds can be mined.")
    ] = None,
    snapshot: SnapshotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a run with mined hard negatives: `--set miner=bm25`, or `miner=model` with `model=DIRECTORY`."""
    from foil.cluster.extras import need
    from foil.cluster.mining import mine_run

    if "miner=model" in (overrides or []):
        need("sentence_transformers", extra="train")
    mine_run(out, into, overrides or [], job, snapshot, as_json=as_json)
