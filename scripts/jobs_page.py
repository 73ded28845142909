"""Writes docs/jobs.md and docs/jobs/*.md from the settings classes themselves, so that the pages cannot be wrong.

python scripts/jobs_page.py            # writes them
python scripts/jobs_page.py --print    # shows them
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from foil.cluster.catalog import MODELS, SEEDS
from foil.cluster.job import MAX_BYTES, OPTIONAL, REQUIRED
from foil.cluster.yaml_page import MAX_DEPTH, MAX_NODES
from foil.engine.flow.limits import Limits, ReplySettings, RuntimeSettings
from foil.engine.settings import Settings
from foil.prompts.recipes.catalog import RECIPES
from foil.trainer.evaluate.ablation.settings import AblationSettings
from foil.trainer.settings import EvaluateSettings, TrainSettings
from foil.trainer.train.mining.settings import MineSettings
from foil.validators.catalog import DEFAULT_VALIDATORS, VALIDATORS

DOCS = Path(__file__).resolve().parent.parent / "docs"
HEAD = f"""# The job file

Written by `python scripts/jobs_page.py` from the settings classes. A job has the keys
{", ".join(f"`{key}`" for key in REQUIRED)}, and where wanted
{", ".join(f"`{key}`" for key in OPTIONAL)}. `--set a.b=value` overrides one key, `--out` the place:
a folder or a bucket ([storage](storage.md)).

`models` is a mapping from the role that a recipe asks for (`writer`) to a model; `validators` is a list, by default
{", ".join(f"`{kind}`" for kind in DEFAULT_VALIDATORS)}.
`seeds` is one corpus or a list of them, of which one seed each is taken in turn. `recipe` is one recipe or a list; each
of a list has `share` (of the seeds that it takes, 1 by default) and `corpora` (whose seeds it takes, all by default)
next to its own keys. Relative paths start from the folder where `foil` runs.

A job is YAML 1.2: only `true` and `false` are booleans (`yes` is a text), `0o17` is octal, `1e-5` is a number,
`1:00:00` and dates are texts. Numbers are finite, within the bounds of their setting, and never texts in quotes.
Refused are tags, merge keys (`<<`), keys that stand twice, `010`, and files over {MAX_BYTES:,} bytes,
{MAX_NODES:,} values or {MAX_DEPTH} levels.
"""


KINDS: dict[str, Mapping[str, tuple[type[Settings], Any]]] = {
    "seeds": SEEDS,
    "recipe": RECIPES,
    "models": MODELS,
    "validators": VALIDATORS,
}
SECTIONS: dict[str, dict[str, type[Settings]]] = {
    "limits": {"`replies`": ReplySettings, "`limits`": Limits, "`runtime`": RuntimeSettings},
    "training": {
        "`train`": TrainSettings,
        "`evaluate`": EvaluateSettings,
        "`foil ablate FILE`": AblationSettings,
        "`foil mine OUT INTO --set KEY=VALUE`": MineSettings,
    },
}


def pages() -> dict[str, str]:
    """Every page by its place below docs/: the head with links to all tables, then one page a part of a job."""
    parts = {name: [(f"`{name}`, kind: {kind}", each[0]) for kind, each in of.items()] for name, of in KINDS.items()}
    parts |= {name: list(of.items()) for name, of in SECTIONS.items()}
    kinds = {name: ", ".join(_short(title) for title, _ in of) for name, of in parts.items()}
    rows = [f"| [{name}](jobs/{name}.md) | {titles} |" for name, titles in kinds.items()]
    head = "\n".join([HEAD, "| page | tables |", "|---|---|", *rows, ""])
    tables = {name: "\n".join(_table(title, settings) for title, settings in of) for name, of in parts.items()}
    return {"jobs.md": head, **{f"jobs/{name}.md": f"# Job file: {name}\n\n{text}" for name, text in tables.items()}}


def _short(title: str) -> str:
    return f"`{title.partition('kind: ')[2]}`" if "kind: " in title else title


def _table(title: str, settings: type[Settings]) -> str:
    summary = (settings.__doc__ or "").strip().splitlines()[0]
    rows = [f"| `{name}` | {default} | {words} |" for name, default, words in _rows(settings, "")]
    return "\n".join([f"## {title}", "", summary, "", "| key | default | meaning |", "|---|---|---|", *rows, ""])


def _rows(settings: type[BaseModel], prefix: str, section_default: object = None) -> Iterator[tuple[str, str, str]]:
    """`given`: the instance that is the default of the whole section, where there is one."""
    for name, field in settings.model_fields.items():
        if name == "kind":
            continue
        inner, default = field.annotation, getattr(section_default, name, field.default)
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _rows(inner, f"{prefix}{name}.", default)
        else:
            yield f"{prefix}{name}", _default(field, default), (field.description or "").rstrip(".").replace("|", "\\|")


def _default(field: Any, default: Any) -> str:
    if default is PydanticUndefined:
        return "required" if field.default_factory is None else "none"
    value = list(default) if isinstance(default, tuple) else default
    text = "none" if value in (None, "") else str(value).replace("|", "\\|")
    return text if len(text) <= 80 else text[:77] + "..."


if __name__ == "__main__":
    for place, text in pages().items():
        if "--print" in sys.argv[1:]:
            sys.stdout.write(text)
        else:
            (DOCS / place).parent.mkdir(exist_ok=True)
            (DOCS / place).write_text(text)
