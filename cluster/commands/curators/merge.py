"""`foil merge`: one run out of several."""

from pathlib import Path
from typing import Annotated

import typer

from cluster.commands.arguments import JsonOption
from cluster.terminal import print_json, show


def merge(
    outs: Annotated[list[Path], typer.Argument(metavar="OUT...", help="The runs to merge.")],
    into: Annotated[Path, typer.Argument(metavar="INTO", help="A folder for the new run.")],
    as_json: JsonOption = False,
) -> None:
    """Write all topics of several runs as one run, with the snapshot `merged`; the runs stay as they are."""
    from datasets_out.commits.merge import merge as merge_runs
    from datasets_out.commits.snapshot import load_snapshot

    sources = [load_snapshot(out, None, verify=True) for out in outs]
    merged = merge_runs(sources, into)
    if as_json:
        print_json(
            {"out": str(into), "digest": merged.snapshot.digest, "topics": merged.snapshot.rows("topics"),
             "repeated": merged.repeated}
        )  # fmt: skip
        return
    rows = [(str(source.out), f"{source.rows('topics'):,}", source.digest[:16]) for source in sources]
    rows += [("left out, since an earlier run has them", f"{merged.repeated:,}", "")]
    rows += [(str(into), f"{merged.snapshot.rows('topics'):,}", merged.snapshot.digest[:16])]
    show(["run", "topics", "digest"], rows, numbers=True)
