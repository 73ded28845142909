"""The only constructor: turns a checked job into the concrete parts that the flow runs on."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from foil.cluster.catalog import MODELS, RunContext, engines_of, factory_for, open_seeds
from foil.cluster.job import Job
from foil.cluster.seeds.stored_topics import StoredTopicsSettings, WholeOnly
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.curation.reply_archive import ReplyArchive
from foil.engine.errors import NoRunError
from foil.engine.ids import canonical_json, sha256_hex
from foil.engine.protocols import Model, Parts, Recipe, Screen, SeedReader, Validator
from foil.engine.runtime.session import RunSpec, WorkerSpec
from foil.engine.settings import Settings
from foil.engine.storage.opening import mirror_of, open_store
from foil.prompts.parse import parse_reply
from foil.prompts.recipes.catalog import RECIPES
from foil.prompts.recipes.mixed import MixedRecipe, MixedRecipeSettings
from foil.prompts.recipes.written_query import WrittenQuery
from foil.validators.catalog import screens_of, validators_of


def build_run(job: Job, reuse: Sequence[Path] = ()) -> RunSpec:
    """Builds the reader and the screens, and takes every part's fingerprint. `reuse`: where other runs lie.

    Raises NoRunError where none lies.
    """
    for out in reuse:
        _check_reused(out)
    places = [open_store(out.resolve()).url for out in reuse]
    parts, screens = build_parts(job, places), _screens(job)
    hashed: list[Recipe | Screen | Validator] = [parts.recipe, *screens, *parts.validators]
    identity = job.identity() | {"fingerprints": {part.name: part.fingerprint for part in hashed}}
    engines = engines_of(job.models.values())
    worker = WorkerSpec(partial(build_parts, job, places), job.limits, job.runtime, engines=engines)
    spec = RunSpec(open_seeds(job.seeds), screens, worker, identity, open_seeds=partial(_open_stream, job))
    build = partial(build_parts, job, places, run=spec.fingerprint)
    return replace(spec, worker=replace(worker, build_parts=build, run=_name(spec, job)))


def _check_reused(out: Path) -> None:
    try:
        CommitLog(out).run()
    except NoRunError:
        problem = "holds no run (no run.json)" if out.exists() else "is not there"
        raise NoRunError(
            f"{out} {problem}, so it has no replies to reuse; mend the path, or leave `--reuse` out"
        ) from None


def _name(spec: RunSpec, job: Job) -> str:
    """What logs, spans and metrics call this run: two of one job in two folders have two names."""
    place = sha256_hex(open_store(job.out.resolve()).url)
    return f"{spec.fingerprint[:12]}_{place[:6]}"


def _open_stream(job: Job) -> tuple[SeedReader, Sequence[Screen]]:
    return open_seeds(job.seeds), _screens(job)


def _screens(job: Job) -> tuple[Screen, ...]:
    """The screens of the job; of stored topics they see those that are still open."""
    screens = screens_of(job.validators)
    return tuple(map(WholeOnly, screens)) if isinstance(job.seeds, StoredTopicsSettings) else screens


def build_parts(job: Job, reuse: Sequence[str] = (), run: str = "") -> Parts:
    """The parts of one worker process; the same job gives the same parts on every machine.

    `run`: the fingerprint of the run that they work for; "" where nothing is committed.
    """
    return Parts(
        recipe=_recipe(job.recipe, writes_queries=bool(job.seeds.asks())),
        validators=validators_of(job.validators),
        models=build_models(job),
        parse=parse_reply,
        store=CommitLog(job.out, run=run),
        out=str(job.out),
        corrections=job.replies.corrections,
        candidates=job.replies.candidates,
        paid=_paid(job, reuse),
    )


def _paid(job: Job, reuse: Sequence[str]) -> ReplyArchive | None:
    """What other runs have paid for; of stored topics also what their judges answered."""
    runs = [mirror_of(out) for out in reuse]
    if isinstance(job.seeds, StoredTopicsSettings) and (of := job.seeds.out.resolve()) not in runs:
        runs.append(of)
    return ReplyArchive(runs) if runs else None


def _recipe(settings: Settings, *, writes_queries: bool) -> Recipe:
    """The recipe, or the one that chooses among several; where seeds come without queries, after these are written."""
    if isinstance(settings, MixedRecipeSettings):
        return MixedRecipe(settings, [_recipe(part.recipe, writes_queries=writes_queries) for part in settings.of])
    recipe: Recipe = factory_for(RECIPES, settings)(settings)
    return WrittenQuery(recipe) if writes_queries else recipe


def build_models(job: Job) -> dict[str, Model]:
    """The models by role. Roles of equal settings share one model, and so its rates and connections."""
    context = RunContext(job.out, job.runtime.most_workers)
    keys = {role: canonical_json(settings.model_dump(mode="json")) for role, settings in job.models.items()}
    models: dict[str, Model] = {}
    for role, settings in job.models.items():
        models[keys[role]] = models.get(keys[role]) or factory_for(MODELS, settings)(settings, context)
    return {role: models[key] for role, key in keys.items()}
