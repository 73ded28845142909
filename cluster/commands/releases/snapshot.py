"""`foil snapshot`: pins what is committed now under a name, lists such names, and compares two."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption
from foil.cluster.terminal import print_json, say, show
from foil.engine.errors import UsageError
from foil.engine.storage.opening import mirror_of

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
