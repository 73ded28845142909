"""`foil train`: pins the committed topics and trains the job's embedder or reranker on them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.commands.arguments import JobArgument, JsonOption, OutOption, SetOption
from cluster.commands.trainers.export import need_onnx, show_export
from cluster.terminal import print_json, say
from engine.errors import UsageError

if TYPE_CHECKING:
    from cluster.job import Job
    from datasets_out.training.training_view import TrainingView
    from trainer.evaluation.validation import Measurement
    from trainer.model.published_model import PublishedModel
    from trainer.run.logs import LogRow
    from trainer.settings import TrainSettings


class Export(StrEnum):
    """A form in which a model is served."""

    ONNX = "onnx"


_MEASURES = {
    "both_views": "both views",
    "net": "net p-MRR",
    "instructed_ndcg": "nDCG@10 with instructions",
    "plain_ndcg": "without",
}


def train(
    job_file: JobArgument,
    overrides: SetOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
    export: Annotated[Export | None, typer.Option(help="Then write the model in this form too: foil export.")] = None,
) -> None:
    """Train the job's embedder, or its reranker, on its committed topics; resumes by itself.

    The model goes to OUT/model.
    """
    from cluster.extras import need
    from cluster.job import load_job
    from cluster.training import train_settings

    need("sentence_transformers", extra="train")
    job = load_job(job_file, overrides or [], out)
    settings = train_settings(job_file, job)
    if export:
        need_onnx()
        if settings.reranker:
            raise UsageError("only embedders are exported; leave out `--export`, or `train.reranker`")
    trained = _find_trained(job, settings) or _train(job, settings, _command(job_file, overrides or []))
    if as_json:
        print_json({"model": str(trained.model), **trained.facts})
    from trainer.run.card import DRAWINGS

    drawings = [str(trained.model / name) for name in DRAWINGS if (trained.model / name).exists()]
    say(f"drawings: {', '.join(drawings)}; logs: {job.out / 'logs'}")
    loader = "CrossEncoder" if settings.reranker else "SentenceTransformer"
    say(f"the model is in {trained.model}; load it with sentence_transformers.{loader}")
    if export:
        show_export(trained.model)


def _find_trained(job: Job, settings: TrainSettings) -> PublishedModel | None:
    """The model of these settings and data, if it is there; nothing is read but its facts."""
    from cluster.training import pin_sources
    from datasets_out.training.sources import digest_of
    from trainer.model.published_model import fingerprint_of, read_published_model

    if not (job.out / "model").exists():
        return None
    trained = read_published_model(job.out, fingerprint_of(settings, digest_of(pin_sources(job, settings))))
    say("trained already, with these settings on these data")
    return trained


def _train(job: Job, settings: TrainSettings, command: str) -> PublishedModel:
    from cluster.extras import need
    from cluster.training import pin_topics

    if settings.workers:
        need("ray", extra="ray")
    view = pin_topics(job, settings)
    _print_view(view)
    from trainer.run.monitor import Callbacks

    steps = settings.schedule.with_steps_for(len(view.partitions("train"))).steps
    callbacks = Callbacks(partial(_print_step, steps=steps), _print_measured)
    if settings.workers:
        from trainer.run.fit_ray import train_on_ray

        return train_on_ray(settings, view, job.out, command, callbacks)
    if settings.reranker:
        from trainer.run.fit_reranker import train_reranker

        return train_reranker(settings, view, job.out, command, callbacks)
    from trainer.run import fit

    return fit.train(settings, view, job.out, command, callbacks)


def _command(job_file: Path, overrides: Sequence[str]) -> str:
    settings = [part for override in overrides for part in ("--set", override)]
    return shlex.join(["foil", "train", str(job_file), *settings])


def _print_view(view: TrainingView) -> None:
    for split, facts in view.facts.items():
        counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in facts.items())
        say(f"{split}: {counts}")


def _print_step(row: LogRow, *, steps: int) -> None:
    if row.step % 10 == 0 or row.step == steps:
        speed = f"{row.seconds:.2f} s a step, {row.topics_per_s:.1f} topics/s"
        say(f"step {row.step}/{steps}  loss {row.loss:.3f}  {speed}")


def _print_measured(measurement: Measurement) -> None:
    means = ", ".join(
        f"{words} {measurement.means[name]:.1f}" for name, words in _MEASURES.items() if name in measurement.means
    )
    say(f"dev topics after step {measurement.step}: {means} ({measurement.seconds:.1f} s)")
