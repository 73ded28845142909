"""`foil average`: the mean of several trained models as one model."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption
from foil.cluster.terminal import print_json, say


def average(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help="Two or more models: OUT/model of trainings.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Where it goes: OUT/model.")],
    share: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="The share of the mean; the rest is the base model's.")
    ] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Average the weights of models that began with one base: other seeds, settings or data."""
    from foil.cluster.extras import need

    need("sentence_transformers", extra="train")
    from foil.trainer.train.run.average import average_models

    command = shlex.join(["foil", "average", *map(str, models), "--out", str(out), "--share", f"{share:g}"])
    mean = average_models(models, out, share, command)
    if as_json:
        print_json({"model": str(mean.model), **mean.facts})
    say(f"the mean of {len(models)} models is in {mean.model}; load it with sentence_transformers.SentenceTransformer")
