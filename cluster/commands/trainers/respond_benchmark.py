"""`foil benchmarks respond`: a model's responses to IFEval's prompts, the candidates of its sub-tasks."""

from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption, SetOption


def respond(
    source: Annotated[str, typer.Argument(metavar="ifeval:FOLDER", help="The folder of IFEval's input_data.jsonl.")],
    model: Annotated[str, typer.Option(help="Who responds: MODEL@URL.")],
    overrides: SetOption = None,
    replies: Annotated[Path | None, typer.Option(help="What keeps replies. Default: evaluation/replies.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Have a model respond to IFEval's prompts until each has enough responses that follow, and that do not.

    Writes FOLDER/responses_MODEL.jsonl, which `foil benchmarks make ifeval:FOLDER` takes. No reply is paid twice.
    """
    from foil.cluster.benchmarks.responding import draw_responses
    from foil.cluster.extras import need

    need("sentence_transformers", extra="train")
    draw_responses(source, model, overrides or [], replies, as_json=as_json)
