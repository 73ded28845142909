"""`foil ablate`: trains every cell of an ablation, chooses one on dev, and reports it with the baseline.

    FILE -> cells x seeds, each a checked job -> train, score on dev -> choose -> score on report -> tables

A cell's run is one of `foil train` in OUT/cells/CELL/seed-N, its scores next to it. What is there is not made again.
"""

import json
import shutil
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from foil.cluster.ablations.plan import CellRun, Stage, cell_runs, evaluation_sets
from foil.cluster.ablations.tables import Compared, Table, write_tables
from foil.cluster.evaluations.benchmarks import about
from foil.cluster.job import read_settings
from foil.cluster.terminal import print_json, say
from foil.cluster.training import train_job
from foil.engine.atomic_files import held
from foil.engine.errors import UsageError
from foil.engine.seeds.parallel.processes import map_in_order
from foil.trainer.evaluate.ablation.evaluation_data import (
    BenchmarkSet,
    EvaluationData,
    ModelScores,
    scores_of,
    values_of,
)
from foil.trainer.evaluate.ablation.settings import BASELINE, AblationSettings
from foil.trainer.evaluate.ablation.table import best_cell, compare_cells
from foil.trainer.evaluate.comparison.results import keep, results, weighted
from foil.trainer.evaluate.comparison.scores import CollectionScores
from foil.trainer.model.loading import share_cpus
from foil.trainer.model.published_model import PublishedModel

Scores = Mapping[CellRun, ModelScores]


def ablate_file(path: Path, overrides: Sequence[str] = (), out: Path | None = None, *, as_json: bool = False) -> None:
    """Runs the ablation of a file, or goes on where it stopped; prints its tables and keeps them in OUT.

    Raises RunHeldError while another process of this machine does.
    """
    all_overrides = [*overrides, *([f"out={json.dumps(str(out))}"] if out else [])]
    settings = read_settings(path, AblationSettings, "an ablation", all_overrides)
    runs = cell_runs(settings)
    sets = evaluation_sets(settings, runs[0])
    with held(settings.out, "ablate"):
        tables = _ablate(path, settings, runs, sets)
    if as_json:
        print_json([row for table in tables for row in table.rows()])


def _ablate(
    path: Path, settings: AblationSettings, runs: Sequence[CellRun], sets: Mapping[Stage, Sequence[EvaluationData]]
) -> list[Table]:
    """The tables, also written to OUT."""
    if settings.at_once > 1:
        processes = min(settings.at_once, len(runs))
        deque(map_in_order(_Apart(settings, runs), range(len(runs)), processes, "trains a cell"), maxlen=0)
    models = {run: _train(place, runs, sets["dev"], settings.measure) for place, run in enumerate(runs)}
    tables = [_table("dev", each, runs, models, settings) for each in sets["dev"]]
    chosen = _choose(tables[0], sets["dev"][0], settings.measure)
    reported = [run for run in runs if settings.report_cells == "all" or run.cell in (BASELINE, chosen)]
    tables += [_table("report", each, reported, models, settings) for each in sets["report"]]
    head = f"`foil ablate {path}`, job `{settings.job}`, {runs[0].settings.schedule.steps:,} steps a run"
    write_tables(settings.out, tables, head, chosen)
    return tables


def _train(place: int, runs: Sequence[CellRun], dev: Sequence[EvaluationData], measure: str) -> PublishedModel:
    """The model of the run at this place, trained and scored if it is not yet. UsageError if it has no `measure`."""
    run = runs[place]
    say(f"run {place + 1} of {len(runs)}: cell {run.cell}, seed {run.seed}")
    model = train_job(run.job, run.settings, run.command)
    shutil.rmtree(run.job.out / "checkpoints", ignore_errors=True)  # three times the model; no cell goes on
    of_dev = [_scores(run, model, each) for each in dev]
    name = dev[0].measure_name(measure)
    measured = [each for part in of_dev[0].collections for each, values in values_of(part).items() if values]
    if name not in measured:
        raise UsageError(f"{dev[0].name} shows no {name}, only {', '.join(measured)}; set `measure` to one of them")
    return model


class _Apart:
    """Trains and scores runs, by their places, in a process of its own; what it leaves in OUT is found there."""

    def __init__(self, settings: AblationSettings, runs: Sequence[CellRun]) -> None:
        self._settings, self._runs = settings, runs

    def __call__(self, place: int) -> None:
        _train(place, self._runs, self._dev, self._settings.measure)

    @cached_property
    def _dev(self) -> Sequence[EvaluationData]:
        share_cpus(self._settings.at_once)
        return evaluation_sets(self._settings, self._runs[0])["dev"]


def _scores(run: CellRun, model: PublishedModel, each: EvaluationData) -> ModelScores:
    return scores_of(each, run.job.out, model.facts["files"])


def _table(
    stage: str,
    each: EvaluationData,
    runs: Sequence[CellRun],
    models: Mapping[CellRun, PublishedModel],
    settings: AblationSettings,
) -> Table:
    """The cells on one set; the rows of their runs are kept in OUT/results.jsonl."""
    scores = {run: _scores(run, models[run], each) for run in runs}
    _keep_rows(stage, each, scores, settings)
    return Table(stage, each.name, _compared(each, scores))


def _choose(table: Table, each: EvaluationData, measure: str) -> str:
    """The best cell; the table then says by which measure it was chosen."""
    table.chosen_by = each.measure_name(measure)
    return best_cell(table.compared[table.chosen_by])


def _compared(each: EvaluationData, scores: Scores) -> Compared:
    """Each measure of which all runs have values, and the cells on it."""
    parts = {run: [values_of(part) for part in model_scores.collections] for run, model_scores in scores.items()}
    compared = {}
    for measure in dict.fromkeys(measure for of_run in parts.values() for part in of_run for measure in part):
        by_cell: dict[str, list[dict[str, float]]] = {}
        for run, of_run in parts.items():
            by_cell.setdefault(run.cell, []).append(weighted([part.get(measure, {}) for part in of_run], each.average))
        if all(values for of_seeds in by_cell.values() for values in of_seeds):
            compared[measure] = compare_cells(by_cell)
    return compared


def _keep_rows(stage: str, each: EvaluationData, scores: Scores, settings: AblationSettings) -> None:
    """Adds rows as `foil evaluate` writes them: each run against the baseline of the same seed. Dev is chosen on."""
    rows: list[dict[str, Any]] = []
    for seed in range(settings.seeds):
        of_seed = {str(run.job.out / "model"): of_run for run, of_run in scores.items() if run.seed == seed}
        base, facts = next(iter(of_seed)), {name: of_model.facts for name, of_model in of_seed.items()}
        merged = _merged(of_seed)
        depth = settings.depth if isinstance(each, BenchmarkSet) else None
        compared = results(each.name, merged, base, each.average, settings.resamples)
        chosen_on = {"chosen_on": stage == "dev"}
        rows += [asdict(result) | chosen_on | about(merged, facts, result.system, base, depth) for result in compared]
    keep(settings.out / "results.jsonl", rows)


def _merged(of_seed: Mapping[str, ModelScores]) -> list[CollectionScores]:
    """The collections, with the values of several models by name."""
    return [
        replace(parts[0], values={name: values_of(part) for name, part in zip(of_seed, parts, strict=True)})
        for parts in zip(*(model_scores.collections for model_scores in of_seed.values()), strict=True)
    ]
