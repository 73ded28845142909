"""A job as a YAML page again: what its page set, with every `--set` in it, and no default.

    Job -> OUT/job.json, put as a run starts -> YAML (`foil job OUT`)

Promise: the page gives the same settings, so the same run. Keys of providers are in no settings, so in no page. A run
without job.json has what run.json knows of its job: all but where its models are, what they cost, and how it ran.
"""

from collections.abc import Mapping
from typing import Any

import yaml

from foil.cluster.job import OPTIONAL, Job
from foil.cluster.seeds.mixed import MixedSettings
from foil.datasets_out.commits.log import CommitLog
from foil.engine.errors import UsageError
from foil.engine.settings import Settings
from foil.prompts.recipes.mixed import MixedRecipeSettings

_NAME = "job.json"


def job_document(job: Job) -> dict[str, Any]:
    """The page as plain JSON, without `out`: a run that was moved is the same run."""
    sections = {
        "seeds": _seeds(job.seeds),
        "recipe": _recipe(job.recipe),
        "models": {role: _plain(model) for role, model in job.models.items()},
        "validators": [_plain(validator) for validator in job.validators],
        **{name: _plain(getattr(job, name)) for name in ("replies", "limits", "runtime")},
        **{name: _plain(part) for name in ("train", "evaluate") if (part := getattr(job, name))},
    }
    return {name: section for name, section in sections.items() if section or name == "validators"}


def put_job(log: CommitLog, job: Job) -> None:
    """Keeps the page in the folder of the run, in place of an earlier one."""
    document = {"job": job_document(job)}
    if (standing := log.files.read_sealed(_NAME)) != document:
        if standing is not None:
            log.files.delete([_NAME])
        log.files.put_sealed(_NAME, document)


def read_job(log: CommitLog) -> tuple[dict[str, Any], bool]:
    """The page of a run's job, and whether it is whole. Raises UsageError for a run that another command made."""
    identity: Mapping[str, Any] = log.run()["job"]
    if "recipe" not in identity:
        raise UsageError(
            f"{log.out} was made of other runs by `foil {next(iter(identity), 'merge')}` and has no job of its own; "
            "sources.json names those runs: ask them"
        )
    if body := log.files.read_sealed(_NAME):
        return body["job"], True
    seeds, recipe = identity["seeds"], identity["recipe"]
    parts = [{**part["recipe"], "share": part["share"], "corpora": part["corpora"]} for part in recipe.get("of", ())]
    page = {**identity, "seeds": seeds.get("of", seeds), "recipe": parts or recipe}
    return {name: section for name, section in page.items() if name != "fingerprints"}, not identity["models"]


def job_yaml(document: Mapping[str, Any], out: str) -> str:
    """The page as text, its sections in the order of a job."""
    page = {name: document[name] for name in ("seeds", "recipe", *OPTIONAL) if name in document}
    return yaml.safe_dump({**page, "out": out}, sort_keys=False, allow_unicode=True, width=120)


def _seeds(seeds: Settings) -> Any:
    return [_plain(part) for part in seeds.of] if isinstance(seeds, MixedSettings) else _plain(seeds)


def _recipe(recipe: Settings) -> Any:
    if not isinstance(recipe, MixedRecipeSettings):
        return _plain(recipe)
    return [{**_plain(part.recipe), **part.model_dump(mode="json", exclude_unset=True, exclude={"recipe"})}
            for part in recipe.of]  # fmt: skip


def _plain(settings: Settings) -> dict[str, Any]:
    """What was set; and the kind, which settings made by a command take from their default."""
    kind = getattr(settings, "kind", None)
    return ({"kind": kind} if kind else {}) | settings.model_dump(mode="json", exclude_unset=True)
