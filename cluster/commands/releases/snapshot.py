"""`foil snapshot`, `foil gc` and `foil compact`: what of a run is pinned, what may go, and how it is packed."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption, OutArgument
from foil.cluster.terminal import print_json, say, show
from foil.engine.errors import UsageError
from foil.engine.storage.opening import mirror_of, open_store

_USAGE = "foil snapshot create OUT NAME | list OUT | diff OUT NAME [NAME]"
_ACTIONS = {"create": (2, 2), "list": (1, 1), "diff": (2, 3)}
"""The words that each action takes, least and most."""


def snapshot(
    words: Annotated[
        list[str], typer.Argument(metavar="create|list|diff OUT [NAME...]", help="What, and of which run.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Pin what is committed now under a name with one digest, list the names, or compare two snapshots.

    `foil snapshot OUT NAME` pins too. A comparison with one name is with what is committed now.
    """
    action, *rest = words if words[0] in _ACTIONS else ["create", *words]
    least, most = _ACTIONS[action]
    if not least <= len(rest) <= most:
        raise UsageError(f"{' '.join(words)} has too few or too many words; {_USAGE}")
    out, names = mirror_of(rest[0]), rest[1:]
    if action == "create":
        _create(out, names[0])
    elif action == "list":
        _list(out, as_json=as_json)
    else:
        _diff(out, names[0], names[1] if len(names) > 1 else None, as_json=as_json)


def _create(out: Path, name: str) -> None:
    from foil.datasets_out.commits.snapshot import take_snapshot

    new_snapshot = take_snapshot(out, name)
    print_json({"name": name, "digest": new_snapshot.digest, "topics": new_snapshot.rows("topics")})


def _list(out: Path, *, as_json: bool) -> None:
    from foil.datasets_out.commits.snapshot import load_snapshot, snapshot_names

    snapshots = [load_snapshot(out, None), *(load_snapshot(out, name) for name in snapshot_names(out))]
    if as_json:
        print_json([{"name": each.name, "digest": each.digest, "topics": each.rows("topics")} for each in snapshots])
        return
    rows = [(each.name or "(now)", f"{each.rows('topics'):,}", each.digest[:16]) for each in snapshots]
    show(["snapshot", "topics", "digest"], rows)


def _diff(out: Path, first: str, second: str | None, *, as_json: bool) -> None:
    from foil.datasets_out.commits.snapshot import diff, load_snapshot

    delta = diff(load_snapshot(out, first), load_snapshot(out, second))
    if as_json:
        print_json(asdict(delta))
        return
    rows = [(table, f"{old:,}", f"{new:,}", f"{new - old:+,}") for table, (old, new) in delta.rows.items()]
    rows += [
        (f"topics {name}, of partitions that differ", f"{old:,}", f"{new:,}", f"{new - old:+,}")
        for name, (old, new) in delta.outcomes.items()
    ]
    show(["rows", first, second or "(now)", "difference"], rows, numbers=True)
    say(f"{len(delta.only_first)} files of topics are in {first} alone, {len(delta.only_second)} in {second or 'now'}")


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
