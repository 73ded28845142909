"""The job file: one YAML page in the order of the flow, checked before anything is started.

    seeds -> recipe -> models -> validators -> replies -> out -> limits -> runtime (-> train -> evaluate)

One error lists all mistakes, each with its line, its value and what to write instead.
"""

import errno
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from logging import getLogger
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from foil.cluster.catalog import MODELS, SEEDS
from foil.cluster.mistakes import describe, found, refusal
from foil.cluster.seeds.mixed import MixedSettings
from foil.cluster.yaml_page import MAX_DEPTH, KeyPath, cut, is_hidden, read_yaml, shown
from foil.engine.errors import UsageError
from foil.engine.flow.limits import Limits, ReplySettings, RuntimeSettings
from foil.engine.models.endpoints import HostedSettings
from foil.engine.models.params import Price
from foil.engine.protocols import for_role
from foil.engine.seeds.files.text_files import read_text
from foil.engine.settings import Settings
from foil.engine.storage.opening import mirror_of, open_store
from foil.prompts.recipes.catalog import RECIPES, roles_asked
from foil.prompts.recipes.mixed import MixedRecipeSettings, RecipePart
from foil.trainer.settings import EvaluateSettings, TrainSettings
from foil.validators.catalog import DEFAULT_VALIDATORS, VALIDATORS

MAX_BYTES = 1_000_000
"""Bytes of a job file."""

REQUIRED = ("seeds", "recipe", "out")
LOG = getLogger(__name__)
OPTIONAL = ("models", "validators", "replies", "limits", "runtime", "train", "evaluate")

_NO_RULE_WRITER = (
    "there is no rule writer any more. verifiable asks no model: leave `models` out; the recipes of papers, custom and "
    "judges need a hosted or local model (kind: hosted or local_vllm)"
)

Catalog = Mapping[str, tuple[type[Settings], Callable[..., Any]]]
Section = TypeVar("Section", bound=Settings)


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """What a training needs of a checked job file: `out` and `train` are enough, for topics of runs that exist."""

    place: str
    train: TrainSettings | None
    evaluate: EvaluateSettings | None

    @property
    def out(self) -> Path:
        """The folder of the run on this machine; where `place` is a bucket's URL, the mirror of it."""
        return mirror_of(self.place)


@dataclass(frozen=True, slots=True)
class Job(TrainingJob):
    """A checked job file. `identity` holds what decides the rows: not out, runtime, budget, breakers and training."""

    seeds: Settings
    recipe: Settings
    models: Mapping[str, Settings]
    validators: tuple[Settings, ...]
    replies: ReplySettings
    limits: Limits
    runtime: RuntimeSettings

    def identity(self) -> dict[str, Any]:
        """What decides the rows, kept in run.json. `cluster.build` adds the parts' fingerprints and takes the hash."""
        return {
            "seeds": self.seeds.identity(),
            "recipe": self.recipe.model_dump(mode="json"),
            "models": {name: model.identity() for name, model in self.models.items()},
            "validators": [validator.model_dump(mode="json") for validator in self.validators],
            "replies": self.replies.model_dump(mode="json"),
            "limits": self.limits.model_dump(mode="json", exclude={"budget", "breakers"}),
        }


def load_job(path: Path, overrides: Sequence[str] = (), out: str | Path | None = None) -> Job:
    """Reads and checks a job file. Raises UsageError that lists every mistake with its place."""
    document, lines = _document(path, overrides, out)
    return _Checker(path, lines).job(document)


def load_training_job(path: Path, overrides: Sequence[str] = (), out: str | Path | None = None) -> TrainingJob:
    """`load_job` for commands that train or measure: a file without seeds and recipe has `out` and `train` alone."""
    document, lines = _document(path, overrides, out)
    checker = _Checker(path, lines)
    alone = "train" in document and not {"seeds", "recipe"} & document.keys()
    return checker.training_job(document) if alone else checker.job(document)


def job_of(document: dict[str, Any], overrides: Sequence[str] = (), out: str | Path | None = None) -> Job:
    """Checks a job that is in memory."""
    _apply(document, overrides, out)
    return _Checker(Path("job"), {}).job(document)


def _document(
    path: Path, overrides: Sequence[str], out: str | Path | None
) -> tuple[dict[str, Any], Mapping[KeyPath, int]]:
    """A job file under `--set` and `--out`, and the line of every key and item in it."""
    document, lines = read_yaml(_read(path), str(path))
    if not isinstance(document, dict):
        raise UsageError(f"{path}: a job is a mapping with the keys {', '.join(REQUIRED + OPTIONAL)}")
    _apply(document, overrides, out)
    return document, lines


