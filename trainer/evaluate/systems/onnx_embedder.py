"""An exported embedder: the .onnx file of a model in onnxruntime, with the model's template, tokens and pooling."""

from collections.abc import Sequence
from pathlib import Path

from foil.trainer.evaluate.systems.dense import DenseSystem
from foil.trainer.evaluate.systems.embedder import facts_of_vectors, template_of
from foil.trainer.evaluate.systems.system import Progress, SystemSettings, quiet
from foil.trainer.evaluate.systems.vector_cache import Floats, VectorCache
from foil.trainer.export.exported_file import check_exported, onnx_file
from foil.trainer.export.onnx_encoder import OnnxEncoder, load_exportable
from foil.trainer.text_templates import QueryPair


class OnnxEmbedder:
    """Of `MODEL` (its float32 file) or `MODEL/onnx/FILE.onnx`."""

    def __init__(self, name: str, settings: SystemSettings) -> None:
        file = onnx_file(name)
        folder = file.parent.parent
        exportable = load_exportable(folder, template_of(folder, settings), settings.encode)
        self._encoder = OnnxEncoder(exportable, file)
        self.template, self._settings = self._encoder.template, settings
        self._name, self._weights = f"onnx:{name}", check_exported(file)

    def facts(self) -> dict[str, str | float]:
        """The digest of the file, and how texts are formed and cut."""
        form = facts_of_vectors(["onnx", self._weights], self.template, self._settings.encode, {})
        return {"system": self._name, **form}

    def encode(self, passages: Sequence[str], pairs: Sequence[QueryPair]) -> Floats:
        """Unit vectors, [passages + pairs, D]."""
        return self._encoder.encode(passages, pairs)


def onnx_embedder(name: str, settings: SystemSettings, cache: Path, on_progress: Progress = quiet) -> DenseSystem:
    """The system of an exported model."""
    encoder = OnnxEmbedder(name, settings)
    return DenseSystem(f"onnx:{name}", encoder, VectorCache(cache, str(encoder.facts()["digest"])), on_progress)
