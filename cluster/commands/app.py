"""The program `foil`: its commands, in the order in which `foil --help` lists them.

Commands of one kind share a file, in the folder of their users: operators, curators, releases (what curators change and
pass on), trainers. A command reads its arguments, calls other rooms and prints the result. Heavy libraries load only
inside the command that needs them.
"""

from collections.abc import Callable
from typing import Annotated

import typer

from foil.cluster.commands.curators.audit import agreement, audit, calibrate
from foil.cluster.commands.curators.label import label
from foil.cluster.commands.curators.report import diff, report, view
from foil.cluster.commands.curators.show import show
from foil.cluster.commands.curators.sql import sql
from foil.cluster.commands.curators.verify import verify
from foil.cluster.commands.curators.why import reasons, why
from foil.cluster.commands.operators.doctor import doctor
from foil.cluster.commands.operators.init import init
from foil.cluster.commands.operators.plan import plan
from foil.cluster.commands.operators.run import run
from foil.cluster.commands.operators.seeds import fetch, preview
from foil.cluster.commands.operators.submit import cancel, logs, submit
from foil.cluster.commands.operators.try_job import try_
from foil.cluster.commands.operators.watch import job, status, watch
from foil.cluster.commands.releases.export import export
from foil.cluster.commands.releases.filter import accept, drop, filter_
from foil.cluster.commands.releases.merge import merge, mix, revalidate
from foil.cluster.commands.releases.push import push, restore
from foil.cluster.commands.releases.relabel import relabel
from foil.cluster.commands.releases.snapshot import compact, gc, snapshot
from foil.cluster.commands.trainers.benchmarks import (
    annotate,
    fetch_benchmark,
    list_benchmarks,
    make,
    respond,
    review,
    show_benchmark,
)
from foil.cluster.commands.trainers.evaluate import evaluate
from foil.cluster.commands.trainers.train import ablate, average, mine, train
from foil.cluster.terminal import print_line

_COMMANDS: tuple[Callable[..., None], ...] = (
    init, run, try_, plan, job, submit, cancel, logs, watch, status, show, sql, why, reasons, diff, report, view,
    label, audit, agreement, calibrate, verify, snapshot, filter_, drop, accept, revalidate, relabel, merge, mix, mine,
    compact, gc, export, restore, push, train, average, evaluate, ablate, doctor,
)  # fmt: skip
COMMANDS = {command.__name__.rstrip("_"): command for command in _COMMANDS}
SEEDS_COMMANDS = {command.__name__: command for command in (preview, fetch)}
BENCHMARKS_COMMANDS: dict[str, Callable[..., None]] = {
    "list": list_benchmarks,
    "show": show_benchmark,
    "fetch": fetch_benchmark,
    "make": make,
    "review": review,
    "annotate": annotate,
    "respond": respond,
}

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # with boxes the help would take twice as long
    help="Synthesise, verify and commit training data for instruction-following retrieval, and train on it. "
    "Exit codes: 0 done, 1 error, 2 wrong usage, 3 some seeds failed, 4 budget spent, 5 judge unreliable, "
    "6 damaged data, 7 query stopped, 8 commit or storage failed, 9 model failed, 10 training diverged, 11 incomplete, "
    "12 held by another run, 13 a breaker tripped, 14 no Ray head answers, 15 something that a run needs is missing, "
    "70 a fault of Foil, 129/130/143 interrupted, 141 nobody reads stdout any more.",
)
seeds_app = typer.Typer(no_args_is_help=True, help="Look at corpora, and fetch the public ones.")
app.add_typer(seeds_app, name="seeds")
benchmarks_app = typer.Typer(no_args_is_help=True, help="Published benchmarks, and benchmarks of your own.")
app.add_typer(benchmarks_app, name="benchmarks")
for group, commands in ((app, COMMANDS), (seeds_app, SEEDS_COMMANDS), (benchmarks_app, BENCHMARKS_COMMANDS)):
    for name, command in commands.items():
        group.command(name, short_help=(command.__doc__ or "").split("\n\n")[0])(command)


def print_version(requested: bool) -> None:
    """Prints name and version, and ends the program."""
    if requested:
        from foil.cluster.extras import PACKAGE, version_of

        print_line(f"{PACKAGE} {version_of(PACKAGE) or '(not installed as a package)'}")
        raise typer.Exit


@app.callback()
def set_options(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """The options of `foil` itself."""
