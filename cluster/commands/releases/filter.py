"""`foil filter`, `foil drop` and `foil accept`: a run with other accepted topics, as a new run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foil.cluster.commands.arguments import JsonOption, OutArgument, SnapshotOption
from foil.cluster.commands.curators.report import user_name
from foil.cluster.terminal import print_json, say, show
from foil.engine.errors import UsageError
from foil.engine.seeds.files.text_files import read_text
from foil.engine.storage.opening import mirror_of

if TYPE_CHECKING:
    from foil.datasets_out.curation.derived_run import DerivedRun

IntoArgument = Annotated[Path, typer.Argument(parser=mirror_of, metavar="INTO", help="A folder for the new run.")]

IdsArgument = Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Ids of topics, or their beginnings.")]
IdsOption = Annotated[Path | None, typer.Option("--ids", help="A file with one id a line.")]


def filter_(
    out: OutArgument,
    into: IntoArgument,
    where: Annotated[
        str, typer.Option(help="SQL condition on topics, `flag`, `note`: accepted ones that hold stay.")
    ] = "",
    balance: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column or SQL expression whose values keep equally many topics.")
    ] = "",
    at_most: Annotated[
        int | None, typer.Option(min=1, help="Topics that each value of --balance keeps. Default: as the rarest has.")
    ] = None,
    heldout: Annotated[str, typer.Option(help="SQL condition: such topics are held out of training from now on.")] = "",
    rejected: Annotated[
        bool, typer.Option("--rejected", help="Choose from rejected topics too: those that hold are accepted.")
    ] = False,
    snapshot: SnapshotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a run in which only chosen topics are accepted; the others are rejected rows, `filtered` or `balanced`."""
    from foil.datasets_out.commits.snapshot import load_snapshot
    from foil.datasets_out.curation.choosing import Choice, filter_run

    source = load_snapshot(out, snapshot, verify=True)
    _show(filter_run(source, into, Choice(where, balance, at_most, heldout, rejected)), as_json=as_json)


def drop(
    out: OutArgument,
    into: IntoArgument,
    topics: IdsArgument = None,
    reason: Annotated[str, typer.Option(help="Why: the reason of the rejected rows.")] = "",
    ids_file: IdsOption = None,
    snapshot: SnapshotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a run without some topics: they stay as rejected rows with the reason that you give."""
    from foil.datasets_out.commits.snapshot import load_snapshot
    from foil.datasets_out.curation.choosing import drop_topics

    names = [*(topics or []), *(_lines(ids_file) if ids_file else [])]
    if not names:
        raise UsageError("no topic was named; give ids, or --ids FILE with one a line")
    _show(drop_topics(load_snapshot(out, snapshot, verify=True), into, names, reason), as_json=as_json)


def accept(
    out: OutArgument,
    into: IntoArgument,
    topics: IdsArgument = None,
    reason: Annotated[str, typer.Option(help="Why these topics are right after all.")] = "",
    ids_file: IdsOption = None,
    where: Annotated[
        str, typer.Option(help="SQL condition on topics, `flag`, `note`: rejected ones with a contrast that hold.")
    ] = "",
    by: Annotated[str, typer.Option(help="Who accepts them. Default: your name on this machine.")] = "",
    snapshot: SnapshotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a run in which rejected topics are accepted, with who did so and why; their labels are the recipe's."""
    from foil.datasets_out.commits.snapshot import load_snapshot
    from foil.datasets_out.curation.choosing import Acceptance, accept_topics

    names = [*(topics or []), *(_lines(ids_file) if ids_file else [])]
    if not (names or where):
        raise UsageError("no topic was named; give ids, --ids FILE with one a line, or --where")
    source = load_snapshot(out, snapshot, verify=True)
    _show(accept_topics(source, into, names, where, Acceptance(by or user_name(), reason)), as_json=as_json)


def _lines(path: Path) -> list[str]:
    return read_text(path, "a text file with one id a line").split()


def _show(run: DerivedRun, *, as_json: bool) -> None:
    from foil.datasets_out.commits.log import CommitLog

    counts = CommitLog(run.snapshot.out).sums().counts.topics
    if as_json:
        print_json({"out": str(run.snapshot.out), "digest": run.snapshot.digest, "changed": dict(run.changed),
                    "topics": dict(counts)})  # fmt: skip
        return
    rows = [(f"now {name}", f"{count:,}") for name, count in sorted(run.changed.items())]
    rows += [(f"topics {status}", f"{counts[status]:,}") for status in ("accepted", "rejected", "failed")]
    show(["what", "topics"], rows, numbers=True)
    say(f"{run.snapshot.out} is a run of its own, snapshot {run.snapshot.name}; `foil why` follows its topics back")
