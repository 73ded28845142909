"""`foil gc`: frees what a run needs no more."""

from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption, OutArgument
from foil.cluster.terminal import print_json, say, show

_WORDS = {
    "staging": "unfinished files",
    "orphan": "files that no entry and no snapshot names",
    "packed": "files whose rows lie in packs by now",
    "version": "manifests and packs of older versions",
    "journal": "journals of committed partitions",
}


def gc(
    out: OutArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    journal_days: Annotated[
        float, typer.Option(min=0, help="Days after which the journal of a committed partition may go.")
    ] = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Remove unfinished files, orphans and old journals of committed partitions. Exit code 12 while a run holds OUT.

    `--reuse` then reads what the table `calls` has of the replies: one choice of each, without logprobs.
    """
    from foil.datasets_out.curation.collection import collect

    leftovers = collect(out, journal_days, dry_run=dry_run)
    if as_json:
        entries = [{"kind": each.kind, "path": str(each.path), "bytes": each.bytes} for each in leftovers]
        print_json({"removed": not dry_run, "bytes": sum(each.bytes for each in leftovers), "found": entries})
        return
    groups = {kind: [each for each in leftovers if each.kind == kind] for kind in _WORDS}
    rows = [
        (_WORDS[kind], f"{len(own):,}", f"{sum(each.bytes for each in own) / 1e6:,.1f}") for kind, own in groups.items()
    ]
    show(["what", "count", "MB"], rows, numbers=True)
    say("nothing was removed; leave out --dry-run to free it" if dry_run else f"removed from {out}")
