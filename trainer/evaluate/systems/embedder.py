"""Local embedders: a directory, the packaged MiniLM (`base`), a name of the Hugging Face hub, an ONNX file of a model.

A model that Foil trained gets the template that it learnt. Another one gets query and then instruction, behind the
prompts that its own configuration names (`query`, and `document` or `passage`), as mteb does.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from huggingface_hub import snapshot_download

from foil.engine.ids import canonical_json, sha256_hex
from foil.trainer.evaluate.systems.dense import DenseSystem, Floats, VectorCache
from foil.trainer.evaluate.systems.system import Progress, SystemSettings, quiet
from foil.trainer.export.exported_file import check_exported, onnx_file
from foil.trainer.export.onnx_encoder import OnnxEncoder, load_exportable
from foil.trainer.model.checksums import folder_digest, trained_template
from foil.trainer.model.encoder import Encoder, load_encoder
from foil.trainer.model.packaged_minilm import minilm_folder
from foil.trainer.model.packing import evaluating
from foil.trainer.settings import EncodeSettings
from foil.trainer.text_templates import CUT, OWN, QueryPair, TextTemplate, template_named

BASE = "base"


class LocalEncoder:
    """A model of sentence-transformers in this process."""

    def __init__(self, name: str, settings: SystemSettings) -> None:
        path = minilm_folder() if name == BASE else name
        self.encoder = load_encoder(path, template_of(Path(path), settings), settings.encode)
        self.template, self._name, self._settings = self.encoder.template, name, settings
        self._weights = folder_digest(model_folder(str(path)))

    def facts(self) -> dict[str, str | float]:
        """The digest of the model's files, and how texts are formed and cut."""
        encode = self.encoder.settings
        form = facts_of_vectors([self._weights], self.template, encode, {"precision": encode.precision})
        return {"system": self._name, **form}

    def encode(self, passages: Sequence[str], pairs: Sequence[QueryPair]) -> Floats:
        """Unit vectors, [passages + pairs, D], or of tokens, [passages + pairs, T, D]."""
        return unit_vectors(self.encoder, passages, pairs)


def template_of(folder: Path, settings: SystemSettings, untrained: str = OWN) -> TextTemplate:
    """The one that the settings name, else the one that the model learnt, else that of models of others."""
    own = trained_template(folder) or template_named(untrained)
    return template_named(settings.template) if settings.template else own


def facts_of_vectors(
    weights: Sequence[str], template: TextTemplate, encode: EncodeSettings, more: Mapping[str, str]
) -> dict[str, str | float]:
    """What decides vectors, and its digest; the last of `weights` is the digest of the model's files."""
    tokens = {"max_tokens": encode.max_tokens, "query_tokens": encode.query_tokens or encode.max_tokens}
    form = {"pair": template.pair, "passage": template.passage, **more}
    digest = sha256_hex(canonical_json([*weights, tokens, form, CUT]))
    return {"weights": weights[-1], "digest": digest, "template": template.name, **form, **tokens}


def unit_vectors(encoder: Encoder, passages: Sequence[str], pairs: Sequence[QueryPair]) -> Floats:
    """The vectors of passages, then of pairs, [passages + pairs, ...], without gradients and dropout."""
    with torch.inference_mode(), evaluating(encoder):
        vectors: Floats = encoder.encode(passages, pairs).cpu().numpy()
    return vectors


def embedder(name: str, settings: SystemSettings, cache: Path, on_progress: Progress = quiet) -> DenseSystem:
    """The system of a local model."""
    encoder = LocalEncoder(name, settings)
    return DenseSystem(name, encoder, VectorCache(cache, str(encoder.facts()["digest"])), on_progress)


def model_folder(name: str) -> Path:
    """The directory of a model that was loaded: itself, or the hub's copy on this machine."""
    return Path(name) if Path(name).is_dir() else Path(snapshot_download(name, local_files_only=True))


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
