"""An embedder whose transformer runs in onnxruntime: its tokens, pooling and template are those of the model.

onnxruntime alone is needed. `SentenceTransformer(path, backend="onnx")` reads the same files through optimum-onnx, and
its newest release (0.1.0) asks for transformers below 4.58, which Foil is past.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from foil.engine.errors import CorruptDataError, UsageError
from foil.trainer.model.encoder import Encoder, PaddedBatch, load_encoder, restore_order
from foil.trainer.model.late_interaction import need_one_vector
from foil.trainer.model.loading import backbone_of
from foil.trainer.model.packing import is_causal, micro_batches
from foil.trainer.model.pair_scorer import PairScorer, TextPair, load_pair_scorer, transformer_of
from foil.trainer.model.two_encoders import split_encoders
from foil.trainer.model_settings import ModelSettings
from foil.trainer.settings import EncodeSettings
from foil.trainer.text_templates import QueryPair, TextTemplate

Floats = NDArray[np.float32]


class OnnxEncoder:
    """Makes unit vectors with the transformer in an .onnx file, and all else of `encoder`."""

    def __init__(self, encoder: Encoder, file: Path) -> None:
        self.encoder, self.template = encoder, encoder.template
        self._session = open_session(file)
        self._inputs = [each.name for each in self._session.get_inputs()]

    def encode(self, passages: Sequence[str], pairs: Sequence[QueryPair]) -> Floats:
        """[passages + pairs, D]."""
        with torch.inference_mode():
            batches = self.encoder.micro_batches(passages, pairs)
            vectors: Floats = restore_order(batches, [self._vectors(batch) for batch in batches]).numpy()
        return vectors

    def _vectors(self, batch: Any) -> Tensor:
        assert isinstance(batch, PaddedBatch)
        states = torch.from_numpy(self._session.run(None, feed_of(batch.features, self._inputs))[0])
        features: dict[str, Any] = {**batch.features, "token_embeddings": states}
        for module in list(self.encoder.model)[1:]:
            features = module(features)
        return functional.normalize(features["sentence_embedding"].float(), dim=1)


def load_exportable(folder: str | Path, template: TextTemplate, settings: EncodeSettings) -> Encoder:
    """The encoder of a model that can be one graph, on the CPU in float32; UsageError for others."""
    exact = settings.model_copy(update={"precision": "float32", "shared_prefix": False})
    encoder = load_encoder(folder, template, exact, ModelSettings(device="cpu"))
    need_one_vector(encoder, folder, "an ONNX file")
    if encoder.attention or len(dict.fromkeys(split_encoders(encoder.model))) > 1:
        raise UsageError(f"{folder} has two encoders or cross-attention, which ONNX files do not hold; export another")
    if is_causal(backbone_of(encoder.model)):
        raise UsageError(f"{folder} is a decoder; only encoders are exported, such as BERT, MiniLM or ModernBERT")
    return encoder


def open_session(file: Path) -> Any:
    """An onnxruntime session on the CPU, with torch's number of threads.

    Raises UsageError where there is no such file or no onnxruntime, CorruptDataError where it does not load.
    """
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise UsageError("ONNX files need onnxruntime; pip install 'foil-ir[onnx]'") from error
    if not file.is_file():
        raise UsageError(f"there is no {file}; `foil export MODEL` writes it")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the library raises errors of its own, without a common base
        raise CorruptDataError(f"{file} does not load ({error}); run `foil export` again") from error


def feed_of(features: Mapping[str, Tensor], names: Sequence[str]) -> dict[str, np.ndarray]:
    """The inputs of a graph; segments that the tokenizer leaves out are zeros."""
    empty = torch.zeros_like(features["input_ids"])
    return {name: features.get(name, empty).numpy() for name in names}


class OnnxScorer:
    """Scores pairs with the cross-encoder in an .onnx file; tokens, their limit and template are those of `scorer`."""

    def __init__(self, scorer: PairScorer, file: Path) -> None:
        self._scorer, self.texts = scorer, scorer.texts
        self._session = open_session(file)
        self._inputs = [each.name for each in self._session.get_inputs()]

    def score(self, pairs: Sequence[TextPair]) -> Tensor:
        """The scores of pairs, in their order, [n]."""
        rows, scores = self._scorer.tokenise(pairs), torch.zeros(len(pairs))
        for chunk in micro_batches([len(row["input_ids"]) for row in rows], self._scorer.budget):
            features = self._scorer.pad([rows[row] for row in chunk])
            scores[chunk] = torch.from_numpy(self._session.run(None, feed_of(features, self._inputs))[0]).reshape(-1)
        return scores


def load_exportable_scorer(folder: str | Path, template: TextTemplate, settings: EncodeSettings) -> PairScorer:
    """The reranker in a folder, on the CPU in float32, with a head that a graph can hold; UsageError for a decoder."""
    exact = settings.model_copy(update={"precision": "float32"})
    scorer = load_pair_scorer(folder, template, exact, ModelSettings(device="cpu"))
    transformer = transformer_of(scorer.model)
    if is_causal(transformer.base_model):
        raise UsageError(f"{folder} is a decoder; only encoders are exported, such as BERT, MiniLM or ModernBERT")
    for module in transformer.modules():
        if isinstance(module, nn.Linear):
            module.__class__ = nn.Linear  # in float32 the head's own class makes no difference
    return scorer


def has_pair_head(folder: Path) -> bool:
    """Whether the weights in a folder are a cross-encoder's, by config.json."""
    config = folder / "config.json"
    return config.is_file() and "ForSequenceClassification" in config.read_text(encoding="utf-8", errors="replace")
