"""`foil why`: where one record comes from."""

import json
from typing import Annotated

import typer

from cluster.commands.arguments import JsonOption, OutArgument
from cluster.terminal import print_data, print_line


def why(
    out: OutArgument,
    record: Annotated[str, typer.Argument(help="The id of a topic, intent, passage, call or seed, or its beginning.")],
    as_json: JsonOption = False,
) -> None:
    """Where a record comes from: its seed, prompts, model, calls, judgments, verdicts and file."""
    from datasets_out.sql.lineage import render, trace_lineage

    tree = trace_lineage(out, record)
    if as_json:
        print_data(json.dumps(tree.to_json(), ensure_ascii=False, default=str) + "\n")
    else:
        print_line(render(tree))
