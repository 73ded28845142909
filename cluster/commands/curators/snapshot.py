"""`foil snapshot`: pins what is committed now under a name."""

from typing import Annotated

import typer

from cluster.commands.arguments import OutArgument
from cluster.terminal import print_json


def snapshot(out: OutArgument, name: Annotated[str, typer.Argument(help="A new name.")]) -> None:
    """Pin what is committed now under a name, with one digest."""
    from datasets_out.commits.snapshot import take_snapshot

    new_snapshot = take_snapshot(out, name)
    print_json({"name": name, "digest": new_snapshot.digest, "topics": new_snapshot.rows("topics")})
