"""`foil train`, and what else is done with trainings: `foil average`, `foil mine` and `foil ablate`."""

import shlex
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import (
    FolderOption,
    JobArgument,
    JsonOption,
    OutArgument,
    OutOption,
    SetOption,
    SnapshotOption,
)
from foil.cluster.extras import need
from foil.cluster.releases.onnx_files import need_onnx, show_export
from foil.cluster.terminal import print_json, say
from foil.engine.errors import UsageError


class Export(StrEnum):
    """A form in which a model is served."""

    ONNX = "onnx"


def train(
    job_file: JobArgument,
    overrides: SetOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
    export: Annotated[Export | None, typer.Option(help="Then write the model in this form too: foil export.")] = None,
) -> None:
    """Train the job's embedder, or its reranker, on its committed topics; resumes by itself.

    The model goes to OUT/model. A job of `out` and `train` alone trains on runs that exist.
    """
    from foil.cluster.job import load_training_job
    from foil.cluster.training import train_job, train_settings

    need("sentence_transformers", extra="train")
    job = load_training_job(job_file, overrides or [], out)
    settings = train_settings(job_file, job)
    if export:
        need_onnx()
        if settings.reranker or settings.model.late_interaction:
            raise UsageError(
                "only embedders with one vector a text are exported; leave out `--export`, or "
                "`train.reranker` and `model.late_interaction`"
            )
    trained = train_job(job, settings, _command(job_file, overrides or [], out))
    if as_json:
        print_json({"model": str(trained.model), **trained.facts})
    from foil.trainer.model.card import DRAWINGS, library_class

    drawings = [str(trained.model / name) for name in DRAWINGS if (trained.model / name).exists()]
    say(f"drawings: {', '.join(drawings)}; logs: {job.out / 'logs'}")
    loader = library_class(trained.facts["settings"])
    say(f"the model is in {trained.model}; load it with sentence_transformers.{loader}")
    if export:
        show_export(trained.model)


def _command(job_file: Path, overrides: Sequence[str], out: Path | str | None) -> str:
    settings = [part for override in overrides for part in ("--set", override)]
    place = ["--out", str(out)] if out else []
    return shlex.join(["foil", "train", str(job_file), *place, *settings])


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
    need("sentence_transformers", extra="train")
    from foil.trainer.train.run.average import average_models

    command = shlex.join(["foil", "average", *map(str, models), "--out", str(out), "--share", f"{share:g}"])
    mean = average_models(models, out, share, command)
    if as_json:
        print_json({"model": str(mean.model), **mean.facts})
    say(f"the mean of {len(models)} models is in {mean.model}; load it with sentence_transformers.SentenceTransformer")


def mine(
    out: OutArgument,
    into: Annotated[Path, typer.Argument(help="A folder for the new run.")],
    overrides: SetOption = None,
    job: Annotated[
        Path | None, typer.Option(help="The run's job file: its `train.split` is kept, its seeds can be mined.")
    ] = None,
    snapshot: SnapshotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a run with mined hard negatives: `--set miner=bm25`, or `miner=model` with `model=DIRECTORY`."""
    from foil.cluster.mining import mine_run

    if "miner=model" in (overrides or []):
        need("sentence_transformers", extra="train")
    mine_run(out, into, overrides or [], job, snapshot, as_json=as_json)


def ablate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A YAML file: job, out, factors, dev, report.")],
    overrides: SetOption = None,
    out: FolderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train the cells of an ablation, choose one on dev and report it; goes on where it stopped.

    Tables go to OUT/ablation.md and OUT/ablation.jsonl.
    """
    need("sentence_transformers", extra="train")
    from foil.cluster.ablations.run import ablate_file

    ablate_file(file, overrides or [], out, as_json=as_json)
