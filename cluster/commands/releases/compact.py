"""`foil compact`: takes the entries and the files of many partitions together."""

from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption, OutArgument
from foil.cluster.terminal import print_json, say
from foil.engine.storage.opening import open_store


def compact(
    out: OutArgument,
    target_mb: Annotated[
        int, typer.Option("--target-mb", min=1, max=4096, help="MB of the largest file of a pack, of six.")
    ] = 128,
    as_json: JsonOption = False,
) -> None:
    """Pack the small files of a run together, for a bucket, for scans, or for very many partitions.

    What readers see stays the same, and so does every digest. The small files stay until `foil gc`, a day later. Exit
    code 12 while a run holds OUT.
    """
    from foil.datasets_out.compaction.packing import compact_run

    pack = compact_run(out, target_mb << 20)
    if as_json:
        print_json({"version": pack.version, "packs": pack.packs, "packed_partitions": pack.packed})
        return
    place = open_store(out).url
    say(f"{place}: {pack.packs:,} new packs, {pack.packed:,} partitions in packs, version {pack.version} of the log")
    if pack.packs:
        say("the small files stay for whoever reads them; `foil gc` frees them after a day")
