"""`foil why`: where one record comes from."""

import json
from typing import Annotated

import typer

from cluster.commands.arguments import JsonOption, OutArgument


def why(
    out: OutArgument,
    record: Annotated[str, typer.Argument(help="The id of a topic, intent, passage, call or seed, or its beginning.")],
    as_json: JsonOption = False,
) -> None:
    """Where a record comes from: its seed, prompts, model, calls, judgments, verdicts and file."""
    from datasets_out.sql.lineage import render, trace_lineage

    tree = trace_lineage(out, record)
    print(json.dumps(tree.to_json(), ensure_ascii=False, default=str) if as_json else render(tree))
