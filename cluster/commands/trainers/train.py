"""`foil train`: pins the committed topics and trains the job's embedder on them."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from cluster.commands.arguments import JobArgument, JsonOption, OutOption, SetOption
from cluster.terminal import print_json, say


def train(
    job_file: JobArgument, overrides: SetOption = None, out: OutOption = None, as_json: JsonOption = False
) -> None:
    """Train the job's embedder on its committed topics; resumes by itself. The model goes to OUT/model."""
    from cluster.extras import need
    from cluster.job import load_job
    from cluster.training import train_job, train_settings

    need("sentence_transformers", extra="train")
    job = load_job(job_file, overrides or [], out)
    settings = train_settings(job_file, job)
    trained = train_job(job, settings, _command(job_file, overrides or []))
    if as_json:
        print_json({"model": str(trained.model), **trained.facts})
    from trainer.run.card import DRAWINGS

    drawings = [str(trained.model / name) for name in DRAWINGS if (trained.model / name).exists()]
    say(f"drawings: {', '.join(drawings)}; logs: {job.out / 'logs'}")
    say(f"the model is in {trained.model}; load it with sentence_transformers.SentenceTransformer")


def _command(job_file: Path, overrides: Sequence[str]) -> str:
    settings = [part for override in overrides for part in ("--set", override)]
    return shlex.join(["foil", "train", str(job_file), *settings])
