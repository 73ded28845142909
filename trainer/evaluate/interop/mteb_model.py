"""An embedder as mteb's own evaluator takes it: queries and passages in the form that the model learnt.

    import mteb
    from foil.trainer.evaluate.interop.mteb_model import load_for_mteb
    mteb.evaluate(load_for_mteb("out/demo/model"), tasks=[mteb.get_task("Core17InstructionRetrieval")])

mteb joins query and instruction by itself, the instruction last; here the template of foil.json joins them. The prompt
that a task has for models with prompts is no instruction of a query and is not used. Written for mteb 2.26.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from foil.engine.errors import UsageError
from foil.trainer.evaluate.systems.dense import Floats
from foil.trainer.evaluate.systems.embedder import LocalEncoder
from foil.trainer.evaluate.systems.system import SystemSettings
from foil.trainer.model.card import base_model, licence, shown_name
from foil.trainer.model.checksums import FACTS, read_facts
from foil.trainer.model.late_interaction import need_one_vector

if TYPE_CHECKING:
    from mteb.models.model_meta import ModelMeta

INSTALL = "mteb is not installed; pip install 'foil-ir[interop]'"


def load_for_mteb(name: str | Path, settings: SystemSettings | None = None) -> "MtebEncoder":
    """The model in a directory or of a hub name, or `base`, encoded as `foil evaluate` encodes it.

    Raises UsageError where there is no such model or mteb is not installed, CorruptDataError where it is damaged.
    """
    settings = settings or SystemSettings()
    encoder = LocalEncoder(str(name), settings)
    need_one_vector(encoder.encoder, name, "mteb's evaluator here")
    return MtebEncoder(encoder, _meta(str(name), encoder, settings))


class MtebEncoder:
    """mteb's `EncoderProtocol`. All vectors have length 1, so the dot product is the cosine."""

    def __init__(self, encoder: LocalEncoder, mteb_model_meta: "ModelMeta") -> None:
        self.mteb_model_meta = mteb_model_meta
        self._encoder = encoder

    def encode(
        self, inputs: Iterable[Mapping[str, Sequence[str]]], *, prompt_type: str | None = None, **_: Any
    ) -> Floats:
        """[texts, D]. Texts of a task without queries are encoded as passages."""
        batches = list(inputs)
        if prompt_type == "query":
            return self._encoder.encode([], [pair for batch in batches for pair in _pairs(batch)])
        form = self._encoder.template.format_passage
        return self._encoder.encode([form(*parts) for batch in batches for parts in _passages(batch)], [])

    def similarity(self, first: Floats | Tensor, second: Floats | Tensor) -> Floats | Tensor:
        """[first, second]."""
        return first @ second.T

    def similarity_pairwise(self, first: Floats | Tensor, second: Floats | Tensor) -> Floats | Tensor:
        """[texts]."""
        return (first * second).sum(-1)


def _pairs(batch: Mapping[str, Sequence[str]]) -> Iterable[tuple[str, str]]:
    """(instruction, query); `text` has both where there is a `query`."""
    queries = batch.get("query", batch["text"])
    return zip(batch.get("instruction") or [""] * len(queries), queries, strict=True)


def _passages(batch: Mapping[str, Sequence[str]]) -> Iterable[tuple[str, str]]:
    """(title, text); `text` has both where there is a `body`."""
    texts = batch.get("body", batch["text"])
    return zip(batch.get("title") or [""] * len(texts), texts, strict=True)


def _meta(name: str, encoder: LocalEncoder, settings: SystemSettings) -> "ModelMeta":
    """What mteb keeps its results by: name, digest of the weights, and settings that are not the default."""
    try:
        from mteb.models.model_meta import ModelMeta
    except ImportError as error:
        raise UsageError(f"{INSTALL} ({error})") from None
    facts = read_facts(Path(name)) if (Path(name) / FACTS).is_file() else None
    own = encoder.facts()
    changed = settings.model_dump(mode="json", include={"template", "encode"}, exclude_defaults=True)
    return ModelMeta(
        loader=None, name=shown_name(name), revision=str(own["weights"]), release_date=None, languages=None,
        n_parameters=sum(weights.numel() for weights in encoder.encoder.parameters()), memory_usage_mb=None,
        max_tokens=own["max_tokens"], embed_dim=encoder.encoder.model.get_embedding_dimension(),
        license=facts and licence(facts), open_weights=True, public_training_code=None, public_training_data=None,
        framework=["Sentence Transformers", "PyTorch"], similarity_fn_name="cosine", use_instructions=True,
        training_datasets=None, adapted_from=facts and base_model(facts), experiment_kwargs=changed or None,
    )  # fmt: skip
