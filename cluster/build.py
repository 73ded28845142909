"""The only constructor: turns a checked job into the concrete parts that the flow runs on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from cluster.catalog import MODELS, RunContext, open_seeds
from cluster.job import Job
from datasets_out.commits.log import CommitLog
from engine.flow.journal import ReplyArchive
from engine.ids import canonical_json
from engine.protocols import Model, Parts, Recipe, Screen, Validator
from engine.runtime.session import RunSpec, WorkerSpec
from engine.settings import Settings
from prompts.parse import parse_reply
from prompts.recipes.catalog import RECIPES
from validators.catalog import screens_of, validators_of


def build_run(job: Job, reuse: Sequence[Path] = ()) -> RunSpec:
    """Builds the reader and the screens, and asks every part for its fingerprint. `reuse`: `out` folders of runs."""
    parts, screens = build_parts(job, reuse), screens_of(job.validators)
    named: list[Recipe | Screen | Validator] = [parts.recipe, *screens, *parts.validators]
    identity = job.identity() | {"fingerprints": {part.name: part.fingerprint for part in named}}
    worker = WorkerSpec(partial(build_parts, job, reuse), job.limits, job.runtime)
    return RunSpec(open_seeds(job.seeds), screens, worker, identity)


def build_parts(job: Job, reuse: Sequence[Path] = ()) -> Parts:
    """The parts of one worker process; the same job gives the same parts on every machine."""
    return Parts(
        recipe=_made(RECIPES, job.recipe),
        validators=validators_of(job.validators),
        models=_models(job),
        parse=parse_reply,
        store=CommitLog(job.out),
        out=str(job.out),
        paid=ReplyArchive([out / "journal" for out in reuse]) if reuse else None,
    )


def _models(job: Job) -> dict[str, Model]:
    """The models by role; roles of equal settings share one, and with it its rates and its connections."""
    around = RunContext(job.out, job.runtime.workers)
    made: dict[str, Model] = {}
    for settings in job.models.values():
        key = canonical_json(settings.model_dump(mode="json"))
        made[key] = made.get(key) or MODELS[_kind(settings)][1](settings, around)
    return {role: made[canonical_json(settings.model_dump(mode="json"))] for role, settings in job.models.items()}


def _made(catalog: Mapping[str, tuple[type[Settings], Callable[[Any], Any]]], settings: Settings) -> Any:
    return catalog[_kind(settings)][1](settings)


def _kind(settings: Settings) -> str:
    return str(getattr(settings, "kind"))  # noqa: B009 - every catalogued settings class has one
