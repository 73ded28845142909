"""`foil report`: a run as one HTML page. `foil view`: a run in the browser. `foil diff`: what two runs do not share."""

import getpass
import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption, OutArgument, SnapshotOption
from foil.cluster.extras import need
from foil.cluster.terminal import print_json, print_line, print_pages, say
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


def diff(
    a: Annotated[Path, typer.Argument(parser=mirror_of, metavar="A", help="The folder of a run.")],
    b: Annotated[Path, typer.Argument(parser=mirror_of, metavar="B", help="The folder of another run.")],
    examples: Annotated[int, typer.Option(min=0, max=1000, help="Examples of each kind of difference.")] = 3,
    parquet: Annotated[Path | None, typer.Option(help="Write every difference as a row to this Parquet file.")] = None,
    snapshot_a: Annotated[str | None, typer.Option(help="A snapshot of A. Default: all that is committed now.")] = None,
    snapshot_b: Annotated[str | None, typer.Option(help="A snapshot of B. Default: all that is committed now.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two runs: seeds, topics, outcomes, instructions and judgments that are in one alone or changed."""
    from foil.datasets_out.diff.run_diff import CHANGES, KINDS, diff_runs

    run_diff = diff_runs(a, b, snapshot_a, snapshot_b)
    if parquet:
        from foil.datasets_out.sql.output_formats import write_parquet

        write_parquet(run_diff.rows, parquet)
    if as_json:
        rows = [row for kind in KINDS for change in CHANGES for row in run_diff.examples(kind, change, examples)]
        reasons = [{"before": before, "after": after, "topics": count} for before, after, count in run_diff.reasons()]
        print_json({"topics": run_diff.topics, "counts": run_diff.counts, "outcomes": reasons, "examples": rows})
    else:
        from foil.cluster.pages.diff_page import diff_page

        names = (_name(a, snapshot_a), _name(b, snapshot_b))
        print_pages(lambda console: diff_page(run_diff, names, examples, console))
    if parquet:
        say(f"{run_diff.rows.num_rows:,} differences are in {parquet}")


def _name(run: Path, snapshot: str | None) -> str:
    return f"{run}#{snapshot}" if snapshot else str(run)
