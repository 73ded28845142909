"""The job file: one YAML page in the order of the flow, checked before anything is started.

    seeds -> recipe -> models -> validators -> out -> limits -> runtime (-> train -> evaluate)

One error lists all mistakes, each with its line, its value and what to write instead.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from cluster.catalog import MODELS, SEEDS
from engine.errors import UsageError
from engine.flow.limits import Limits, RuntimeSettings
from engine.models.endpoints import HostedSettings
from engine.models.params import Price
from engine.settings import Settings
from prompts.recipes.catalog import RECIPES
from trainer.settings import EvaluateSettings, TrainSettings
from validators.catalog import DEFAULT_VALIDATORS, VALIDATORS

MAX_BYTES = 1_000_000
MAX_NODES = 20_000
"""Bounds on a job file, so that an alias bomb ends in an error message."""

REQUIRED = ("seeds", "recipe", "models", "out")
OPTIONAL = ("validators", "limits", "runtime", "train", "evaluate")

KeyPath = tuple[str | int, ...]
Catalog = Mapping[str, tuple[type[Settings], Callable[..., Any]]]
Section = TypeVar("Section", bound=Settings)


@dataclass(frozen=True, slots=True)
class Job:
    """A checked job file. `identity` holds what decides the rows: not out, runtime, budget and training."""

    seeds: Settings
    recipe: Settings
    models: Mapping[str, Settings]
    validators: tuple[Settings, ...]
    out: Path
    limits: Limits
    runtime: RuntimeSettings
    train: TrainSettings | None
    evaluate: EvaluateSettings | None

    def identity(self) -> dict[str, Any]:
        """What decides the rows, kept in run.json. `cluster.build` adds the parts' fingerprints and takes the hash."""
        return {
            "seeds": self.seeds.identity(),
            "recipe": self.recipe.model_dump(mode="json"),
            "models": {name: model.identity() for name, model in self.models.items()},
            "validators": [validator.model_dump(mode="json") for validator in self.validators],
            "limits": self.limits.model_dump(mode="json", exclude={"budget"}),
        }


def load_job(path: Path, overrides: Sequence[str] = (), out: Path | None = None) -> Job:
    """Reads and checks a job file. Raises UsageError that lists every mistake with its place."""
    text = _read(path)
    document, lines = _parse(path, text)
    for override in overrides:
        _apply_override(document, override)
    if out is not None:
        document["out"] = str(out)
    return _Checker(path, lines).job(document)


def settings_from(overrides: Sequence[str], settings: type[Section]) -> Section:
    """A command's own settings: the defaults under `--set`. Raises UsageError that lists every mistake."""
    document: dict[str, Any] = {}
    for override in overrides:
        _apply_override(document, override)
    try:
        return settings.model_validate(document)
    except ValidationError as error:
        mistakes = [(".".join(map(str, each["loc"])), _describe(each, settings)) for each in error.errors()]
        lines = [f"--set {key}: {words}" if key else words for key, words in mistakes]
        raise UsageError("the settings were refused:\n  " + "\n  ".join(lines)) from None


def _read(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"job file {path} cannot be read: {error.strerror}; give the path of a YAML job file"
        ) from None
    if len(raw) > MAX_BYTES:
        raise UsageError(f"job file {path} has {len(raw):,} bytes; a job is one page, at most {MAX_BYTES:,} bytes")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"job file {path} is not UTF-8 at byte {error.start}; save it as UTF-8") from None


def _parse(path: Path, text: str) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """The document, and the line of every key and item in it."""
    lines: dict[KeyPath, int] = {}
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        document = _YamlReader(path, lines).value(root, ()) if root is not None else None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        position = f"{path}:{mark.line + 1}" if mark else str(path)
        problem = getattr(error, "problem", None) or str(error)
        raise UsageError(f"{position}: not valid YAML: {problem}; mend the line") from None
    if not isinstance(document, dict):
        raise UsageError(f"{path}: a job is a mapping with the keys {', '.join(REQUIRED + OPTIONAL)}")
    return document, lines


