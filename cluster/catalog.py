"""The models and seeds that a job can name. Recipes and validators have their catalogs in their own folders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cluster.run_seeds import RunReader, RunSettings
from engine.ids import canonical_json, sha256_hex
from engine.models.endpoints import HostedSettings
from engine.models.local_vllm import LocalVllm, LocalVllmSettings
from engine.protocols import Model, SeedReader
from engine.seeds.catalog import READERS
from engine.settings import Settings
from prompts.rule_writer.model import RuleWriter


class RuleWriterSettings(Settings):
    """The embedded model: deterministic, no weights, no cost."""

    kind: Literal["rule_writer"] = "rule_writer"


@dataclass(frozen=True, slots=True)
class RunContext:
    """What a model may need to know of its run: where it is kept, and how many worker processes share its rates."""

    out: Path
    workers: int


def _hosted(settings: HostedSettings, around: RunContext) -> Model:
    if settings.mode == "batch":
        from engine.models.batch import Batched

        place = sha256_hex(canonical_json([settings.identity(), settings.all_endpoints()[0].url]))[:12]
        return Batched(settings, around.out / "batches" / place)
    from engine.models.hosted import Hosted

    return Hosted(settings, share=1 / max(1, around.workers))


def _local_vllm(settings: LocalVllmSettings, _around: RunContext) -> Model:
    if settings.serve:
        from engine.models.served_vllm import ServedVllm

        return ServedVllm(settings)
    return LocalVllm(settings)


MODELS: dict[str, tuple[type[Settings], Callable[[Any, RunContext], Model]]] = {
    "rule_writer": (RuleWriterSettings, lambda _settings, _around: RuleWriter()),
    "hosted": (HostedSettings, _hosted),
    "local_vllm": (LocalVllmSettings, _local_vllm),
}

SEEDS: dict[str, tuple[type[Settings], Callable[[Any], SeedReader]]] = {**READERS, "run": (RunSettings, RunReader)}
"""The corpora, and the topics of another run."""


def open_seeds(settings: Settings) -> SeedReader:
    """The reader that the settings belong to."""
    return next(reader for settings_class, reader in SEEDS.values() if isinstance(settings, settings_class))(settings)
