"""`foil report`: a run as one HTML page that stands alone."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption, OutArgument, SnapshotOption
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
    for sentence in (verdict.headline, *(each.sentence for each in verdict.findings)):
        say(sentence)
    say(f"{len(page.encode()):,} bytes; open it in a browser, or send it on: it loads nothing from anywhere")
    if as_json:
        print_json({"page": str(path), "verdict": asdict(verdict)})
    else:
        print_line(str(path))
