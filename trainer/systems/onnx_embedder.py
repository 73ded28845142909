"""An exported embedder: the .onnx file of a model in onnxruntime, with the model's template, tokens and pooling."""

from collections.abc import Sequence
from pathlib import Path

from foil.engine.ids import canonical_json, sha256_hex
from foil.trainer.export.exported_file import check_exported, onnx_file
from foil.trainer.export.onnx_encoder import OnnxEncoder, load_exportable
from foil.trainer.model.checksums import trained_template
from foil.trainer.systems.dense import DenseSystem
from foil.trainer.systems.system import Progress, SystemSettings, quiet
from foil.trainer.systems.vector_cache import Floats, VectorCache
from foil.trainer.text_templates import CUT, OWN, QueryPair, template_named


class OnnxEmbedder:
    """Of `MODEL` (its float32 file) or `MODEL/onnx/FILE.onnx`."""

    def __init__(self, name: str, settings: SystemSettings) -> None:
        file = onnx_file(name)
        folder = file.parent.parent
        own = trained_template(folder) or template_named(OWN)
        template = template_named(settings.template) if settings.template else own
        self._encoder = OnnxEncoder(load_exportable(folder, template, settings.encode), file)
        self.template, self._settings = self._encoder.template, settings
        self._name, self._weights = f"onnx:{name}", check_exported(file)

    def facts(self) -> dict[str, str | float]:
        """The digest of the file, and how texts are formed and cut."""
        encode = self._settings.encode
        tokens = {"max_tokens": encode.max_tokens, "query_tokens": encode.query_tokens or encode.max_tokens}
        form = {"pair": self.template.pair, "passage": self.template.passage}
        digest = sha256_hex(canonical_json(["onnx", self._weights, tokens, form, CUT]))
        return {"system": self._name, "weights": self._weights, "digest": digest, "template": self.template.name,
                **form, **tokens}  # fmt: skip

    def encode(self, passages: Sequence[str], pairs: Sequence[QueryPair]) -> Floats:
        """Unit vectors, [passages + pairs, D]."""
        return self._encoder.encode(passages, pairs)


def onnx_embedder(name: str, settings: SystemSettings, cache: Path, on_progress: Progress = quiet) -> DenseSystem:
    """The system of an exported model."""
    encoder = OnnxEmbedder(name, settings)
    return DenseSystem(f"onnx:{name}", encoder, VectorCache(cache, str(encoder.facts()["digest"])), on_progress)
