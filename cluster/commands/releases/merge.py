"""`foil merge`: one run out of several."""

from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption
from foil.cluster.terminal import print_json, show
from foil.engine.storage.opening import mirror_of


def merge(
    outs: Annotated[list[Path], typer.Argument(parser=mirror_of, metavar="OUT...", help="The runs to merge.")],
    into: Annotated[Path, typer.Argument(parser=mirror_of, metavar="INTO", help="A folder for the new run.")],
    near_duplicates: Annotated[
        float | None,
        typer.Option(
            min=0.5, max=1, metavar="SHARE", help="Leave out topics as alike as this to one of an earlier run."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write all topics of several runs as one run, with the snapshot `merged`; the runs stay as they are.

    A seed has one topic of a recipe: of several runs' the first that was accepted. To train on all that other settings
    made of it, name the runs in `train.data`.

    With --near-duplicates, the query and its relevant passages are compared by their three-word sequences (Jaccard
    similarity; candidates by MinHash). Topics of one run are not compared with each other.
    """
    from foil.datasets_out.commits.snapshot import load_snapshot
    from foil.datasets_out.curation.merge import merge as merge_runs
    from foil.validators.overlap.duplicates import TopicRepeats

    sources = [load_snapshot(out, None, verify=True) for out in outs]
    merged = merge_runs(sources, into, TopicRepeats(near_duplicates) if near_duplicates else None)
    if as_json:
        print_json(
            {"out": str(into), "digest": merged.snapshot.digest, "topics": merged.snapshot.rows("topics"),
             "repeated": merged.repeated, "differing": merged.differing, "left_out": dict(merged.left_out)}
        )  # fmt: skip
        return
    rows = [(str(source.out), f"{source.rows('topics'):,}", source.digest[:16]) for source in sources]
    rows += [
        ("left out, since another run has them", f"{merged.repeated:,}", ""),
        ("left out: another run has another topic of the same seed and recipe", f"{merged.differing:,}", ""),
    ]
    rows += [(f"left out: {reason} of an earlier run", f"{n:,}", "") for reason, n in sorted(merged.left_out.items())]
    rows += [(str(into), f"{merged.snapshot.rows('topics'):,}", merged.snapshot.digest[:16])]
    show(["run", "topics", "digest"], rows, numbers=True)
