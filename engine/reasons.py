"""Why a topic is rejected, marked or failed, or a label dropped: one entry for each reason code, in `reasons.yaml`.

Whoever gives a new reason writes its entry there. Own validators and curators may give reasons of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml


@dataclass(frozen=True, slots=True)
class ReasonEntry:
    """A reason code: who decides it, what it means, what mends it (a setting, a command), and an example."""

    name: str
    who: str
    meaning: str
    mend: str
    example: str


@cache
def reason_entries() -> Mapping[str, ReasonEntry]:
    """Every reason by its code, in the order of a topic's life."""
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    return {name: ReasonEntry(name, **entry) for name, entry in yaml.load(text, yaml.CSafeLoader).items()}
