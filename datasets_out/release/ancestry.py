"""What a run was asked for, as a card may show it, and the runs that it was made of, back to those made of seeds.

    sources.json of a run -> the run.json of each source, where it still lies there -> its sources -> ...

Promise: nothing of this names a folder of ours or a key. A source that is gone, or is another run by now, stays listed
by its fingerprint.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.curation.origins import RunSource, read_sources
from foil.engine.errors import CommitError, CorruptDataError, NoRunError
from foil.engine.keys import looks_like_key, scrub

_FOLDERS = re.compile(r"(?<![\w.:/~])(?:file:/*|~)?/(?:[^\s/'\"]+/)+")
_USER = re.compile(r"://[^/\s@]+@")


@dataclass(frozen=True, slots=True)
class AncestorRun:
    """A run behind another one: its fingerprint, the digest of what was taken, and its job; {} if it is gone."""

    fingerprint: str
    digest: str
    job: Mapping[str, Any]


def read_ancestors(out: Path) -> tuple[AncestorRun, ...]:
    """Every run behind a run, each once, the nearest first."""
    runs: dict[tuple[str, str], AncestorRun] = {}
    folders = [out]
    for folder in folders:
        for source in read_sources(folder):
            key = source.fingerprint, source.digest
            if key not in runs:
                runs[key] = AncestorRun(*key, _job_of(source))
                folders += [Path(source.out)] if runs[key].job else []
    return tuple(runs.values())


def _job_of(source: RunSource) -> Mapping[str, Any]:
    try:
        run = CommitLog(Path(source.out)).run()
        read_sources(Path(source.out))
    except (NoRunError, CommitError, CorruptDataError, OSError):
        return {}
    job: Mapping[str, Any] = run["job"] if run["fingerprint"] == source.fingerprint else {}
    return job


def is_derived(job: Mapping[str, Any]) -> bool:
    """Whether a run was made of other runs by a command, and so has no seeds and recipe of its own."""
    return not {"seeds", "recipe"} & job.keys()


def shown_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """What decided the rows: seeds, recipe, validators and models, or what was chosen; of named topics their number."""
    if is_derived(job):
        page = {
            name: {**part, "topics": len(part["topics"])} if isinstance(part, Mapping) and "topics" in part else part
            for name, part in job.items()
        }
    else:
        page = {name: job[name] for name in ("seeds", "recipe", "validators") if job.get(name)}
        models = {role: model.get("model") or model.get("kind") for role, model in job.get("models", {}).items()}
        page |= {"models": models} if models else {}
    cleaned: dict[str, Any] = cleaned_value(page)
    return cleaned


def cleaned_value(value: Any) -> Any:
    """The value without folders, keys and users of addresses."""
    if isinstance(value, Mapping):
        return {cleaned_value(name): cleaned_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned_value(part) for part in value]
    if not isinstance(value, str):
        return value
    if looks_like_key(value):
        return "***"
    if value.startswith("/"):
        return Path(value).name
    return _USER.sub("://", _FOLDERS.sub("", scrub(value)))
