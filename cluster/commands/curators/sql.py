"""`foil sql`: read-only queries over what runs committed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foil.cluster.commands.arguments import SnapshotOption
from foil.cluster.terminal import is_interactive, lines_of_user, print_data, print_line, print_pages, say
from foil.engine.errors import FoilError, UsageError
from foil.engine.storage.opening import mirror_of

if TYPE_CHECKING:
    import pyarrow as pa

    from foil.datasets_out.sql.result_forms import Form

_MOST_ROWS = 1000
_HELP = """\
A query ends with `;` or with an empty line.
.schema        every view, its columns and what they hold
.schema VIEW   one view
.quit          ends; so does Ctrl-D"""


@dataclass(frozen=True, slots=True)
class _Asking:
    """Which runs are asked, within which limits."""

    runs: Mapping[str, Path]
    snapshot: str | None
    timeout_s: float
    memory_bytes: int

    def table(self, query: str, form: Form) -> pa.Table:
        from foil.datasets_out.sql.query import QueryLimits, run_sql

        limits = QueryLimits(self.timeout_s, self.memory_bytes)
        return run_sql(self.runs, query, limits, snapshot=self.snapshot, form=form)

    def show(self, query: str, *, full: bool) -> None:
        """Prints the answer for people."""
        from foil.cluster.pages.rows import RowsPage

        table = self.table(query, "text")
        columns = (column.to_pylist() for column in table.slice(0, None if full else _MOST_ROWS).columns)
        page = RowsPage(table.column_names, list(zip(*columns, strict=True)), full)
        print_pages(page.draw)
        if not full and table.num_rows > _MOST_ROWS:
            say(f"the first {_MOST_ROWS:,} of {table.num_rows:,} rows; `--full` shows all, `--csv` writes them")

    def show_schema(self, view: str = "") -> None:
        """Prints the views, or one of them, with columns, types and what they hold."""
        from foil.cluster.pages.rows import schema_page
        from foil.datasets_out.sql.schema_words import VIEW_WORDS, describe_views

        views = describe_views(self.runs, self.snapshot)
        if view and view not in views:
            raise UsageError(f"there is no view {view!r}; the views are {', '.join(views)}")
        names = [view] if view else list(views)
        print_pages(lambda _: (part for name in names for part in schema_page(name, VIEW_WORDS[name], views[name])))


def sql(
    arguments: Annotated[
        list[str], typer.Argument(metavar="OUT... [QUERY]", help="Folders of runs, and one SELECT over their views.")
    ],
    snapshot: SnapshotOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Rows as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Rows as CSV; formulas are escaped.")] = False,
    parquet: Annotated[Path | None, typer.Option(help="Write the rows to this Parquet file.")] = None,
    schema: Annotated[bool, typer.Option(help="Print every view, its columns, and what they hold.")] = False,
    views: Annotated[bool, typer.Option(help="Print the views as SQL for your own duckdb.")] = False,
    catalog: Annotated[Path | None, typer.Option(help="Write the views to this DuckDB file.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Print all rows, whole texts and whole ids.")] = False,
    timeout_s: Annotated[float, typer.Option(help="Seconds that the query may take.")] = 60.0,
    memory_mb: Annotated[int, typer.Option(help="MiB that the query may take.")] = 4096,
) -> None:
    """Ask runs in SQL: topics, intents, passages, judgments, verdicts, rejects, calls, triplets, runs, ..."""
    answers = {"--json": as_json, "--csv": as_csv, "--parquet": parquet, "--full": full}
    without_query = {"--schema": schema, "--views": views, "--catalog": catalog}
    runs, query = _runs_and_query(arguments)
    if sum(map(bool, (*answers.values(), *without_query.values()))) > 1:
        raise UsageError(f"{', '.join((*answers, *without_query))} are different answers; give one of them")
    if query and any(without_query.values()):
        raise UsageError(f"{', '.join(without_query)} ask nothing; leave out the query, or them")
    asking = _Asking(runs, snapshot, timeout_s, memory_mb << 20)
    if schema:
        asking.show_schema()
    elif views:
        from foil.datasets_out.sql.views import views_script

        print_data(views_script(runs, snapshot) + "\n")
    elif catalog:
        from foil.datasets_out.sql.catalog import write_catalog

        write_catalog(runs, catalog, snapshot)
        say(f"the views are in {catalog}: duckdb -readonly {catalog}")
    elif not query and not any(answers.values()) and is_interactive():
        _prompt(asking)
    else:
        _answer(asking, query, as_json=as_json, as_csv=as_csv, parquet=parquet, full=full)


def _answer(asking: _Asking, query: str, *, as_json: bool, as_csv: bool, parquet: Path | None, full: bool) -> None:
    if not (parquet or as_json or as_csv):
        asking.show(query, full=full)
        return
    table = asking.table(query, "typed" if parquet else "json" if as_json else "text")
    from foil.datasets_out.sql import output_formats  # it loads Arrow: not before the query's process does

    if parquet:
        output_formats.write_parquet(table, parquet)
        say(f"{table.num_rows:,} rows are in {parquet}")
    else:
        print_data(output_formats.to_json(table) + "\n" if as_json else output_formats.to_csv(table))


def _runs_and_query(arguments: Sequence[str]) -> tuple[dict[str, Path], str]:
    """The runs by the names that they were given, and the query: the last argument, unless it is a folder."""
    folders, query = list(arguments), ""
    if len(folders) > 1 and not _is_folder(folders[-1]):
        query = folders.pop()
    if len(set(folders)) < len(folders):
        raise UsageError(f"a run is named twice among {', '.join(folders)}; name each once")
    return {folder: mirror_of(folder) for folder in folders}, query


def _is_folder(argument: str) -> bool:
    try:
        return mirror_of(argument).is_dir()
    except OSError:  # a query may be longer than any name
        return False


def _prompt(asking: _Asking) -> None:
    """Asks for queries until the end; an error ends a query and not the prompt."""
    print_line(f"{', '.join(asking.runs)}: .help says what can be typed")
    for query in _queries(lines_of_user("foil> ")):
        try:
            match query.split():
                case [".quit" | ".exit"]:
                    return
                case [".help"]:
                    print_line(_HELP)
                case [".schema", *view] if len(view) < 2:
                    asking.show_schema(*view)
                case _:
                    asking.show(query, full=False)
        except FoilError as error:
            say(f"foil: {error}")


def _queries(lines: Iterator[str]) -> Iterator[str]:
    """Commands, which are one line, and queries, which end with `;` or an empty line."""
    parts: list[str] = []
    for line in lines:
        if line.startswith(".") and not parts:
            yield line.strip()
            continue
        parts.append(line)
        query = "\n".join(parts).strip()
        if query and (query.endswith(";") or not line.strip()):
            yield query
        if not query or query.endswith(";") or not line.strip():
            parts = []
    if query := "\n".join(parts).strip():
        yield query
