"""A first job as its author reads it: the sections in the order of a job, each with a comment."""

from collections.abc import Mapping
from typing import Any

import yaml

_WORDS = {
    "seeds": "the queries and texts that topics are made of; `foil seeds preview` shows the first",
    "recipe": "how a topic is made (docs/recipes.md)",
    "models": "who writes, and who judges; another model than the writer judges better (docs/models.md)",
    "validators": "what must hold of a topic; a judge_... asks a model (docs/judges.md)",
    "out": "a folder for the run, or s3://BUCKET/RUN",
    "limits": "the run ends here; raise them, and the same command goes on",
}


def job_page(document: Mapping[str, Any], file: str) -> str:
    """The text of the job file."""
    parts = [f"# `foil init` wrote this. `foil plan {file}` says what it asks and costs. Every setting: docs/jobs.md\n"]
    for name, words in _WORDS.items():
        if document.get(name):
            flow = False if name in {"models", "out"} else None
            section = {name: document[name]}
            body = yaml.safe_dump(section, default_flow_style=flow, sort_keys=False, allow_unicode=True, width=110)
            parts.append(f"\n# {words}\n{body}")
    return "".join(parts)
