"""`foil report`: a run as one HTML page that stands alone. `foil view`: a run in the browser."""

import getpass
import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption, OutArgument, SnapshotOption
from foil.cluster.extras import need
from foil.cluster.terminal import print_json, print_line, say
from foil.engine.storage.opening import mirror_of


def report(
    out: OutArgument,
    against: Annotated[Path | None, typer.Option(parser=mirror_of, help="Another run, compared with this one.")] = None,
    into: Annotated[Path | None, typer.Option(help="The file to write. Default: OUT/report.html.")] = None,
    by_meaning: Annotated[
        bool, typer.Option("--by-meaning", help="Similarity and map by MiniLM, with the extra `train`; minutes more.")
    ] = False,
    snapshot: SnapshotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write one HTML page about a run: funnel, cost, instructions, labels, judges, repeats, map, topics."""
    from foil.cluster.desk.report import report_page
    from foil.engine.atomic_files import put_text

    page, verdict = report_page(out, against, snapshot=snapshot, by_meaning=by_meaning)
    path = into or out / "report.html"
    put_text(path, page)
    for sentence in verdict.sentences:
        say(sentence)
    say(f"{len(page.encode()):,} bytes; open it in a browser, or send it on: it loads nothing from anywhere")
    if as_json:
        print_json({"page": str(path), "verdict": asdict(verdict)})
    else:
        print_line(str(path))


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
    need("starlette", extra="desk")
    need("uvicorn", extra="desk")
    from foil.cluster.desk.embedding import map_method
    from foil.cluster.desk.measures import run_verdict
    from foil.datasets_out.desk.live_run import LiveRun
    from foil.datasets_out.desk.server import DeskPages, serve

    run = LiveRun(out, map_method(by_meaning=by_meaning), run_verdict)
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
