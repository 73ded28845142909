"""`foil benchmarks annotate`: instructions for a benchmark's bare queries, by a model and a reader."""

from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption, SetOption
from foil.cluster.terminal import print_json
from foil.engine.errors import UsageError


def annotate(
    source: Annotated[str, typer.Argument(metavar="KIND:PATH", help="A benchmark of one collection.")],
    model: Annotated[str, typer.Option(help="Who writes the instructions: MODEL@URL.")] = "",
    sheet: Annotated[Path | None, typer.Option(help="Where the sheet goes, a .jsonl file.")] = None,
    overrides: SetOption = None,
    replies: Annotated[Path | None, typer.Option(help="What keeps replies. Default: evaluation/replies.")] = None,
    marked: Annotated[Path | None, typer.Option(help="The sheet with `keep` set in every row.")] = None,
    into: Annotated[Path | None, typer.Option(help="With --marked: a folder for the new benchmark.")] = None,
    reader: Annotated[str, typer.Option(help="Who marked it.")] = "reader",
    as_json: JsonOption = False,
) -> None:
    """Have a model write instructions for bare queries (--model), or keep those that a reader marked (--marked).

    `--set about="..."` tells the model what the collection is. Nothing is published without a reader's yes.
    """
    from foil.cluster.benchmarks.annotating import apply_instructions, draft_instructions
    from foil.cluster.extras import need

    need("sentence_transformers", extra="train")
    if model and sheet and not marked and not into:
        drafts = draft_instructions(source, model, sheet, overrides or [], replies)
        if as_json:
            print_json({"sheets": [str(sheet)], "instructions": drafts})
    elif marked and into and not (model or sheet):
        apply_instructions(source, marked, into, reader, as_json=as_json)
    else:
        raise UsageError("give --model MODEL@URL with --sheet FILE, or --marked FILE with --into FOLDER")
