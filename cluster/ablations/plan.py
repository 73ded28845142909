"""The runs of an ablation and what they are measured on, checked before anything is trained."""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from foil.cluster.evaluations.benchmarks import SlowNotes, read_source
from foil.cluster.job import TrainingJob, load_training_job
from foil.cluster.training import pin_topics, train_settings
from foil.datasets_out.training.sources import SourceSettings, pin_source
from foil.datasets_out.training.training_view import Split
from foil.engine.errors import UsageError
from foil.trainer.evaluate.ablation.evaluation_data import BenchmarkSet, EvaluationData, TopicSet, refuse_shared
from foil.trainer.evaluate.ablation.settings import TOPICS, AblationSettings, Cell, cells_of, check_equal_steps
from foil.trainer.evaluate.systems.system import SystemSettings
from foil.trainer.settings import EvaluateSettings, TrainSettings

Stage = Literal["dev", "report"]


@dataclass(frozen=True, slots=True, eq=False)
class CellRun:
    """One training run of a cell: its checked job, and the command that makes the same model."""

    cell: str
    seed: int
    job: TrainingJob
    settings: TrainSettings
    command: str


def cell_runs(settings: AblationSettings) -> list[CellRun]:
    """The runs of all cells, the baseline's first, on data that is pinned now.

    Raises UsageError that names the cell, also where cells train for different numbers of steps.
    """
    cells, base = cells_of(settings), load_training_job(settings.job)
    own = train_settings(settings.job, base)
    kept_apart = [*map(_pinned, own.protect), *_data_of(settings, base, cells[0])]
    runs = [run for cell in cells for run in _runs_of(settings, base, cell, kept_apart)]
    schedules = {run.cell: run.settings.schedule for run in runs}
    for run in runs:
        if run.settings.reranker:
            raise UsageError(
                f"the cell {run.cell} trains a reranker, and cells are compared as embedders; train rerankers with "
                "`foil train`, and compare them with `foil evaluate rerank:OUT/model ...`"
            )
    check_equal_steps([(cell, None if each.epochs else each.steps) for cell, each in schedules.items()])
    return runs


def _runs_of(settings: AblationSettings, base: TrainingJob, cell: Cell, kept_apart: Sequence[Any]) -> Iterator[CellRun]:
    """A run a seed. `kept_apart`: runs whose dev and held-out texts no cell trains on, the baseline's among them."""
    steps = [f"train.schedule.steps={settings.steps}", "train.schedule.epochs=null"] if settings.steps else []
    data = _data_of(settings, base, cell)
    protect = [source for source in kept_apart if source not in data]
    pinned = (f"train.data={json.dumps(data)}", f"train.protect={json.dumps(protect)}")
    for seed in range(settings.seeds):
        own = (*cell.overrides, *steps, f"train.schedule.seed={seed}", *pinned)
        out = settings.out / "cells" / cell.name / f"seed-{seed}"
        sets = [part for override in own for part in ("--set", override)]
        command = shlex.join(["foil", "train", str(settings.job), *sets, "--out", str(out)])
        job = load_training_job(settings.job, own, out)
        yield CellRun(cell.name, seed, job, train_settings(settings.job, job), command)


def _data_of(settings: AblationSettings, base: TrainingJob, cell: Cell) -> list[dict[str, Any]]:
    """What the cell trains on, pinned. Raises UsageError that names the cell."""
    try:
        data = train_settings(settings.job, load_training_job(settings.job, cell.overrides)).data
        return [_pinned(source) for source in data or (SourceSettings(run=base.out),)]
    except UsageError as error:
        raise UsageError(f"the cell {cell.name}: {error}") from None


def _pinned(source: SourceSettings) -> dict[str, Any]:
    """The source with a snapshot of what is committed now, so that all cells train on the same data."""
    return source.model_copy(update={"snapshot": pin_source(source).snapshot.name}).model_dump(mode="json")


def evaluation_sets(settings: AblationSettings, baseline: CellRun) -> dict[Stage, list[EvaluationData]]:
    """What cells are chosen on and reported on, read and checked. Topics are those of the baseline's data."""
    sets: dict[Stage, list[EvaluationData]] = {
        "dev": [_opened(settings, baseline, text, "dev", first=not place) for place, text in enumerate(settings.dev)],
        "report": [_opened(settings, baseline, text, "report") for text in settings.report],
    }
    sets["dev"][0].measure_name(settings.measure)
    for stage, of_stage in zip(("dev", "report"), (settings.dev, settings.report), strict=True):
        _refuse_twice(stage, of_stage)
    refuse_shared(sets["dev"], sets["report"])
    return sets


def _opened(
    settings: AblationSettings, baseline: CellRun, text: str, stage: Stage, *, first: bool = False
) -> EvaluationData:
    if text != TOPICS:
        system = SystemSettings(depth=settings.depth, encode=settings.encode)
        return BenchmarkSet(read_source(text), system, settings.measure if first else "", SlowNotes())
    view = pin_topics(baseline.job, baseline.settings)
    split: Split = "heldout" if stage == "report" else "dev"
    return TopicSet(view, split, baseline.job.evaluate or EvaluateSettings(), settings.measure if first else "")


def _refuse_twice(stage: str, texts: Sequence[str]) -> None:
    twice = [text for text in texts if texts.count(text) > 1]
    if twice:
        raise UsageError(f"`{stage}` names {twice[0]} twice; name it once")
