"""`foil ablate`: the training runs of an ablation, compared on dev and reported."""

from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import FolderOption, JsonOption, SetOption


def ablate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A YAML file: job, out, factors, dev, report.")],
    overrides: SetOption = None,
    out: FolderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train the cells of an ablation, choose one on dev and report it; goes on where it stopped.

    Tables go to OUT/ablation.md and OUT/ablation.jsonl.
    """
    from foil.cluster.extras import need

    need("sentence_transformers", extra="train")
    from foil.cluster.ablations.run import ablate_file

    ablate_file(file, overrides or [], out, as_json=as_json)
