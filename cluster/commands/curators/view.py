"""`foil view`: a run in the browser, on this machine alone."""

import getpass
import re
from typing import Annotated

import typer

from foil.cluster.commands.arguments import OutArgument
from foil.cluster.terminal import print_line, say

PortOption = Annotated[int, typer.Option(min=0, max=65535, help="The port of 127.0.0.1; 0 takes a free one.")]


def view(
    out: OutArgument,
    port: PortOption = 0,
    author: Annotated[str, typer.Option(help="Who signs notes. Default: your name on this machine.")] = "",
    by_meaning: Annotated[
        bool, typer.Option("--by-meaning", help="Map by MiniLM, with the extra `train`; minutes at the first time.")
    ] = False,
) -> None:
    """Look at a run in the browser: facets, search, topics with their lineage, map, SQL, notes, progress."""
    from foil.cluster.extras import need

    need("starlette", extra="desk")
    need("uvicorn", extra="desk")
    from foil.cluster.desk.embedding import map_method
    from foil.cluster.desk.measures import place_rows
    from foil.datasets_out.desk.live_run import LiveRun
    from foil.datasets_out.desk.server import DeskPages, serve

    run = LiveRun(out, map_method(by_meaning=by_meaning), place_rows)
    run.warm()
    serve(DeskPages(run, author or user_name()), port, _announce)


def user_name() -> str:
    """The user's name on this machine, or `curator` where it has none."""
    try:
        return re.sub(r"[^A-Za-z0-9_-]", "-", getpass.getuser()).lstrip("_-") or "curator"
    except (OSError, KeyError):
        return "curator"


def _announce(url: str) -> None:
    say("Open this address in a browser of this machine; Ctrl+C ends it. Nobody without the token gets in.")
    print_line(url)
