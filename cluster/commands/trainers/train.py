"""`foil train`: pins the committed topics and trains the job's embedder or reranker on them."""

import shlex
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JobArgument, JsonOption, OutOption, SetOption
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
    from foil.cluster.extras import need
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