def _apply(document: dict[str, Any], overrides: Sequence[str], out: str | Path | None) -> None:
    for override in overrides:
        _apply_override(document, override)
    if out is not None:
        document["out"] = str(out)


def read_seeds(path: Path) -> Settings:
    """The `seeds` of a job file, or of a page that holds that section alone. UsageError lists every mistake."""
    document, lines = read_yaml(_read(path), str(path))
    checker = _Checker(path, lines)
    whole = isinstance(document, dict) and "seeds" in document
    seeds = checker.seeds(document["seeds"] if whole else document)
    if checker.mistakes or seeds is None:
        raise refusal("the seeds were refused", checker.mistakes)
    return seeds


def settings_from(overrides: Sequence[str], settings: type[Section]) -> Section:
    """A command's own settings: the defaults under `--set`. Raises UsageError that lists every mistake."""
    document: dict[str, Any] = {}
    for override in overrides:
        _apply_override(document, override)
    try:
        return settings.model_validate(document)
    except ValidationError as error:
        mistakes = [
            (".".join(map(str, each["loc"])), describe(each, settings, found((), each["input"], "; ")))
            for each in error.errors()
        ]
        lines = [f"--set {key}: {words}" if key else words for key, words in mistakes]
        raise refusal("the settings were refused", lines) from None


def settings_beside_job(
    overrides: Sequence[str], settings: type[Section], job: TrainingJob | None, *keys: str
) -> Section:
    """A command's own settings; these keys, where nobody sets them, are as in the `train` section of the job."""
    own = settings_from(overrides, settings)
    if job is None or job.train is None:
        return own
    return own.model_copy(update={key: getattr(job.train, key) for key in keys if key not in own.model_fields_set})


def read_settings(path: Path, settings: type[Section], kind: str, overrides: Sequence[str] = ()) -> Section:
    """The settings of a YAML page under `--set`; `kind`: what it is, "a benchmark". UsageError lists every mistake."""
    text = read_text(path, f"a YAML file that names {kind}")
    page, _ = read_yaml(text, str(path))
    if not isinstance(page, dict):
        raise UsageError(f"{path}: {kind} is a mapping with {', '.join(settings.model_fields)}")
    try:
        return settings_from([*(f"{key}={json.dumps(value)}" for key, value in page.items()), *overrides], settings)
    except UsageError as error:
        raise UsageError(f"{path}: {str(error).replace('--set ', '')}") from None


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            why = "it is no file" if path.exists() else os.strerror(errno.ENOENT)
            raise UsageError(f"job file {path} cannot be read: {why}; give the path of a YAML job file")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"job file {cut(str(path), 300)} cannot be read: {why}; give the path of a YAML job file"
        ) from None
    if len(raw) > MAX_BYTES:
        raise UsageError(f"job file {path} has over {MAX_BYTES:,} bytes; a job is one page, write a shorter one")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"job file {path} is not UTF-8 at byte {error.start}; save it as UTF-8") from None


def _apply_override(document: dict[str, Any], text: str) -> None:
    """Applies one `a.b=c`; the value is read as YAML, like a value of a job file."""
    dotted, equals, raw = text.partition("=")
    *parents, last = dotted.split(".")
    quoted = shown("models..." if text.startswith("models") else text)
    if not equals or not last or not all(parents) or len(parents) > MAX_DEPTH:
        raise UsageError(f"--set {quoted} is not of the form a.b=value")
    target: Any = document
    for step in parents:
        target = target.setdefault(step, {}) if isinstance(target, dict) else None
        if not isinstance(target, dict):
            raise UsageError(f"--set {quoted}: {shown(step)} is not a mapping in the job file")
    target[last], _ = read_yaml(raw, f"--set {cut(dotted)}", (*parents, last))


