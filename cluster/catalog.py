"""The models and seeds that a job can name. Recipes and validators have their catalogs in their own folders."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from foil.cluster.seeds.documents import DocumentsReader, DocumentsSettings
from foil.cluster.seeds.mixed import MixedReader, MixedSettings
from foil.cluster.seeds.stored_topics import RunReader, RunSettings, StoredTopicsReader, StoredTopicsSettings
from foil.cluster.seeds.training_set import TrainingSetReader, TrainingSetSettings
from foil.engine.ids import canonical_json, sha256_hex
from foil.engine.models.endpoints import HostedSettings
from foil.engine.models.local.local_vllm import LocalVllm, LocalVllmSettings
from foil.engine.models.local.pooled_vllm import EngineModel, EngineSpec, PooledVllm, engine_spec
from foil.engine.protocols import Model, SeedReader
from foil.engine.seeds.catalog import READERS
from foil.engine.settings import Settings

Factory = TypeVar("Factory", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class RunContext:
    """What a model may need of its run: the folder, and how many worker processes share the model's rates."""

    out: Path
    workers: int


def _hosted(settings: HostedSettings, context: RunContext) -> Model:
    if settings.mode == "batch":
        from foil.engine.models.batch import Batched

        endpoint_id = sha256_hex(canonical_json([settings.identity(), settings.all_endpoints()[0].url]))[:12]
        return Batched(settings, context.out / "batches" / endpoint_id)
    from foil.engine.models.hosted import Hosted

    return Hosted(settings, share=1 / max(1, context.workers))


def _local_vllm(settings: LocalVllmSettings, _context: RunContext) -> Model:
    return PooledVllm(settings) if settings.engines else _vllm_here(settings)


def _vllm_here(settings: LocalVllmSettings) -> EngineModel:
    """vLLM in or next to this process."""
    if settings.serve:
        from foil.engine.models.local.served_vllm import ServedVllm

        return ServedVllm(settings)
    return LocalVllm(settings)


def engines_of(models: Iterable[Settings]) -> tuple[EngineSpec, ...]:
    """The engines that a run has to start for these models, each model once."""
    apart = (settings for settings in models if isinstance(settings, LocalVllmSettings) and settings.engines)
    specs = (engine_spec(settings, _vllm_here) for settings in apart)
    return tuple({spec.names: spec for spec in specs}.values())


MODELS: dict[str, tuple[type[Settings], Callable[[Any, RunContext], Model]]] = {
    "hosted": (HostedSettings, _hosted),
    "local_vllm": (LocalVllmSettings, _local_vllm),
}

SEEDS: dict[str, tuple[type[Settings], Callable[[Any], SeedReader]]] = {
    **READERS,
    "documents": (DocumentsSettings, DocumentsReader),
    "run": (RunSettings, RunReader),
    "stored": (StoredTopicsSettings, StoredTopicsReader),
    "training_set": (TrainingSetSettings, TrainingSetReader),
}
"""The corpora, folders of documents, the topics of another run, and training sets of others."""


def factory_for(catalog: Mapping[str, tuple[type[Settings], Factory]], settings: Settings) -> Factory:
    """What makes the part that the settings describe."""
    return next(factory for settings_class, factory in catalog.values() if type(settings) is settings_class)


def open_seeds(settings: Settings) -> SeedReader:
    """The reader of the seeds that the settings name."""
    if isinstance(settings, MixedSettings):
        return MixedReader([open_seeds(part) for part in settings.of])
    return factory_for(SEEDS, settings)(settings)
