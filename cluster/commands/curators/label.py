"""`foil label`: blind labelling of a run by people, in the browser or in the terminal."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from foil.cluster.commands.arguments import OutArgument
from foil.cluster.commands.curators.report import PortOption, user_name
from foil.cluster.extras import need
from foil.cluster.terminal import print_line, say
from foil.engine.errors import UsageError

if TYPE_CHECKING:
    from foil.cluster.desk.labelling import LabelSession


def label(
    out: OutArgument,
    annotator: Annotated[str, typer.Option(help="Who labels. Default: your name on this machine.")] = "",
    topics: Annotated[int, typer.Option(min=1, max=10_000, help="Topics of a new sheet.")] = 40,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Which topics are drawn.")] = 0,
    status: Annotated[
        Literal["accepted", "rejected"], typer.Option(help="Rejected: to see which were so wrongly; drawn by reason.")
    ] = "accepted",
    reason: Annotated[str, typer.Option(help="Rejected topics of this reason alone.")] = "",
    name: Annotated[str, typer.Option(help="The sheet's name within the run. Default: by --seed and --topics.")] = "",
    terminal: Annotated[bool, typer.Option("--terminal", help="Ask in this terminal, without a browser.")] = False,
    port: PortOption = 0,
) -> None:
    """Label topics blind, by keys alone; goes on where you stopped. Marks become rows of the view `audits`."""
    from foil.cluster.desk.labelling import LabelSession, SheetDraw

    draw = SheetDraw(topics, seed, "rejected" if reason else status, reason)
    session = LabelSession(out, name or draw.name, draw)
    annotator = annotator or user_name()
    session.done(annotator)  # refuses a name that cannot be a file's
    if terminal:
        _ask_in_terminal(session, annotator)
    else:
        _serve(session, annotator, port)


def _serve(session: "LabelSession", annotator: str, port: int) -> None:
    need("starlette", extra="desk")
    need("uvicorn", extra="desk")
    from foil.cluster.desk.label_pages import TAB, LabelPages
    from foil.datasets_out.desk.live_run import LiveRun
    from foil.datasets_out.desk.server import DeskPages, serve

    pages = DeskPages(LiveRun(session.out), annotator, [TAB])

    def announce(url: str) -> None:
        say(f"{annotator} labels {len(session.items)} items here; Ctrl+C ends it, and the same command goes on later.")
        print_line(url)

    serve(pages, port, announce, LabelPages(session, annotator, pages).routes())


def _ask_in_terminal(session: "LabelSession", annotator: str) -> None:
    """Shows item after item and reads a line of marks for each; an empty line or the end of the input stops."""
    from foil.validators.audits.marks import split_marks
    from foil.validators.audits.sheet import GUIDE, item_text

    print_line(GUIDE)
    while (number := session.next_item(annotator)) is not None:
        print_line(f"{len(session.done(annotator)) + 1} of {len(session.items)}\n{item_text(session.item(number))}")
        while True:
            line = _read_line()
            if not line:
                say("stopped; what was marked is kept, and the same command goes on")
                return
            try:
                session.put(annotator, number, split_marks(line))
                break
            except UsageError as error:
                say(str(error))
    say(f"all {len(session.items)} items are marked")
    for line in session.false_rejections(annotator):
        print_line(line)
    for each in session.agreement():
        print_line(
            f"{each.who}: kappa {'–' if each.kappa is None else f'{each.kappa:.4f}'} over {each.passages} passages"
        )


def _read_line() -> str:
    print_line("marks: ", end="")
    return sys.stdin.readline().strip().removeprefix("marks").strip()