class _Checker:
    """Checks a document section by section and collects every mistake before it refuses."""

    def __init__(self, path: Path, lines: Mapping[KeyPath, int]) -> None:
        self.path, self.lines = path, lines
        self.mistakes: list[str] = []

    def job(self, document: dict[str, Any]) -> Job:
        self._check_keys(document)
        seeds = self.seeds(document.get("seeds"))
        recipe = self._read_recipe(document.get("recipe"))
        earlier_mistakes = len(self.mistakes)
        models = self._read_models(document.get("models"))
        models_stand = len(self.mistakes) == earlier_mistakes
        validators = self._read_validators(document.get("validators"))
        replies = self._read_section(("replies",), document.get("replies", {}), ReplySettings)
        limits = self._read_section(("limits",), document.get("limits", {}), Limits)
        runtime = self._read_section(("runtime",), document.get("runtime", {}), RuntimeSettings)
        train = self._read_optional("train", document, TrainSettings)
        evaluate = self._read_optional("evaluate", document, EvaluateSettings)
        out = self._read_out(document.get("out"))
        self._check_sections(models, limits, runtime)
        if models_stand:
            roles: dict[KeyPath, Sequence[str]] = {
                ("recipe",): roles_asked(recipe) if recipe else (),
                ("seeds",): seeds.asks() if seeds else (),
            }
            self._check_roles(models, roles | {("validators", i): part.asks() for i, part in enumerate(validators)})
        if self.mistakes or not (seeds and recipe and replies and limits and runtime and out):
            raise refusal("the job was refused", self.mistakes)
        return Job(out, train, evaluate, seeds, recipe, models, validators, replies, limits, runtime)

    def training_job(self, document: dict[str, Any]) -> TrainingJob:
        self._check_keys(document, required=("out",), optional=("train", "evaluate"))
        train = self._read_optional("train", document, TrainSettings)
        evaluate = self._read_optional("evaluate", document, EvaluateSettings)
        out = self._read_out(document.get("out"))
        if self.mistakes or not out:
            raise refusal("the job was refused", self.mistakes)
        return TrainingJob(out, train, evaluate)

    def _check_keys(
        self, document: Mapping[str, Any], required: Sequence[str] = REQUIRED, optional: Sequence[str] = OPTIONAL
    ) -> None:
        for key in document:
            if key not in (*required, *optional):
                self._add_mistake((key,), f"unknown key {shown(key)}; a job has {', '.join((*required, *optional))}")
        for key in required:
            if key not in document:
                self._add_mistake((), f"the key {key!r} is missing; add it")
            elif document[key] is None:
                self._add_mistake((key,), "is empty; fill it")

    def seeds(self, value: Any) -> Settings | None:
        """One corpus, or a list of them."""
        if not isinstance(value, list):
            return self._read_choice(("seeds",), value, SEEDS)
        if not value:
            self._add_mistake(("seeds",), "is an empty list; name at least one corpus")
        parts = [self._read_choice(("seeds", i), item, SEEDS) for i, item in enumerate(value)]
        return MixedSettings(of=tuple(part for part in parts if part))

    def _read_recipe(self, value: Any) -> Settings | None:
        """One recipe, or a list of them with their shares and corpora."""
        if not isinstance(value, list):
            return self._read_choice(("recipe",), value, RECIPES)
        if not value:
            self._add_mistake(("recipe",), "is an empty list; name at least one recipe")
        parts = [self._read_recipe_part(("recipe", i), item) for i, item in enumerate(value)]
        return MixedRecipeSettings(of=tuple(part for part in parts if part))

    def _read_recipe_part(self, key_path: KeyPath, value: Any) -> RecipePart | None:
        """A recipe's own keys, and with them what `RecipePart` has."""
        part_keys = {"share", "corpora"} & set(value) if isinstance(value, dict) else set()
        own = {key: each for key, each in value.items() if key not in part_keys} if part_keys else value
        recipe = self._read_choice(key_path, own, RECIPES)
        if recipe is None:
            return None
        return self._read_section(key_path, {"recipe": recipe, **{key: value[key] for key in part_keys}}, RecipePart)

    def _read_models(self, value: Any) -> dict[str, Settings]:
        if value is None:
            return {}
        if not isinstance(value, dict) or "writer" not in value:
            self._add_mistake(("models",), "expected a mapping with at least a `writer`, such as {kind: hosted, ...}")
            return {}
        for role, section in value.items():
            if isinstance(section, dict) and section.get("kind") == "rule_writer":
                self._add_mistake(("models", role), _NO_RULE_WRITER)
                return {}
        models = {role: self._read_choice(("models", role), section, MODELS) for role, section in value.items()}
        return {role: settings for role, settings in models.items() if settings is not None}

    def _read_validators(self, value: Any) -> tuple[Settings, ...]:
        if value is None:
            value = [{"kind": kind} for kind in DEFAULT_VALIDATORS]
        if not isinstance(value, list):
            self._add_mistake(("validators",), f"expected a list such as `- kind: shape`, found {shown(value)}")
            return ()
        validators = (self._read_choice(("validators", i), item, VALIDATORS) for i, item in enumerate(value))
        return tuple(settings for settings in validators if settings is not None)

    def _check_sections(
        self, models: Mapping[str, Settings], limits: Limits | None, runtime: RuntimeSettings | None
    ) -> None:
        """Refuses settings of two sections that contradict each other."""
        for name, model in models.items():
            if limits and limits.budget.usd and isinstance(model, HostedSettings) and model.price == Price():
                self._add_mistake(("models", name), "limits.budget.usd needs the `price` of this model; give it")
        for name, model in models.items():
            if getattr(model, "mode", "") == "batch" and runtime and runtime.most_workers > 1:
                self._add_mistake(
                    ("runtime", "workers"), f"models.{name} has mode: batch, which one process must gather; set it to 0"
                )
        for name, model in models.items():
            if getattr(model, "engines", 0) and runtime and runtime.kind != "ray":
                self._add_mistake(
                    ("models", name), "`engines` are actors of Ray; set runtime.kind: ray, or engines: 0 (one a worker)"
                )

    def _check_roles(self, models: Mapping[str, Settings], roles_by_key: Mapping[KeyPath, Sequence[str]]) -> None:
        """Refuses a recipe or validator that asks a role without a model; warns of a model that nothing asks."""
        used = {role if role in models else "writer" for roles in roles_by_key.values() for role in roles}
        for unused in sorted(models.keys() - used) if not self.mistakes else ():
            LOG.warning("models.%s has no effect: no recipe and no validator of this job asks it", unused)
        for key_path, roles in roles_by_key.items():
            for role in roles:
                if for_role(models, role) is None:
                    self._add_mistake(key_path, f"asks a model of the role {role!r}; name one under `models`")

    def _read_out(self, value: Any) -> str | None:
        """Where the run lies: a folder, or the URL of a bucket, which the folder may be a mirror of."""
        if not isinstance(value, str) or not value:
            if value is not None:
                self._add_mistake(("out",), f"expected a folder's path, found {shown(value)}")
            return None
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", value):
            try:
                mirror_of(value)
            except UsageError as error:
                self._add_mistake(("out",), str(error))
                return None
            return value
        try:
            out = Path(value).expanduser()
            parent = next((folder for folder in (out, *out.parents) if folder.exists()), Path())
        except (OSError, RuntimeError) as error:  # too long a name, no such user
            why = getattr(error, "strerror", None) or str(error)
            self._add_mistake(("out",), f"expected a folder's path, found {shown(value)}: {why}")
            return None
        if not parent.is_dir():
            self._add_mistake(("out",), f"{parent} is not a folder; give another path or remove it")
        return open_store(out).url

    def _read_choice(self, key_path: KeyPath, value: Any, catalog: Catalog) -> Settings | None:
        """The settings of the kind that the section names."""
        kind = value.get("kind") if isinstance(value, dict) else None
        if not isinstance(kind, str) or kind not in catalog:
            if value is not None or key_path[1:]:  # an empty section of the page is reported once
                kinds = ", ".join(sorted(catalog))
                label = "this kind" if is_hidden(key_path) and kind else f"kind {shown(kind)}"
                self._add_mistake(key_path, f"{label} is not known; use one of {kinds}")
            return None
        return self._read_section(key_path, value, catalog[kind][0])

    def _read_optional(self, key: str, document: Mapping[str, Any], settings: type[Section]) -> Section | None:
        return self._read_section((key,), document[key], settings) if key in document else None

    def _read_section(self, key_path: KeyPath, value: Any, settings: type[Section]) -> Section | None:
        if not isinstance(value, dict):
            self._add_mistake(key_path, f"expected a mapping{found(key_path, value)}")
            return None
        try:
            return settings.model_validate(value)
        except ValidationError as error:
            for mistake in error.errors():
                words = describe(mistake, settings, found(key_path, mistake["input"], "; "))
                self._add_mistake((*key_path, *mistake["loc"]), words)
            return None

    def _add_mistake(self, key_path: KeyPath, text: str) -> None:
        dotted = ".".join(cut(str(step)) for step in key_path)
        line = next((self.lines[key_path[:n]] for n in range(len(key_path), -1, -1) if key_path[:n] in self.lines), 1)
        self.mistakes.append(f"{self.path}:{line}: {dotted + ': ' if dotted else ''}{text}")
