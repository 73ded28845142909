"""What an ablation varies: factors with named levels, and the cells that they make. Nothing heavy is imported.

    factors -> cells_of -> Cell: overrides of the job's `train` section -> one training run a seed

The first level of every factor is the baseline. Baselines of all factors together are the first cell.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from foil.engine.errors import UsageError
from foil.engine.settings import Settings
from foil.trainer.settings import EncodeSettings

TOPICS = "topics"
"""The name of the data's own topics: those of the dev split under `dev`, the held-out ones under `report`."""
BASELINE = "baseline"
MAX_CELLS = 1_000
_FIXED = ("train.schedule.seed", "train.split", "train.protect", "train.checkpoint_steps")

Name = Annotated[str, StringConstraints(pattern=r"^[\w.+-]([\w.+ -]*[\w.+-])?$", max_length=60)]
Overrides = dict[str, Any]


class AblationSettings(Settings):
    """Which cells are trained, and on what they are compared."""

    job: Path = Field(description="the job whose training is varied, as `foil train` takes it")
    out: Path = Field(description="folder of the cells, their scores and the tables")
    factors: dict[Name, dict[Name, Overrides]] = Field(
        min_length=1,
        description="factor -> level -> {dotted key below `train`: value}; its first level is the baseline",
    )
    one_at_a_time: bool = Field(
        False, description="the baseline, and each other level alone against it; else the full grid"
    )
    seeds: int = Field(3, ge=1, le=100, description="training runs of a cell, with seeds 0 to n - 1")
    steps: int | None = Field(None, ge=1, le=10**9, description="of every run, in place of the job's steps or epochs")
    at_once: int = Field(
        1,
        ge=1,
        le=256,
        description="runs trained and scored side by side, each in a process with a share of the CPUs; all on one GPU",
    )
    dev: tuple[str, ...] = Field(
        (TOPICS,),
        min_length=1,
        description="what cells are chosen on: `topics` (the data's dev split), benchmarks as `foil evaluate --on`",
    )
    report: tuple[str, ...] = Field(
        (TOPICS,), description="what the chosen cell is reported on: `topics` (held out), benchmarks"
    )
    measure: str = Field(
        "",
        description="the cell with most of it on the first of `dev` is chosen; none = both_views of topics, "
        "the first measure of a benchmark",
    )
    report_cells: Literal["chosen", "all"] = Field(
        "chosen", description="reported with the baseline; all = also those that were not chosen"
    )
    depth: int = Field(1000, ge=1, le=10**6, description="documents of a benchmark ranked for a query")
    encode: EncodeSettings = Field(
        EncodeSettings(max_tokens=512, precision="float32"), description="of texts of benchmarks"
    )
    resamples: int = Field(2000, ge=100, le=10**6, description="of the paired bootstrap in OUT/results.jsonl")


@dataclass(frozen=True, slots=True)
class Cell:
    """One choice of levels. `name` says what differs from the baseline; `overrides` are those of `foil train --set`."""

    name: str
    levels: Mapping[str, str]
    overrides: tuple[str, ...]


def cells_of(settings: AblationSettings) -> list[Cell]:
    """All cells, the baseline first. Raises UsageError where a factor has no levels, or sets what must stay equal."""
    _check(settings)
    first = {factor: next(iter(levels)) for factor, levels in settings.factors.items()}
    chosen = _single_changes(settings, first) if settings.one_at_a_time else _grid(settings)
    return [_cell(settings, levels, first) for levels in chosen]


def _grid(settings: AblationSettings) -> list[dict[str, str]]:
    size = math.prod(map(len, settings.factors.values()))
    if size > MAX_CELLS:
        raise UsageError(
            f"the grid has {size:,} cells, of at most {MAX_CELLS:,}; leave levels out or set one_at_a_time"
        )
    return [dict(zip(settings.factors, levels, strict=True)) for levels in product(*settings.factors.values())]


def _single_changes(settings: AblationSettings, first: Mapping[str, str]) -> list[dict[str, str]]:
    changes = [{**first, factor: level} for factor, levels in settings.factors.items() for level in list(levels)[1:]]
    return [dict(first), *changes]


def _cell(settings: AblationSettings, levels: dict[str, str], first: Mapping[str, str]) -> Cell:
    changed = [f"{factor}={level}" for factor, level in levels.items() if level != first[factor]]
    pairs = [pair for factor, level in levels.items() for pair in settings.factors[factor][level].items()]
    overrides = tuple(f"{key}={json.dumps(value)}" for key, value in pairs)
    return Cell(", ".join(changed) or BASELINE, levels, overrides)


def _check(settings: AblationSettings) -> None:
    for factor, levels in settings.factors.items():
        if len(levels) < 2:
            raise UsageError(
                f"the factor {factor!r} has {len(levels)} levels, so there is nothing to compare; give its baseline "
                "(`{}` for the job as it is) and at least one more"
            )
        for key in _keys(levels):
            _check_key(factor, key)
    for (first, first_levels), (second, second_levels) in combinations(settings.factors.items(), 2):
        shared = [key for key in _keys(first_levels) for each in _keys(second_levels) if _overlap(key, each)]
        if shared:
            raise UsageError(f"the factors {first!r} and {second!r} both set {shared[0]}; make one factor of them")


def _keys(levels: Mapping[str, Overrides]) -> Iterator[str]:
    yield from dict.fromkeys(key for overrides in levels.values() for key in overrides)


def _check_key(factor: str, key: str) -> None:
    if not key.startswith("train."):
        raise UsageError(f"the factor {factor!r} sets {key!r}; a factor sets keys below `train`, as train.loss.blocks")
    if any(_overlap(key, fixed) for fixed in _FIXED):
        raise UsageError(f"the factor {factor!r} sets {key!r}, which is the same in all cells; leave it out")


def _overlap(first: str, second: str) -> bool:
    """Whether two dotted keys are the same, or one lies below the other.

    >>> [_overlap("a.b", key) for key in ("a.b", "a", "a.b.c", "a.bc")]
    [True, True, True, False]
    """
    return f"{first}.".startswith(f"{second}.") or f"{second}.".startswith(f"{first}.")


def check_equal_steps(steps: Sequence[tuple[str, int | None]]) -> None:
    """Raises UsageError unless all cells, by name, train for the same number of steps; None stands for epochs."""
    (first, first_steps), *_ = steps
    for name, count in steps:
        if count is None or count != first_steps:
            length = "epochs, whose steps depend on the data" if count is None else f"{count:,} steps"
            raise UsageError(
                f"the cell {name} trains for {length}, and {first} for {first_steps or 'epochs'}; set `steps`, so that "
                "all cells train for the same number"
            )
