"""`foil sql`: one read-only query over what a run committed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.commands.arguments import OutArgument, SnapshotOption
from cluster.terminal import print_data, say, show
from engine.errors import UsageError

if TYPE_CHECKING:
    from datasets_out.sql.result_forms import Form


def sql(
    out: OutArgument,
    query: Annotated[str, typer.Argument(help="One SELECT over the views of the run.")] = "",
    snapshot: SnapshotOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Rows as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Rows as CSV; formulas are escaped.")] = False,
    parquet: Annotated[Path | None, typer.Option(help="Write the rows to this Parquet file.")] = None,
    views: Annotated[bool, typer.Option(help="Print the views as SQL for your own duckdb.")] = False,
    timeout_s: Annotated[float, typer.Option(help="Seconds that the query may take.")] = 60.0,
    memory_mb: Annotated[int, typer.Option(help="MiB that the query may take.")] = 4096,
) -> None:
    """Ask a run in SQL: topics, intents, passages, judgments, verdicts, rejects, calls, triplets, runs."""
    if sum(map(bool, (as_json, as_csv, parquet, views))) > 1:
        raise UsageError("--json, --csv, --parquet and --views are different answers; give one of them")
    if views and query:
        raise UsageError("--views prints the views and asks nothing; leave out the query, or --views")
    if views:
        from datasets_out.sql.views import views_script

        print_data(views_script(out, snapshot) + "\n")
        return
    from datasets_out.sql import output_formats
    from datasets_out.sql.query import run_sql

    form: Form = "typed" if parquet else "json" if as_json else "text"
    table = run_sql(out, query, timeout_s=timeout_s, memory_bytes=memory_mb << 20, snapshot=snapshot, form=form)
    if parquet:
        output_formats.write_parquet(table, parquet)
        say(f"{table.num_rows:,} rows are in {parquet}")
    elif as_json:
        print_data(output_formats.to_json(table) + "\n")
    elif as_csv:
        print_data(output_formats.to_csv(table))
    else:
        show(table.column_names, zip(*(column.to_pylist() for column in table.columns), strict=True))
