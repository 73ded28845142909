"""`foil calibrate`: how good a job's judges are by people's labels, and at which thresholds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JobArgument, JsonOption, SetOption
from foil.cluster.terminal import print_json, show

_FIGURES = (
    "labels", "model", "units", "relevant", "unreadable", "auc", "low", "high", "chance", "within", "accuracy", "kappa",
    "first", "expected_first", "neutral", "keep", "drop", "decided", "tokens", "usd",
)  # fmt: skip


def calibrate(
    job: JobArgument,
    on: Annotated[
        list[str],
        typer.Option(
            metavar="LABELS",
            help="People's labels: a .jsonl, .tsv or .csv file with query, passage, relevant, or a benchmark "
            "KIND:PATH[#PART]. Repeatable.",
        ),
    ],
    overrides: SetOption = None,
    replies: Annotated[Path | None, typer.Option(help="What keeps replies. Default: evaluation/replies.")] = None,
    as_json: JsonOption = False,
) -> None:
    """How good a job's judges are by people's labels: AUC, kappa, bias of place, thresholds, tokens, price.

    `--set error=0.1` asks for the thresholds of that error. Exit code 5 if a judge is no better than a coin.
    """
    from foil.cluster.evaluations.judges import CalibrateSettings, measure_judges, rows_of
    from foil.cluster.job import load_job, settings_from
    from foil.validators.judges.calibration import refuse_coin

    settings = settings_from(overrides or [], CalibrateSettings)
    calibrations = measure_judges(load_job(job), on, settings, replies or Path("evaluation") / "replies" / "judges")
    rows = rows_of(calibrations)
    if as_json:
        print_json(rows)
    else:
        lines = [[figure, *(row[figure] for row in rows)] for figure in _FIGURES]
        show(["", *(row["judge"] for row in rows)], lines, f"thresholds for an error of {settings.error}")
    for _, each in calibrations:
        refuse_coin(each)