class _YamlReader:
    """Turns YAML nodes into plain values; refuses duplicate keys and more than MAX_NODES nodes."""

    def __init__(self, path: Path, lines: dict[KeyPath, int]) -> None:
        self.path, self.lines, self.nodes = path, lines, 0
        self.loader = yaml.SafeLoader("")

    def value(self, node: yaml.Node, key_path: KeyPath) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise UsageError(f"{self.path}: over {MAX_NODES:,} values after aliases; write them out without aliases")
        self.lines.setdefault(key_path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, key_path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*key_path, i)) for i, item in enumerate(node.value)]
        return self.loader.construct_object(node)

    def _mapping(self, node: yaml.MappingNode, key_path: KeyPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key, line = str(key_node.value), key_node.start_mark.line + 1
            if key in values:
                raise UsageError(f"{self.path}:{line}: the key {key!r} stands twice; keep one")
            self.lines[(*key_path, key)] = line
            values[key] = self.value(value_node, (*key_path, key))
        return values


def _apply_override(document: dict[str, Any], text: str) -> None:
    """Applies one `a.b=c`; the value is read as YAML."""
    dotted, equals, raw = text.partition("=")
    *parents, last = dotted.split(".")
    shown = "models..." if text.startswith("models") else text
    if not equals or not last or not all(parents):
        raise UsageError(f"--set {shown!r} is not of the form a.b=value")
    target: Any = document
    for step in parents:
        target = target.setdefault(step, {}) if isinstance(target, dict) else None
        if not isinstance(target, dict):
            raise UsageError(f"--set {shown!r}: {step!r} is not a mapping in the job file")
    try:
        target[last] = yaml.safe_load(raw)
    except yaml.YAMLError:
        raise UsageError(f"--set {shown!r}: the value is not valid YAML; quote it") from None


class _Checker:
    """Checks a document section by section and collects every mistake before it refuses."""

    def __init__(self, path: Path, lines: Mapping[KeyPath, int]) -> None:
        self.path, self.lines = path, lines
        self.mistakes: list[str] = []

    def job(self, document: dict[str, Any]) -> Job:
        self._check_keys(document)
        seeds = self._read_choice(("seeds",), document.get("seeds"), SEEDS)
        recipe = self._read_choice(("recipe",), document.get("recipe"), RECIPES)
        models = self._read_models(document.get("models"))
        validators = self._read_validators(document.get("validators"))
        limits = self._read_section(("limits",), document.get("limits", {}), Limits)
        runtime = self._read_section(("runtime",), document.get("runtime", {}), RuntimeSettings)
        train = self._read_optional("train", document, TrainSettings)
        evaluate = self._read_optional("evaluate", document, EvaluateSettings)
        out = self._read_out(document.get("out"))
        self._check_sections(models, limits, runtime)
        self._check_roles(
            models, {("recipe",): recipe, **{("validators", i): part for i, part in enumerate(validators)}}
        )
        if self.mistakes or not (seeds and recipe and limits and runtime and out):
            raise UsageError("the job was refused:\n  " + "\n  ".join(self.mistakes))
        return Job(seeds, recipe, models, validators, out, limits, runtime, train, evaluate)

    def _check_keys(self, document: Mapping[str, Any]) -> None:
        for key in document:
            if key not in REQUIRED + OPTIONAL:
                self._add_mistake((key,), f"unknown key {key!r}; a job has {', '.join(REQUIRED + OPTIONAL)}")
        for key in REQUIRED:
            if key not in document:
                self._add_mistake((), f"the key {key!r} is missing; add it")

    def _read_models(self, value: Any) -> dict[str, Settings]:
        if value is None:
            return {}
        if not isinstance(value, dict) or "writer" not in value:
            self._add_mistake(("models",), "expected a mapping with at least `writer: {kind: rule_writer}`")
            return {}
        models = {role: self._read_choice(("models", role), section, MODELS) for role, section in value.items()}
        return {role: settings for role, settings in models.items() if settings is not None}

    def _read_validators(self, value: Any) -> tuple[Settings, ...]:
        if value is None:
            value = [{"kind": kind} for kind in DEFAULT_VALIDATORS]
        if not isinstance(value, list):
            self._add_mistake(("validators",), f"expected a list such as `- kind: shape`, found {value!r}")
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
            if getattr(model, "mode", "") == "batch" and runtime and runtime.workers > 1:
                self._add_mistake(
                    ("runtime", "workers"), f"models.{name} has mode: batch, which one process must gather; set it to 0"
                )

    def _check_roles(self, models: Mapping[str, Settings], parts: Mapping[KeyPath, Settings | None]) -> None:
        """Refuses a recipe or validator that asks a role without a model."""
        for key_path, part in parts.items():
            for role in part.asks() if part and models else ():
                if role not in models:
                    self._add_mistake(key_path, f"asks a model of the role {role!r}; name one under `models`")

    def _read_out(self, value: Any) -> Path | None:
        if not isinstance(value, str) or not value:
            if value is not None:
                self._add_mistake(("out",), f"expected a folder's path, found {value!r}")
            return None
        out = Path(value).expanduser()
        parent = next((folder for folder in (out, *out.parents) if folder.exists()), Path())
        if not parent.is_dir():
            self._add_mistake(("out",), f"{parent} is not a folder; give another path or remove it")
        return out

    def _read_choice(self, key_path: KeyPath, value: Any, catalog: Catalog) -> Settings | None:
        """The settings of the kind that the section names."""
        kind = value.get("kind") if isinstance(value, dict) else None
        if not isinstance(kind, str) or kind not in catalog:
            if value is not None:
                shown = "this kind" if _hidden(key_path) else f"kind {kind!r}"
                self._add_mistake(key_path, f"{shown} is not known; use one of {', '.join(sorted(catalog))}")
            return None
        return self._read_section(key_path, value, catalog[kind][0])

    def _read_optional(self, key: str, document: Mapping[str, Any], settings: type[Section]) -> Section | None:
        return self._read_section((key,), document[key], settings) if key in document else None

    def _read_section(self, key_path: KeyPath, value: Any, settings: type[Section]) -> Section | None:
        if not isinstance(value, dict):
            found = "" if _hidden(key_path) else f", found {value!r}"
            self._add_mistake(key_path, f"expected a mapping{found}")
            return None
        try:
            return settings.model_validate(value)
        except ValidationError as error:
            for mistake in error.errors():
                words = _describe(mistake, settings, shown=not _hidden(key_path))
                self._add_mistake((*key_path, *mistake["loc"]), words)
            return None

    def _add_mistake(self, key_path: KeyPath, text: str) -> None:
        dotted = ".".join(str(step) for step in key_path)
        line = next((self.lines[key_path[:n]] for n in range(len(key_path), -1, -1) if key_path[:n] in self.lines), 1)
        self.mistakes.append(f"{self.path}:{line}: {dotted + ': ' if dotted else ''}{text}")


def _hidden(key_path: KeyPath) -> bool:
    """Whether values are never shown here: below `models`, any of them may be a key in the wrong place."""
    return key_path[:1] == ("models",)


def _describe(error: Any, settings: type[Settings], *, shown: bool = True) -> str:
    if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
        return f"unknown key; {settings.__name__} has {', '.join(settings.model_fields)}"
    if error["type"] == "missing":
        return "is missing; add it"
    if error["type"] == "secret_in_job":
        return str(error["msg"])
    return f"{error['msg']}; found {error['input']!r}" if shown else str(error["msg"])
