"""The models that a job can name. Readers, recipes and validators have their catalogs in their own folders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from engine.models.endpoints import HostedSettings
from engine.protocols import Model
from engine.settings import Settings
from prompts.rule_writer import RuleWriter


class RuleWriterSettings(Settings):
    """The embedded model: deterministic, no weights, no cost."""

    kind: Literal["rule_writer"] = "rule_writer"


def _hosted(settings: HostedSettings) -> Model:
    from engine.models.hosted import Hosted

    return Hosted(settings)


MODELS: dict[str, tuple[type[Settings], Callable[[Any], Model]]] = {
    "rule_writer": (RuleWriterSettings, lambda _settings: RuleWriter()),
    "hosted": (HostedSettings, _hosted),
}
